#!/usr/bin/env bash
# Result rows and pictures of docs/analyses.md: `benchmarks/rows_analyses.sh FOLDER MODEL [NAME…]`, with the public data sets in
# FOLDER, a model in Hugging Face format in MODEL, and the analyses to make (all without names). Activations are kept in
# out/states and used again.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
model=${2:?the folder of the model}
shift 2
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
common=(--kind linear --template tldr --max-tokens 512 --store out/states)

analyse() { # name, pictures to keep (with commas), arguments
  local name=$1 pictures=$2
  shift 2
  "$veridical" analyse "$name" "$@" "${common[@]}" --out "out/analyses/$name" >/dev/null
  cp "out/analyses/$name/$name.jsonl" "benchmarks/rows/analyses-$name.jsonl"
  for metric in ${pictures//,/ }; do
    cp "out/analyses/$name/$name-$metric.svg" "docs/analyses-$name-$metric.svg"
  done
}

for name in "${@:-layers context labels transfer}"; do
  for one in $name; do
    case $one in
      layers) analyse layers f1,roc_auc "xsum_token:$data/xsum_token" --model "$model" ;;
      context) analyse context word_roc_auc "xsum_token:$data/xsum_token" --model "$model" --tokens 0,64,256,all ;;
      labels) analyse labels word_roc_auc "bump:$data/bump" --model "$model" \
        --merge intrinsic=intrinsic --merge extrinsic=extrinsic ;;
      transfer) analyse transfer word_roc_auc "xsum_token:$data/xsum_token" "bump:$data/bump" \
        "conv_fever:$data/conv_fever" --model "$model" --mix xsum_token+bump ;;
      *) echo "no analysis $one" >&2; exit 2 ;;
    esac
  done
done
