#!/usr/bin/env bash
# Result rows of the default detector: `benchmarks/rows_default.sh FOLDER [FLOAT [TEACHER]]`, with the public data sets in FOLDER. Test documents, which
# neither its training nor its regressions saw; next to word overlap and baselines. e2e: attributes changed in the records. FLOAT: the detector as
# `veridical train default` wrote it with its encoder's model.onnx in encoder/onnx, for the rows of int8 against float; TEACHER: the teacher in its
# stages/, for rows beside the detector that learned from it. An interrupted run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
veridical=${VERIDICAL:-.venv/bin/veridical}
rows=benchmarks/rows/default.jsonl
mkdir -p build
[ -e build/e2e-slots.jsonl ] ||
  "$veridical" data corrupt "e2e:$data/e2e" --method attributes --share 0.5 --out build/e2e-slots.jsonl

measure() { # set, metrics, options
  "$veridical" bench default overlap length --data "$1" --metrics "$2" --fit balanced_accuracy --out "$rows" "${@:3}" >/dev/null
}
cover() { # set, options
  "$veridical" bench default overlap --data "$1" --metrics coverage_roc_auc --fit balanced_accuracy --out "$rows" "${@:2}" >/dev/null
}
calibrate() { # set, options: probabilities fitted on the set's validation documents
  local folder=build/default-calibrated/${1%%:*}
  [ -e "$folder/detector.json" ] ||
    "$veridical" train threshold default "$1" --levels response --criterion balanced_accuracy --out "$folder" >/dev/null
  "$veridical" bench default "calibrated:$folder" --data "$1" --metrics "$responses" --fit none --out benchmarks/rows/default-calibrated.jsonl "${@:2}" >/dev/null
}
responses=roc_auc,balanced_accuracy,ece
if [ $# -gt 1 ]; then # the same cases by both precisions
  for one in xsum_token wice bump conv_fever begin summedits entailment/quintd; do
    "$veridical" bench default "default:$2,precision=fp32" --data "${one##*/}:$data/$one" --metrics roc_auc,word_roc_auc,pair_accuracy --fit none \
      --sample 300 --out benchmarks/rows/default-float.jsonl >/dev/null
  done
fi
if [ $# -gt 2 ]; then
  for one in xsum_token wice bump conv_fever begin summedits; do
    "$veridical" bench default "tokens:$3,dtype=bf16" --data "$one:$data/$one" --metrics roc_auc,word_roc_auc,pair_accuracy --fit none \
      --sample 150 --out benchmarks/rows/default-teacher.jsonl >/dev/null
  done
fi
measure "xsum_token:$data/xsum_token" "$responses,word_roc_auc,token_f1"
measure "wice:$data/wice" "$responses,word_roc_auc,token_f1"
measure "bump:$data/bump" "$responses,word_roc_auc,pair_accuracy,char_f1"
measure "summedits:$data/summedits" "$responses" --sample 150 --group-by domain
measure "conv_fever:$data/conv_fever" "$responses"
measure "begin:$data/begin" "$responses"
measure "jsonl:build/e2e-slots.jsonl" "$responses,word_roc_auc" --sample 400
cover "argkp:$data/argkp"
cover "perspectrum:$data/perspectrum" --sample 150
measure "quintd:$data/entailment/quintd" "$responses,word_roc_auc"
for one in faithdial_audit wow_q2 snli mnli_dev infotabs fever_symmetric boolq; do
  measure "$one:$data/entailment/$one" "$responses" --sample 600
done
for one in xsum_token wice bump conv_fever begin; do calibrate "$one:$data/$one"; done
calibrate "summedits:$data/summedits" --sample 150
calibrate jsonl:build/e2e-slots.jsonl --sample 400
for one in quintd faithdial_audit wow_q2 mnli_dev fever_symmetric; do calibrate "$one:$data/entailment/$one" --sample 600; done
