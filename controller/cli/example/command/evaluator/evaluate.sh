# Scores a stored model on the points of one split: the mean distance from the line.
set -eu

read -r slope intercept <"$ARL_INPUTS/artifact/line"

awk -v slope="$slope" -v intercept="$intercept" -F '[:,}]' '{
  off = slope * $2 + intercept - $4
  sum += off < 0 ? -off : off
} END {
  printf "{\"metrics\": {\"error\": %.6f}}", sum / NR
}' "$ARL_INPUTS/split/split.jsonl" >&"$ARL_SCORE_FD"
