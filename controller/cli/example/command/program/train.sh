# One trial: "trains" a line. A real program would train a model here, in any language.
set -eu

parameter() { # the number called $1 in the JSON document that configures the trial
  sed -n "s/.*\"$1\": *\(-\{0,1\}[0-9][0-9.eE+-]*\).*/\1/p" "$ARL_PARAMS"
}

slope=$(parameter slope)
intercept=$(parameter intercept)
seed=$(parameter seed)

# What it reports while running is for pruning and plots. It is never the score.
for step in 1 2 3; do
  echo "{\"step\": $step, \"metric\": \"train/slope\", \"value\": $slope}" >>"$ARL_REPORTS"
done
echo "slope $slope, intercept $intercept, seed $seed"

# Like any training it is noisy: the seed moves the result a little.
mkdir -p "$ARL_OUTPUT/model"
awk -v slope="$slope" -v intercept="$intercept" -v seed="$seed" 'BEGIN {
  srand(seed)
  print slope + 0.05 * (rand() - 0.5), intercept + 0.05 * (rand() - 0.5)
}' >"$ARL_OUTPUT/model/line"
