#!/usr/bin/env bash
# Result rows of claim by claim checking without a language model: `benchmarks/rows_verify.sh FOLDER`, with the public data
# sets in FOLDER. `overlap` on the whole response stands beside it. Rows that are there already are kept.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
veridical=${VERIDICAL:-.venv/bin/veridical}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
detectors="overlap verify:overlap verify:overlap:values verify:overlap:rouge"
metrics=roc_auc,balanced_accuracy,f1,token_f1,word_roc_auc

for set in xsum_token wice bump summedits; do
  # shellcheck disable=SC2086
  "$veridical" bench $detectors --data "$set:$data/$set" --metrics $metrics --out benchmarks/rows/verify.jsonl >/dev/null
  rm -f "benchmarks/rows/verify-compare-$set.jsonl" # comparisons are appended, and corrected for their number
  # shellcheck disable=SC2086
  "$veridical" bench compare $detectors --data "$set:$data/$set" --metrics roc_auc \
    --out "benchmarks/rows/verify-compare-$set.jsonl" >/dev/null
done
