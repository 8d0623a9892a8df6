#!/usr/bin/env bash
# Result rows of dependency arcs next to word overlap: `benchmarks/rows_dependency_arcs.sh FOLDER PIPELINE`, with the public data sets in FOLDER and a
# spaCy pipeline with a parser in PIPELINE.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
pipeline=${2:?the folder of the spaCy pipeline}
veridical=${VERIDICAL:-.venv/bin/veridical}
rows=benchmarks/rows/dependency-arcs.jsonl

for one in xsum_token wice bump; do
  "$veridical" bench "dependency_arcs:$pipeline" overlap --data "$one:$data/$one" --fit f1 --metrics roc_auc,token_f1,word_roc_auc \
    --out "$rows" >/dev/null
done
"$veridical" bench "dependency_arcs:$pipeline" overlap --data "summedits:$data/summedits" --sample 100 --fit f1 --metrics roc_auc \
  --out "$rows" >/dev/null
