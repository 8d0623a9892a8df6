#!/usr/bin/env bash
# A larger encoder beside a small one, trained alike, and their result rows: `benchmarks/rows_teacher.sh FOLDER MINILM MPNET`, with the
# public data sets in FOLDER and two encoders as Hugging Face folders. Each reads a sixth of the default detector's first part, then the
# words of three sets; test documents were seen by neither. About an hour and a half on two cores. Classifiers go to build/teacher. An interrupted
# run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
mpnet=${3:?the folder of MPNet-base}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
out=build/teacher
mkdir -p "$out"
sets=("xsum_token:$data/xsum_token" "bump:$data/bump" "wice:$data/wice")
train() { # name, encoder, learning rates of the two parts
  [ -e "$out/$1-general/detector.json" ] ||
    PYTHONPATH=src .venv/bin/python benchmarks/teacher.py "$data" "$2" --out "$out/$1-general" --share 0.1667 --rate "$3"
  [ -e "$out/$1/detector.json" ] ||
    "$veridical" train tokens "${sets[@]}" --model "$out/$1-general" --learning-rate "$4" --epochs 1 --per-set 250 --validation-per-set 60 \
      --hidden 0 --by-sentence --max-tokens 256 --batch-tokens 2048 --bf16 --out "$out/$1"
}

train mpnet "$mpnet" 4e-5 3e-5
train minilm "$minilm" 1e-4 7e-5
for set in "${sets[@]}" "rotowire_errors:$data/entailment/rotowire_errors"; do
  "$veridical" bench overlap "tokens:$out/minilm" "tokens:$out/mpnet,dtype=bf16" --data "$set" --fit f1 \
    --metrics roc_auc,token_f1,token_balanced_accuracy,token_mcc,word_roc_auc --out benchmarks/rows/teacher.jsonl >/dev/null
done
