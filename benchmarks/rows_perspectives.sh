#!/usr/bin/env bash
# Makes the rows of docs/perspectives.md again: `benchmarks/rows_perspectives.sh FOLDER MINILM DECODER`, with perspectrum in FOLDER, an
# encoder and a small language model as Hugging Face folders. Classifiers go to build/perspectives; an interrupted run continues. The
# steps are few: each training is to end within a quarter of an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
decoder=${3:?the folder of a small causal language model}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
out=build/perspectives
topics=perspectrum:$data/perspectrum

train() { # name, options
  [ -e "$out/$1/detector.json" ] ||
    "$veridical" train classifier "$topics" "${@:2}" --checkpoint-minutes 2 --out "$out/$1"
}

full=(--method full --unit part --model "$minilm" --bf16 --learning-rate 2e-4 --steps 150 --warmup 15 --evaluate-every 50
  --validation-examples 60)
small=(--unit part --model "$decoder" --labels yes,no --steps 30 --warmup 3 --evaluate-every 15 --validation-examples 16)
for task in ${TASKS:-coverage hallucination}; do
  for kind in ${KINDS:-full prompt lora synth para}; do
    case $kind in
      full) train "minilm-$task" --task "$task" --training dev "${full[@]}" ;;
      synth | para) train "minilm-$kind-$task" --task "$task" --training "$kind" "${full[@]}" ;;
      prompt | lora) train "decoder-$kind-$task" --task "$task" --training dev --method "$kind" "${small[@]}" ;;
    esac
  done
done
[ -z "${TASKS:-}${KINDS:-}" ] || exit 0 # only these trainings

both() { echo "classifier:$out/$1hallucination,$out/$1coverage"; }
measure() { # file, detectors and options
  "$veridical" bench perspectives "${@:2}" --data "$topics" --sample 40 --out "benchmarks/rows/$1.jsonl" \
    --comparisons "benchmarks/rows/$1-compare.jsonl" >/dev/null
}
measure perspectives overlap default "align:$minilm" "$(both minilm-)" "$(both decoder-prompt-)" "$(both decoder-lora-)" \
  --table 1 --table 3
measure perspectives-training "$(both minilm-synth-)" "$(both minilm-para-)" "$(both minilm-)" --table 2
