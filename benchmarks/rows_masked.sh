#!/usr/bin/env bash
# Masked words, from the head to detectors: `benchmarks/rows_masked.sh FOLDER MINILM RANKER [TEXTS [STEPS]]`, with the public data sets in FOLDER,
# a sentence encoder and a small causal language model as Hugging Face folders. A language-model head is trained for the encoder (STEPS at most);
# TEXTS (10,000) short texts are corrupted with it, time and memory measured; token classifiers are trained on corrupted text alone (rules,
# masked words, both) and, to compare, on words of xsum_token, and measured on test documents of xsum_token and wice, whose errors are those of
# systems and of people. Thresholds are those of the training's own validation part. Models go to build/masked. An interrupted run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
ranker=${3:?the folder of a causal language model}
texts=${4:-10000}
steps=${5:-}
veridical=${VERIDICAL:-.venv/bin/veridical}
python=${PYTHON:-.venv/bin/python}
export HF_HUB_OFFLINE=1
out=build/masked
rows=benchmarks/rows
[ -z "$steps" ] || { out=build/masked-small; rows=build/masked-small; } # a trial is no result
mkdir -p "$out"

head=$out/minilm-masked
[ -e "$head/config.json" ] ||
  "$veridical" train masked "$minilm" "wikipedia:$data/wikipedia" --out "$head" ${steps:+--max-steps "$steps"}
[ -e "$out/texts.jsonl" ] ||
  "$python" benchmarks/masked_speed.py "wikipedia:$data/wikipedia" "$head" "$ranker" "$out/texts.jsonl" --texts "$texts" \
    >>"$rows/masked-speed.jsonl"

corrupt() { # name, method, options
  [ -e "$out/$1.jsonl" ] ||
    "$veridical" data corrupt "plain:$data/plain/qa_passages" --method "$2" --excerpts 2 --rewrite 0.5 --share 0.6 --clutter 0.2 \
      --first "$texts" --seed 1 --out "$out/$1.jsonl" "${@:3}"
}
fill=(--fill-model "$head" --rank-model "$ranker" --from-sentence 1)
corrupt rules rules --errors 6,3
corrupt masked masked "${fill[@]}"
corrupt both rules=1,masked=1 --errors 6,3 "${fill[@]}"

train() { # name, data
  [ -e "$out/$1/detector.json" ] ||
    "$veridical" train tokens "$2" --model "$minilm" --hidden 0 --attention prefix --max-tokens 256 --epochs 2 --learning-rate 1e-4 \
      --batch-tokens 2048 --per-set "$texts" --out "$out/$1"
}
detectors=()
for name in rules masked both; do
  train "$name" "jsonl:$out/$name.jsonl"
  detectors+=("tokens:$out/$name")
done
train organic "xsum_token:$data/xsum_token"
detectors+=("tokens:$out/organic" overlap coin)
for set in "jsonl:$out/both.jsonl" "xsum_token:$data/xsum_token" "wice:$data/wice"; do
  "$veridical" bench "${detectors[@]}" --data "$set" --fit none --metrics roc_auc,word_roc_auc,token_f1,token_balanced_accuracy \
    --out "$rows/masked.jsonl" >/dev/null
done
