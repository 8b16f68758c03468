#!/usr/bin/env bash
# Installs what converts models beside ARL's .venv, in environments of their own that see everything that .venv has:
#   scripts/convert_cpu.sh torchao [DIRECTORY]          int8 and int4 (default .torchao, 10 MB); make setup does it
#   scripts/convert_cpu.sh llmcompressor [DIRECTORY]    GPTQ and AWQ (default .llmcompressor, 200 MB)
# Not in .venv: every trial would import torchao with transformers and be half a second slower, and llm-compressor needs an
# older transformers. Does nothing where it is installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  torchao) VERSION=0.18.0; what=torchao ;;
  llmcompressor) VERSION=0.14.0.1; what=llmcompressor ;;
  *) echo "convert_cpu: say torchao or llmcompressor" >&2; exit 2 ;;
esac
place=${2:-.$what}
python=${PYTHON:-.venv/bin/python}
stamp=$place/arl-stamp
started=$SECONDS

if [ "$(cat "$stamp" 2>/dev/null)" = "$VERSION" ]; then exit 0; fi
[ -x "$python" ] || { echo "convert_cpu: no $python: run make setup first, or set PYTHON" >&2; exit 1; }
rm -rf "$place"
"$python" -m venv "$place"
theirs=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mine=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# addsitedir: what .venv has installed in development mode is found, too.
echo "import site; site.addsitedir('$theirs')" >"$mine/beside.pth"
printf '==> Installing %s %s into %s\n' "$what" "$VERSION" "$place"
if [ "$what" = torchao ]; then
  needed=(--no-deps)
else
  needed=("torch==$("$python" -c 'import torch; print(torch.__version__.partition("+")[0])')")
fi
"$place/bin/python" -m pip install --quiet "$what==$VERSION" "${needed[@]}"
"$place/bin/python" -c "import $what" >/dev/null 2>&1
echo "$VERSION" >"$stamp"
printf '==> Ready in %s s: %s\n' "$((SECONDS - started))" "$place/bin/python"
