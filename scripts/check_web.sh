#!/usr/bin/env bash
# Checks the dashboard: its types against the API as it is, its style, its compilation and its component tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! .venv/bin/python scripts/openapi.py | diff -q web/openapi.json - >/dev/null; then
  echo 'web/openapi.json is not what the API says now: .venv/bin/python scripts/openapi.py >web/openapi.json, and' \
    'npm --prefix web run types' >&2
  exit 1
fi
bash scripts/build_web.sh
export PATH="$PWD/.venv/bin:$PATH" # where build_web.sh puts Node when the machine has none
npm --prefix web run --silent check
