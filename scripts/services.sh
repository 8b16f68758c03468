#!/usr/bin/env bash
# Sees to the system packages that some test groups need. As root on a Debian-like system it installs what is
# missing; otherwise it changes nothing, and scripts/check.py lists the groups that could not run.
# The tests start private servers in a temporary folder; no service of the machine is created, started or touched.
set -euo pipefail

say() { printf '==> %s\n' "$*"; }

has_postgresql() {
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# Debian's package creates a cluster and starts a service. Both are switched off while it installs, and put back after.
POLICY=/usr/sbin/policy-rc.d
CREATE=/etc/postgresql-common/createcluster.conf
made_policy='' kept_create=''

restore() {
  if [ -n "$made_policy" ]; then rm -f "$POLICY"; fi
  if [ -n "$kept_create" ]; then cp -p "$kept_create" "$CREATE"; rm -f "$kept_create"; fi
}

install_quietly() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

install_postgresql() {
  say "Installing PostgreSQL with apt-get for the postgres test group (no cluster is created, no service started)"
  trap restore EXIT
  if [ ! -e "$POLICY" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
  fi
  apt-get update -qq
  install_quietly postgresql-common
  kept_create=$(mktemp)
  cp -p "$CREATE" "$kept_create"
  echo 'create_main_cluster = false' >>"$CREATE"
  install_quietly postgresql
}

install_bubblewrap() {
  say "Installing bubblewrap with apt-get for the bubblewrap test group"
  apt-get update -qq
  install_quietly bubblewrap
}

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi
if ! command -v bwrap >/dev/null; then install_bubblewrap; fi
if ! has_postgresql; then install_postgresql; fi
