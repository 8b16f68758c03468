#!/usr/bin/env bash
# Installs what cannot be in ARL's .venv beside it, in an environment of its own that sees everything .venv has:
#   scripts/beside.sh torchao [DIRECTORY]          int8 and int4 (default .torchao, 10 MB); make setup does it
#   scripts/beside.sh llmcompressor [DIRECTORY]    GPTQ and AWQ (default .llmcompressor, 200 MB)
#   scripts/beside.sh deepspeed [DIRECTORY]        the tests with the marker deepspeed (default .deepspeed, 50 MB)
#   scripts/beside.sh mlflow [DIRECTORY]           arl export --format mlflow and its tests (default .mlflow, 60 MB)
# Every trial would import torchao with transformers and be half a second slower, llm-compressor needs an older transformers,
# and the other two are for few. DeepSpeed's own kernels are not built: ZeRO needs none, and a CPU has no use for them.
# Does nothing where it is installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=${1:-}
package=$what
options=()
case $what in
  torchao) version=0.18.0; options=(--no-deps) ;;
  llmcompressor) version=0.14.0.1 ;;
  deepspeed) version=0.19.8; options=(--no-build-isolation) ;;
  mlflow) version=3.17.2; package=mlflow-skinny ;;
  *) echo "beside: say torchao, llmcompressor, deepspeed or mlflow" >&2; exit 2 ;;
esac
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu MLFLOW_DISABLE_TELEMETRY=true
place=${2:-.$what}
python=${PYTHON:-.venv/bin/python}
stamp=$place/arl-stamp
started=$SECONDS

if [ "$(cat "$stamp" 2>/dev/null)" = "$version" ]; then exit 0; fi
[ -x "$python" ] || { echo "beside: no $python: run make setup first, or set PYTHON" >&2; exit 1; }
if [ "$what" = llmcompressor ]; then  # else it would take another torch than .venv's
  options=("torch==$("$python" -c 'import torch; print(torch.__version__.partition("+")[0])')")
fi
rm -rf "$place"
"$python" -m venv "$place"
theirs=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mine=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# addsitedir: what .venv has installed in development mode is found, too.
echo "import site; site.addsitedir('$theirs')" >"$mine/beside.pth"
printf '==> Installing %s %s into %s\n' "$package" "$version" "$place"
"$place/bin/python" -m pip install --quiet "$package==$version" "${options[@]}"
"$place/bin/python" -c "import $what" >/dev/null 2>&1
echo "$version" >"$stamp"
printf '==> Ready in %s s: %s\n' "$((SECONDS - started))" "$place/bin/python"
