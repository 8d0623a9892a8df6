#!/usr/bin/env bash
# Masked words and what detectors learn of them: `benchmarks/rows_masked.sh FOLDER FILL RANKER [TEXTS [CASES [ENCODER]]]`, with the public data
# sets in FOLDER, a masked and a small causal language model as Hugging Face folders. PARTS (speed and features by default) are
#   speed     TEXTS (10,000) short texts are corrupted, time and memory measured, some of them again with other batch sizes; only worth
#             keeping if nothing else runs
#   features  classifiers of word features are trained on corrupted text alone (CASES by rules, by masked words, by both) and, to compare, on
#             words of xsum_token, and measured on test documents of xsum_token and wice, whose errors are those of systems and of people
#   tokens    the same with token classifiers on ENCODER
# Thresholds are those of the training's own validation part. Models go to build/masked. An interrupted run continues.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
fill=${2:?the folder of a masked language model}
ranker=${3:?the folder of a causal language model}
texts=${4:-10000}
cases=${5:-3000}
encoder=${6:-}
parts=${PARTS:-speed features}
has() { [[ " $parts " == *" $1 "* ]]; }
veridical=${VERIDICAL:-.venv/bin/veridical}
python=${PYTHON:-.venv/bin/python}
export HF_HUB_OFFLINE=1
out=build/masked
rows=benchmarks/rows
[ "$texts" -ge 10000 ] || { out=build/masked-small; rows=$out; } # a trial is no result
mkdir -p "$out"

filling=(--fill-model "$fill" --from-sentence 1)
[ "$ranker" = none ] || filling+=(--rank-model "$ranker" --candidates 4)
! has speed || [ -e "$out/texts.jsonl" ] ||
  "$python" benchmarks/masked_speed.py "$out/texts.jsonl" --texts "$texts" -- "plain:$data/plain/qa_passages" --excerpts 4 --seed 1 \
    "${filling[@]}" >>"$rows/masked-speed.jsonl"
has features || has tokens || exit 0
short=("plain:$data/plain/qa_passages" --excerpts 2 --seed 1)

corrupt() { # name, method, options
  [ -e "$out/$1.jsonl" ] ||
    "$veridical" data corrupt "${short[@]}" --method "$2" --rewrite 0.5 --share 0.6 --clutter 0.2 --first "$cases" \
      --out "$out/$1.jsonl" "${@:3}"
}
corrupt rules rules --errors 6,3
corrupt masked masked "${filling[@]}"
corrupt both rules=1,masked=1 --errors 6,3 "${filling[@]}"

sets=("jsonl:$out/both.jsonl" "xsum_token:$data/xsum_token" "wice:$data/wice")
for part in features tokens; do
  has "$part" || continue
  detectors=()
  for name in rules masked both organic; do
    set="jsonl:$out/$name.jsonl"
    [ "$name" != organic ] || set=${sets[1]}
    folder=$out/$part-$name
    if [ ! -e "$folder/detector.json" ] && [ "$part" = features ]; then
      "$veridical" train features "$set" --unit word --out "$folder"
    elif [ ! -e "$folder/detector.json" ]; then
      "$veridical" train tokens "$set" --model "${encoder:?the encoder of the token classifiers}" --hidden 0 --attention prefix --max-tokens 256 --epochs 2 --bf16 \
        --learning-rate 1e-4 --batch-tokens 2048 --per-set "$cases" --out "$folder"
    fi
    detectors+=("$part:$folder")
  done
  [ "$part" != features ] || detectors+=(overlap coin)
  for set in "${sets[@]}"; do
    "$veridical" bench "${detectors[@]}" --data "$set" --fit none --metrics roc_auc,word_roc_auc,token_f1,token_balanced_accuracy \
      --out "$rows/masked.jsonl" >/dev/null
  done
done
