#!/usr/bin/env bash
# Installs MLflow beside ARL's .venv (default .mlflow, about 60 MB), for the tests of `arl export --format mlflow`.
#   scripts/mlflow_beside.sh [DIRECTORY]
# The environment sees everything that .venv has. Does nothing where it is installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=3.17.2
place=${1:-.mlflow}
python=${PYTHON:-.venv/bin/python}
stamp=$place/arl-stamp
started=$SECONDS

if [ "$(cat "$stamp" 2>/dev/null)" = "$VERSION" ]; then exit 0; fi
[ -x "$python" ] || { echo "mlflow_beside: no $python: run make setup first, or set PYTHON" >&2; exit 1; }
rm -rf "$place"
"$python" -m venv "$place"
theirs=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mine=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# addsitedir: what .venv has installed in development mode is found, too.
echo "import site; site.addsitedir('$theirs')" >"$mine/beside.pth"
printf '==> Installing mlflow-skinny %s into %s\n' "$VERSION" "$place"
"$place/bin/python" -m pip install --quiet "mlflow-skinny==$VERSION"
MLFLOW_DISABLE_TELEMETRY=true "$place/bin/python" -c 'import mlflow' >/dev/null 2>&1
echo "$VERSION" >"$stamp"
printf '==> Ready in %s s: %s\n' "$((SECONDS - started))" "$place/bin/python"
