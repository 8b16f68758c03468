#!/usr/bin/env bash
# Sees to the system packages that some test groups need: PostgreSQL, bubblewrap, a Docker engine, squid, Chromium. As root on a
# Debian-like system it installs what is missing, saying so; otherwise it changes nothing, and scripts/check.py tells
# which groups could not run and why. What is installed already is left as it is.
#   scripts/services.sh [slow]     slow: what the tests marked slow need, too
# The tests start private servers in temporary folders; no service of the machine is created, started or touched.
set -euo pipefail

say() { printf '==> %s\n' "$*"; }

# Debian's packages start services, and PostgreSQL's creates a cluster. All of it is switched off while they install.
POLICY=/usr/sbin/policy-rc.d
CREATE=/etc/postgresql-common/createcluster.conf

forbid_services() {
  if [ -e "$POLICY" ]; then return; fi
  trap 'rm -f "$POLICY"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$POLICY"
  chmod 755 "$POLICY"
}

is_known() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

install_quietly() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

# Else they would start at the next boot, which nobody asked for.
keep_off() {
  if command -v systemctl >/dev/null; then systemctl disable -q "$@" >/dev/null 2>&1 || true; fi
  local unit
  for unit in "$@"; do
    if [ -e "/etc/init.d/${unit%.service}" ]; then update-rc.d "${unit%.service}" disable >/dev/null 2>&1 || true; fi
  done
}

has_postgresql() {
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

install_postgresql() {
  say "Installing PostgreSQL with apt-get for the postgres test group (no cluster is created, no service started)"
  install_quietly postgresql-common
  cp -p "$CREATE" "$CREATE.kept"
  trap 'mv -f "$CREATE.kept" "$CREATE"' EXIT
  echo 'create_main_cluster = false' >>"$CREATE"
  install_quietly postgresql
}

has_bubblewrap() { command -v bwrap >/dev/null; }

install_bubblewrap() {
  say "Installing bubblewrap with apt-get for the bubblewrap test group"
  install_quietly bubblewrap
}

has_docker() {
  local tool
  for tool in dockerd docker containerd runc docker-init iptables ip; do
    command -v "$tool" >/dev/null || return 1
  done
}

install_docker() {
  local packages=(iproute2 iptables)
  command -v dockerd >/dev/null || packages+=(docker.io)
  # Newer releases have the client in a package of its own.
  if ! command -v docker >/dev/null && is_known docker-cli; then packages+=(docker-cli); fi
  say "Installing ${packages[*]} with apt-get for the docker test group (no service is started)"
  install_quietly "${packages[@]}"
  keep_off docker.service docker.socket containerd.service
}

has_squid() { command -v squid >/dev/null && command -v ip >/dev/null; }

install_squid() {
  local package=squid
  if is_known squid-openssl; then package=squid-openssl; fi
  say "Installing $package and iproute2 with apt-get for the egress test group (no service is started)"
  install_quietly "$package" iproute2
  keep_off squid.service
}

has_chromium() { command -v chromium >/dev/null || command -v google-chrome >/dev/null; }

has_compose() { command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1; }

install_compose() {
  say "Installing docker-compose with apt-get for the slow test of deploy/compose.yaml"
  install_quietly docker-compose
}

has_prometheus() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

install_prometheus() {
  say "Installing prometheus with apt-get for the slow tests of what watches ARL (no service is started)"
  install_quietly prometheus
  keep_off prometheus.service
}

install_chromium() {
  say "Installing Chromium with apt-get for the browser test group"
  install_quietly chromium
}

has_faketime() { compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null; }

install_faketime() {
  say "Installing libfaketime with apt-get for the tests whose clock jumps"
  install_quietly libfaketime
}

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi
missing=()
wanted=(bubblewrap postgresql docker squid chromium faketime)
[ "${1:-}" != slow ] || wanted+=(compose prometheus)
for what in "${wanted[@]}"; do
  "has_$what" || missing+=("$what")
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi

forbid_services
apt-get update -qq || say "apt-get update failed; going on with the lists there are"
for what in "${missing[@]}"; do
  # One that cannot be installed fails its own test group later, not all of them now. A condition would
  # switch off `set -e` inside.
  set +e
  (set -e; "install_$what")
  code=$?
  set -e
  if [ $code != 0 ]; then say "Could not install what $what needs (exit status $code); its test group will say so"; fi
done
