#!/usr/bin/env bash
# Creates .venv and installs ARL with its pinned dependencies. Needs no root; does nothing when nothing changed.
#   PYTHON=/path/to/python   use this interpreter
#   ARL_TORCH=cuda|cpu       force a build of PyTorch (default: CPU unless an NVIDIA driver is loaded)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

EXTRAS=train,server,postgres,parquet,evidence,docker,http,ray,optuna,ppo,dev
STAMP=.venv/arl-setup-stamp
started=$SECONDS

say() { printf '==> %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
quietly=(); [ -t 1 ] || quietly=(--quiet --quiet)

is_suitable() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Only as root, only when something is missing, and never without saying so.
apt_install() {
  say "Installing $* with apt-get" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

search_python() {
  local name
  for name in python3.11 python3.12 python3.13 python3 python3.14 python; do
    if is_suitable "$name"; then command -v "$name"; return; fi
  done
  return 1
}

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    is_suitable "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11 to 3.14"
    echo "$PYTHON"
  elif search_python; then
    return
  elif can_apt && apt_install python3 python3-venv && search_python; then
    return
  else
    die "no Python 3.11 or newer found. Install one (Debian 12+, Ubuntu 24.04+: sudo apt-get install python3 python3-venv; \
otherwise see python.org) or name it: make setup PYTHON=/path/to/python"
  fi
}

# Debian ships python3 without ensurepip; fall back on an installed pip, then on apt when we are root.
create_venv() {
  local python=$1 version
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  rm -rf .venv
  if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -m venv .venv
  elif "$python" -c 'import venv, pip' 2>/dev/null; then
    "$python" -m venv --without-pip .venv
    "$python" -m pip --python .venv/bin/python install --quiet pip
  elif can_apt; then
    apt_install python3-venv || apt_install "python$version-venv"
    "$python" -m venv .venv
  else
    die "$python has no venv module. Install it (Debian, Ubuntu: sudo apt-get install python$version-venv) and run again"
  fi
}

# PyPI's PyTorch for Linux is the CUDA build, several GB. Without an NVIDIA driver take the CPU build.
torch_index=()
choose_torch() {
  local wanted=${ARL_TORCH:-}
  [ -n "$wanted" ] || { [ -e /proc/driver/nvidia/version ] && wanted=cuda || wanted=cpu; }
  [ "$wanted" = cpu ] && [ "$(uname -s)" = Linux ] || return 0
  local url=https://download.pytorch.org/whl/cpu
  if .venv/bin/python -c "import urllib.request as u; u.urlopen('$url/torch/', timeout=5)" 2>/dev/null; then
    torch_index=(--extra-index-url "$url")
  fi
}

main() {
  local python fingerprint
  [ "$(uname -s)" = Linux ] || die "ARL runs on Linux (it uses pidfds and subreapers), not on $(uname -s)"
  if [ -x .venv/bin/python ] && is_suitable .venv/bin/python; then python=.venv/bin/python; else python=$(find_python); fi
  fingerprint=$({ cat pyproject.toml constraints/cpu.txt; echo "$EXTRAS" "$PWD"; "$python" --version; cat scripts/beside.sh; } | sha256sum | cut -d' ' -f1)
  if [ "$python" = .venv/bin/python ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$fingerprint" ]; then return; fi

  if [ "$python" != .venv/bin/python ]; then
    say "Creating .venv with $("$python" --version) ($python)"
    create_venv "$python"
  fi
  if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    choose_torch
    say "Installing PyTorch ($(grep -i '^torch==' constraints/cpu.txt); the largest download, a minute or two)"
    .venv/bin/python -m pip install "${quietly[@]}" "${torch_index[@]}" -c constraints/cpu.txt torch
  fi
  say "Installing ARL and its dependencies ($(grep -c '==' constraints/cpu.txt) pinned packages; about a minute)"
  .venv/bin/python -m pip install "${quietly[@]}" -e ".[$EXTRAS]" -c constraints/cpu.txt
  rm -rf .torchao # it was made beside what .venv had before
  scripts/beside.sh torchao
  echo "$fingerprint" >"$STAMP"
  say "Ready in $((SECONDS - started)) s: .venv/bin/arl"
}

# Two makes started together take turns.
if command -v flock >/dev/null; then exec 9>.setup.lock; flock 9; fi
main
