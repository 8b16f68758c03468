#!/usr/bin/env bash
# A whole study on a small language model in ./demo: baselines, search, replays, promotion. About 5 minutes on 2 cores.
#   DEMO_DIR=/elsewhere   use another directory (it must not exist yet, or be one that an earlier demo made)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEMO=${DEMO_DIR:-$PWD/demo}
ARL=$PWD/.venv/bin/arl
MARK=.made-by-make-demo
export OMP_NUM_THREADS=1

step() { printf '\n==> %s\n' "$*"; }

if [ -e "$DEMO" ] && [ ! -e "$DEMO/$MARK" ]; then
  echo "demo: $DEMO exists and was not made by make demo; remove it or set DEMO_DIR" >&2
  exit 1
fi
rm -rf "$DEMO"
mkdir -p "$DEMO"
touch "$DEMO/$MARK"

step "arl init sort-sft --example sort      (a study file, its data and a small base model)"
(cd "$DEMO" && "$ARL" init sort-sft --example sort)
cd "$DEMO/sort-sft"

step "arl run study.yaml      (Ctrl-C is safe: arl resume goes on)"
"$ARL" run study.yaml

step "arl show      (what was tried, what was found, how sure we are)"
"$ARL" show

step "arl verify      (the ledger's chain, sums and artifacts)"
"$ARL" verify

printf '\nThe study is in %s. Look around: cd %s && %s studies\n' "$DEMO/sort-sft" "$DEMO/sort-sft" "$ARL"
printf 'In a browser: cd %s && %s serve, then http://127.0.0.1:8420\n' "$DEMO/sort-sft" "$ARL"
