#!/usr/bin/env bash
# Builds the image of deploy/compose.yaml: ARL's wheel with the dashboard, then deploy/Dockerfile over it.
#   deploy/image.sh [TAG] [ARGUMENTS OF docker build …]     TAG: arl:latest
#   ARL_IMAGE_CONTEXT=DIR   a folder that is kept, with more for the image's build: wheels/, for a place without an index
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=${1:-arl:latest}
[ $# = 0 ] || shift
[ -f controller/api/static/index.html ] || { echo "$0: the dashboard is not built: make web" >&2; exit 1; }

context=${ARL_IMAGE_CONTEXT:-build/image}
mkdir -p "$context"
rm -f "$context"/arl-*.whl
.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$context" .
cp constraints/cpu.txt "$context/constraints.txt"
docker build --file deploy/Dockerfile --tag "$tag" "$@" "$context"
