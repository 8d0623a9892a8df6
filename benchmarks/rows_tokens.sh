#!/usr/bin/env bash
# Token classifiers and their result rows: `benchmarks/rows_tokens.sh FOLDER MINILM MPNET`, with the public data sets in FOLDER and two
# encoders as Hugging Face folders. Each is trained on pairs and on text with errors made by rules, then on words of xsum_token, and
# measured on the test documents, which no training saw. minilm-sets is trained on four sets at once and measured on each, and on
# rotowire_errors, which it was not trained on. Classifiers go to build/tokens. An interrupted run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
mpnet=${3:?the folder of MPNet-base}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
out=build/tokens
pairs=$data/entailment
mkdir -p "$out"
[ -e "$out/rules.jsonl" ] ||
  "$veridical" data corrupt "plain:$data/plain/qa_passages" --method rules --excerpts 2 --rewrite 0.5 --share 0.6 --clutter 0.2 \
    --errors 6,3 --seed 1 --out "$out/rules.jsonl"

common=(--hidden 0 --attention prefix --max-tokens 256 --bf16)
train() { # name, options
  [ -e "$out/$1/detector.json" ] || "$veridical" train tokens "${@:2}" "${common[@]}" --out "$out/$1"
}

train minilm-pretrained "jsonl:$out/rules.jsonl" "mnli_dev:$pairs/mnli_dev" "fever_symmetric:$pairs/fever_symmetric" \
  "vitaminc_sample:$pairs/vitaminc_sample" "pawsx_en:$pairs/pawsx_en" "wow_q2:$pairs/wow_q2" \
  "faithdial_audit:$pairs/faithdial_audit" --model "$minilm" --epochs 1 --evaluations 2 --per-set 1500 --validation-per-set 80 \
  --learning-rate 1e-4 --batch-tokens 2048
train minilm "xsum_token:$data/xsum_token" --model "$out/minilm-pretrained" --epochs 5 --learning-rate 5e-5 --batch-tokens 2048
sets=("xsum_token:$data/xsum_token" "bump:$data/bump" "wice:$data/wice" "quintd:$pairs/quintd")
train minilm-sets "${sets[@]}" --model "$out/minilm-pretrained" --epochs 4 --per-set 700 --validation-per-set 150 --learning-rate 5e-5 \
  --batch-tokens 2048
train mpnet-pretrained "jsonl:$out/rules.jsonl" "mnli_dev:$pairs/mnli_dev" "fever_symmetric:$pairs/fever_symmetric" \
  "faithdial_audit:$pairs/faithdial_audit" --model "$mpnet" --epochs 1 --per-set 800 --validation-per-set 40 --learning-rate 4e-5 \
  --batch-tokens 1536
train mpnet "xsum_token:$data/xsum_token" --model "$out/mpnet-pretrained" --epochs 2 --evaluations 2 --learning-rate 4e-5 \
  --batch-tokens 1536

rows=benchmarks/rows/tokens.jsonl
metrics=roc_auc,token_f1,token_balanced_accuracy,token_mcc,word_roc_auc
"$veridical" bench "tokens:$out/minilm" "tokens:$out/minilm-pretrained" "tokens:$out/mpnet" overlap coin \
  --data "xsum_token:$data/xsum_token" --fit f1 \
  --metrics "$metrics,f1_sp" --out "$rows" >/dev/null
for mode in offline online; do # reference-free: the sources are hidden
  [ -e "$out/minilm-alone-$mode/detector.json" ] ||
    "$veridical" train tokens "xsum_token:$data/xsum_token" --model "$minilm" --no-sources --mode "$mode" --hidden 0 --epochs 5 \
      --learning-rate 5e-5 --batch-tokens 2048 --bf16 --out "$out/minilm-alone-$mode"
done
"$veridical" bench "tokens:$out/minilm-alone-offline" "tokens:$out/minilm-alone-online" --data "xsum_token:$data/xsum_token" --fit f1 \
  --metrics "$metrics" --out "$rows" >/dev/null
for set in "${sets[@]}" "rotowire_errors:$pairs/rotowire_errors"; do
  "$veridical" bench overlap "tokens:$out/minilm-sets" --data "$set" --fit f1 --metrics "$metrics" --out "$rows" >/dev/null
done
