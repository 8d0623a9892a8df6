#!/usr/bin/env bash
# Makes the rows of docs/perspectives.md again: `benchmarks/rows_perspectives.sh FOLDER MINILM MPNET DECODER`, with perspectrum and argkp in
# FOLDER, two encoders and a small language model as Hugging Face folders. Classifiers go to build/perspectives; an interrupted run
# continues. The steps are few: each training is to end within a quarter of an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
mpnet=${3:?the folder of MPNet-base}
decoder=${4:?the folder of a small causal language model}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1
out=build/perspectives
topics=perspectrum:$data/perspectrum

train() { # name, options
  [ -e "$out/$1/detector.json" ] ||
    "$veridical" train classifier "$topics" "${@:2}" --checkpoint-minutes 2 --out "$out/$1"
}

bf16=() dtype=fp32
! grep -qsm1 -e avx512_bf16 -e amx_bf16 /proc/cpuinfo || bf16=(--bf16) dtype=bf16 # other processors compute it slower than fp32
full=(--method full --unit pair --model "$minilm" "${bf16[@]}" --per-topic 1 --learning-rate 1e-4 --steps 120 --warmup 12
  --evaluate-every 30 --validation-examples 100)
head=(--method head --unit pair --dtype fp32 --per-topic 1 --batch 32 --steps 600 --warmup 30 --evaluate-every 50
  --validation-examples 200)
small=(--unit pair --model "$decoder" --dtype "$dtype" --labels yes,no --per-topic 1 --batch 8 --steps 40 --warmup 4
  --evaluate-every 20 --validation-examples 40)
for task in ${TASKS:-coverage hallucination}; do
  for kind in ${KINDS:-head mpnet full prompt lora synth para}; do
    case $kind in
      head) train "minilm-head-$task" --model "$minilm" --task "$task" --training dev "${head[@]}" ;;
      mpnet) train "mpnet-head-$task" --model "$mpnet" --task "$task" --training dev "${head[@]}" ;;
      full) train "minilm-$task" --task "$task" --training dev "${full[@]}" ;;
      synth | para) train "minilm-head-$kind-$task" --model "$minilm" --task "$task" --training "$kind" "${head[@]}" ;;
      prompt | lora) train "decoder-$kind-$task" --task "$task" --training dev --method "$kind" "${small[@]}" ;;
    esac
  done
done
[ -z "${TASKS:-}${KINDS:-}" ] || exit 0 # only these trainings

both() { echo "classifier:$out/$1hallucination,$out/$1coverage"; }
measure() { # file, sample, detectors and options; what was judged before is not judged again
  "$veridical" bench perspectives "${@:3}" --data "$topics" --sample "$2" --out "benchmarks/rows/$1.jsonl" \
    --comparisons "benchmarks/rows/$1-compare.jsonl" >/dev/null
}
measure perspectives 40 overlap default "align:$minilm" "$(both minilm-head-)" "$(both mpnet-head-)" "$(both minilm-)" --table 1 --table 3
measure perspectives-decoders 8 overlap "$(both minilm-head-)" "$(both decoder-prompt-)" "$(both decoder-lora-)" --table 1 --table 3
measure perspectives-training 40 "$(both minilm-head-synth-)" "$(both minilm-head-para-)" "$(both minilm-head-)" --table 2
"$veridical" bench overlap "classifier:$out/minilm-coverage" "classifier:$out/mpnet-head-coverage" --data "argkp:$data/argkp" \
  --split dev --metrics coverage_roc_auc,omission_f1 --out benchmarks/rows/perspectives-argkp.jsonl >/dev/null
measure perspectives-salience 8 overlap "salience:$decoder" --table 1 --table 3 # half a minute of processor time a case
measure perspectives-aggregates 8 "salience:$decoder" --table 6
