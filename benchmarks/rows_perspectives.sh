#!/usr/bin/env bash
# Makes the rows of docs/perspectives.md again: `benchmarks/rows_perspectives.sh FOLDER MINILM MPNET DECODER READER CHAT`, with perspectrum and
# argkp in FOLDER; as Hugging Face folders two encoders, a small language model, a smaller one for salience (which takes half a minute of
# processor time a case with 135 million weights), and a chat model. Classifiers go to build/perspectives; an interrupted run
# continues. The steps are few: each training is to end within a quarter of an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
minilm=${2:?the folder of MiniLM-L6}
mpnet=${3:?the folder of MPNet-base}
decoder=${4:?the folder of a small causal language model}
reader=${5:?the folder of a smaller one}
chat=${6:?the folder of a chat model}
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
full=(--method full --unit pair --model "$minilm" "${bf16[@]}" --per-topic 1 --learning-rate 1e-4 --steps 300 --warmup 30
  --evaluate-every 50 --validation-examples 200)
head=(--method head --unit pair --dtype fp32 --per-topic 1 --batch 32 --steps 600 --warmup 30 --evaluate-every 50
  --validation-examples 200)
small=(--unit pair --model "$decoder" --dtype "$dtype" --labels yes,no --per-topic 1 --batch 8 --evaluate-every 100
  --validation-examples 100)
for task in ${TASKS:-coverage hallucination}; do
  for kind in ${KINDS:-head mpnet full prompt lora synth para}; do
    case $kind in
      head) train "minilm-head-$task" --model "$minilm" --task "$task" --training dev "${head[@]}" ;;
      mpnet) train "mpnet-head-$task" --model "$mpnet" --task "$task" --training dev "${head[@]}" ;;
      full) train "minilm-$task" --task "$task" --training dev "${full[@]}" ;;
      synth | para) train "minilm-head-$kind-$task" --model "$minilm" --task "$task" --training "$kind" "${head[@]}" ;;
      prompt) train "decoder-prompt-$task" --task "$task" --training dev --method prompt "${small[@]}" --steps 400 --warmup 40 ;;
      lora) train "decoder-lora-$task" --task "$task" --training dev --method lora "${small[@]}" --learning-rate 5e-4 --steps 500 --warmup 50 ;;
    esac
  done
done
[ -z "${TASKS:-}${KINDS:-}" ] || exit 0 # only these trainings

both() { echo "classifier:$out/$1hallucination,$out/$1coverage"; }
measure() { # file, sample, detectors and options; what was judged before is not judged again
  "$veridical" bench perspectives "${@:3}" --data "$topics" --sample "$2" --out "benchmarks/rows/$1.jsonl" >/dev/null
}
measure perspectives 40 overlap default "align:$minilm" "$(both minilm-head-)" "$(both mpnet-head-)" "$(both minilm-)" \
  "$(both decoder-prompt-)" "$(both decoder-lora-)" --table 1 --table 3 --comparisons benchmarks/rows/perspectives-compare.jsonl
measure perspectives-training 40 "$(both minilm-head-synth-)" "$(both minilm-head-para-)" "$(both minilm-head-)" --table 2
"$veridical" bench overlap "classifier:$out/minilm-coverage" "classifier:$out/mpnet-head-coverage" --data "argkp:$data/argkp" \
  --split dev --metrics coverage_roc_auc,omission_f1 --out benchmarks/rows/perspectives-argkp.jsonl >/dev/null
measure perspectives-salience 20 overlap "salience:$reader" --table 1 --table 3
measure perspectives-aggregates 20 "salience:$reader" --table 6
[ -e "$out/generator/detector.json" ] ||
  "$veridical" train generator "$topics" --model "$decoder" --dtype "$dtype" --per-topic 1 --batch 8 --steps 200 --warmup 20 --evaluate-every 50 \
    --validation-examples 24 --checkpoint-minutes 2 --out "$out/generator"
for model in "$chat" "$out/generator"; do
  .venv/bin/python benchmarks/answers.py "$model" "$data/perspectrum" --dtype "$dtype" --count 100 --rows benchmarks/rows/answers.jsonl \
    --detectors overlap default "$(both minilm-)" >/dev/null
done
