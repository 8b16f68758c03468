#!/usr/bin/env bash
# Installs DeepSpeed beside ARL's .venv (default .deepspeed, about 50 MB), for the tests with the marker deepspeed.
#   scripts/deepspeed_cpu.sh [DIRECTORY]
# The environment sees everything that .venv has. DeepSpeed's own kernels are not built: ZeRO needs none, and a CPU has
# no use for them. Does nothing where it is installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=0.19.8
place=${1:-.deepspeed}
python=${PYTHON:-.venv/bin/python}
stamp=$place/arl-stamp
started=$SECONDS

if [ "$(cat "$stamp" 2>/dev/null)" = "$VERSION" ]; then exit 0; fi
[ -x "$python" ] || { echo "deepspeed_cpu: no $python: run make setup first, or set PYTHON" >&2; exit 1; }
rm -rf "$place"
"$python" -m venv "$place"
theirs=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mine=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# addsitedir: what .venv has installed in development mode is found, too.
echo "import site; site.addsitedir('$theirs')" >"$mine/beside.pth"
printf '==> Installing deepspeed %s into %s\n' "$VERSION" "$place"
DS_BUILD_OPS=0 "$place/bin/python" -m pip install --quiet --no-build-isolation "deepspeed==$VERSION"
DS_ACCELERATOR=cpu "$place/bin/python" -c 'import deepspeed' >/dev/null 2>&1
echo "$VERSION" >"$stamp"
printf '==> Ready in %s s: %s\n' "$((SECONDS - started))" "$place/bin/python"
