#!/usr/bin/env bash
# Result rows of entailment: `benchmarks/rows_entailment.sh FOLDER MODEL`, with the public data sets in FOLDER and a cross-encoder in MODEL (what
# `veridical train tokens` wrote, or a sequence classifier in Hugging Face format). First accuracy on labelled pairs, beside word overlap and chance
# (coin, majority), with thresholds fitted on 10 % of the documents and measured on another 20 %; hans_eval by heuristic. Then as a checker of labelled
# responses, by itself and claim by claim, with a test of its AUC against that of overlap. Of a set that MODEL was trained on, measure only the
# same test part (seed 0).
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
model=${2:?the folder of the cross-encoder}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
rows=benchmarks/rows/entailment.jsonl
metrics=roc_auc,accuracy,balanced_accuracy,f1

pairs() { # set, options
  "$veridical" bench "entailment:$model" overlap coin majority --data "$1:$data/entailment/$1" --fit balanced_accuracy --metrics "$metrics" \
    --out "$rows" "${@:2}" >/dev/null
}

pairs mnli_dev
pairs snli --split test
pairs hans_eval --group-by heuristic --sample 2000

for one in bump summedits wice conv_fever begin; do
  "$veridical" bench "entailment:$model" "verify:entailment:$model" overlap verify:overlap coin --data "$one:$data/$one" \
    --fit balanced_accuracy --metrics "$metrics" --out "$rows" >/dev/null
  "$veridical" bench compare overlap "entailment:$model" --data "$one:$data/$one" --metrics roc_auc \
    --out "benchmarks/rows/entailment-compare-$one.jsonl" >/dev/null
done
