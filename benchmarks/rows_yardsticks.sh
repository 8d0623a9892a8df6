#!/usr/bin/env bash
# Measures detectors by the yardsticks: `benchmarks/rows_yardsticks.sh FOLDER [DETECTOR…]` with the data sets in FOLDER; without detectors
# `default` and `overlap`. First the written statements, pairs and answers (dev), by tag and kind, with the passage alone and among two foreign
# ones; then the test documents of the labelled sets and of short answers, also in other languages. The baseline `response_words` is measured
# next to them, and everything at the thresholds that `veridical check` applies. An interrupted run continues, and rows of an earlier version of a detector are replaced.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
shift
veridical=${VERIDICAL:-.venv/bin/veridical}
[ $# -gt 0 ] || set -- default overlap
sample="" # SAMPLE=54: so many of the 202 documents of `written`
metrics=roc_auc,pair_accuracy,false_alarms,recall,balanced_accuracy,ece
mkdir -p build
[ -e build/e2e-slots.jsonl ] ||
  "$veridical" data corrupt "e2e:$data/e2e" --method attributes --share 0.5 --out build/e2e-slots.jsonl

written() { # set, groups
  for foreign in 0 2; do
    # shellcheck disable=SC2086
    "$veridical" bench "${@:3}" response_words --data "$1:$data/written" --split dev --group-by "$2" --foreign "$foreign" --metrics "$metrics" \
      $sample --replace --out benchmarks/rows/yardsticks-written.jsonl >/dev/null
  done
}
written written_pairs tag "$@"
written written_rag answer,form "$@"
written written_answers answer,kind "$@"
sample=${SAMPLE:+--sample $SAMPLE}
written written label,tag,kind "$@"
sample=""
for one in xsum_token bump wice conv_fever begin; do
  "$veridical" bench "$@" response_words --data "$one:$data/$one" --fit none --metrics "$metrics" --replace --out benchmarks/rows/yardsticks.jsonl >/dev/null
done
"$veridical" bench "$@" response_words --data "summedits:$data/summedits" --fit none --sample 150 --metrics "$metrics" \
  --replace --out benchmarks/rows/yardsticks.jsonl >/dev/null
"$veridical" bench "$@" response_words --data jsonl:build/e2e-slots.jsonl --fit none --sample 400 --metrics "$metrics" \
  --replace --out benchmarks/rows/yardsticks.jsonl >/dev/null
for one in languages/xquad.en plain/qa_passages/tydiqa.goldp.en.train; do
  for set in short_answers short_answer_statements; do
    "$veridical" bench "$@" response_words --data "$set:$data/$one.json.gz" --fit none --metrics "$metrics" \
      --replace --out benchmarks/rows/yardsticks-short-answers.jsonl >/dev/null
  done
done
"$veridical" bench "$@" --data "short_answers:$data/languages" --fit none --sample 600 --group-by language --metrics "$metrics" \
  --replace --out benchmarks/rows/yardsticks-languages.jsonl >/dev/null
"$veridical" bench "$@" --data "rows:benchmarks/data/statements_in_languages.jsonl?group=language,kind" --group-by language --metrics "$metrics" \
  --replace --out benchmarks/rows/yardsticks-statements-languages.jsonl >/dev/null
for one in yardsticks-written yardsticks yardsticks-short-answers yardsticks-languages yardsticks-statements-languages; do "$veridical" bench table "benchmarks/rows/$one.jsonl" --format markdown; done
