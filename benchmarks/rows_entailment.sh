#!/usr/bin/env bash
# Result rows of entailment: `benchmarks/rows_entailment.sh FOLDER CLASSIFIER`, with the public data sets in FOLDER and in CLASSIFIER the
# MiniLM-L6 that benchmarks/rows_tokens.sh trained on pairs and rules (build/tokens/minilm-pretrained). It is trained on pairs of sentences, then on
# pairs and on responses with longer sources. First accuracy on labelled pairs, next to word overlap and chance (coin, majority), with thresholds
# fitted on 10 % of the documents and measured on another 20 %; hans_eval by heuristic. Then as a checker of labelled responses. Classifiers go to
# build/entailment-pairs and build/entailment. An interrupted run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
classifier=${2:?the folder of the classifier to begin with}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
pairs=$data/entailment
model=build/entailment
rows=benchmarks/rows/entailment.jsonl
metrics=roc_auc,accuracy,balanced_accuracy,f1

common=(--hidden 0 --max-tokens 256 --response-weight 1 --batch-tokens 3072 --bf16)
[ -e build/entailment-pairs/detector.json ] ||
  "$veridical" train tokens "snli:$pairs/snli" "mnli_dev:$pairs/mnli_dev" "cad_nli:$pairs/cad_nli" "conjnli:$pairs/conjnli" \
    "negation_nli:$pairs/negation_nli" "fever_symmetric:$pairs/fever_symmetric" "vitaminc_sample:$pairs/vitaminc_sample" \
    "pawsx_en:$pairs/pawsx_en" "wow_q2:$pairs/wow_q2" --model "$classifier" --epochs 2 --per-set 4000 --validation-per-set 120 \
    --learning-rate 1e-4 "${common[@]}" --out build/entailment-pairs
[ -e "$model/detector.json" ] ||
  "$veridical" train tokens jsonl:build/tokens/rules.jsonl "faithdial_audit:$pairs/faithdial_audit" "wow_q2:$pairs/wow_q2" \
    "snli:$pairs/snli" "mnli_dev:$pairs/mnli_dev" "cad_nli:$pairs/cad_nli" "vitaminc_sample:$pairs/vitaminc_sample" \
    "fever_symmetric:$pairs/fever_symmetric" --model build/entailment-pairs --epochs 1 --per-set 1500 --validation-per-set 100 \
    --learning-rate 7e-5 "${common[@]}" --out "$model"

measure() { # set, options and further detectors
  "$veridical" bench "entailment:$model" overlap "${@:2}" --data "$1" --fit balanced_accuracy --metrics "$metrics" --out "$rows" >/dev/null
}
measure "mnli_dev:$pairs/mnli_dev" coin majority
measure "snli:$pairs/snli" coin majority
measure "hans_eval:$pairs/hans_eval" coin --group-by heuristic --sample 3000
for one in begin conv_fever wice bump; do
  measure "$one:$data/$one"
done
measure "summedits:$data/summedits" --sample 100
"$veridical" bench "entailment:$model" overlap --data "summedits:$data/summedits" --sample 100 --group-by domain --metrics roc_auc --fit none \
  --out "$rows" >/dev/null
for one in begin conv_fever wice bump summedits; do
  sample=()
  [ "$one" != summedits ] || sample=(--sample 100)
  rm -f "benchmarks/rows/entailment-compare-$one.jsonl" # comparisons are appended, and corrected for their number
  "$veridical" bench compare overlap "entailment:$model" --data "$one:$data/$one" "${sample[@]}" --fit balanced_accuracy --metrics roc_auc \
    --out "benchmarks/rows/entailment-compare-$one.jsonl" >/dev/null
  case $one in
    begin | wice | summedits) # as FactCC reads: whole documents, one sentence after the other, by what was trained on rules and pairs
      "$veridical" bench "entailment:$classifier,form=factcc" --data "$one:$data/$one" "${sample[@]}" --fit balanced_accuracy \
        --metrics roc_auc,balanced_accuracy,f1 --out "$rows" >/dev/null
      ;;
  esac
done
