#!/usr/bin/env bash
# Writes what compose.yaml needs and no repository may hold: .env and secrets/, beside it. What is there already is kept.
#   deploy/prepare.sh [DIRECTORY FOR ARL'S DATA]      /var/lib/arl
# Run it as the user who is to own that data; the containers run as this user.
set -euo pipefail
umask 077
cd "$(dirname "${BASH_SOURCE[0]}")"

home=${1:-/var/lib/arl}
socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
socket=${socket#unix://}

die() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }
[[ $home == /* ]] || die "$home: write a whole path; it is the same on this machine and in the containers"
[ -S "$socket" ] || die "$socket is no socket: start Docker, or name its engine in DOCKER_HOST"
mkdir -p "$home" secrets || die "$home cannot be made: make it, and give it to $(id -un)"
[ -w "$home" ] || die "$home is not writable for $(id -un)"

secret() { head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \n'; }
# The folder is closed to everybody else; the files must be readable for the containers' own users.
keep() {
  if [ ! -e "secrets/$1" ]; then printf '%s' "$3" >"secrets/$1"; chmod "$2" "secrets/$1"; fi
}

keep postgres_password 644 "$(secret)"
keep pgpass 600 "postgres:5432:arl:arl:$(cat secrets/postgres_password)
"
keep grafana_password 644 "$(secret)"
keep prometheus_token 644 ""
keep admin_token 600 ""
keep arl.env 600 "# Secrets of studies, models and webhooks: ARL_SECRET_NAME=value, a line each (docs/llm.md, docs/service.md).
"

if [ ! -e .env ]; then
  cat >.env <<END
# Read by docker compose. Written by prepare.sh; yours to change.
ARL_HOME=$home
ARL_HOST=$(hostname)
ARL_UID=$(id -u)
ARL_GID=$(id -g)
DOCKER_SOCKET=$socket
DOCKER_GID=$(stat -c %g "$socket")
ARL_IMAGE=arl:latest
ARL_WORKERS=2
# The name that people write in their browser, and where the server listens. Put TLS before any but this machine's own.
ARL_NAME=localhost
ARL_LISTEN=127.0.0.1:8420
END
fi
echo "deploy/.env and deploy/secrets/ are there; next: make image, then docker compose up -d in deploy/"
