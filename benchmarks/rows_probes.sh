#!/usr/bin/env bash
# Result rows of probes on a small language model beside the baselines: `benchmarks/rows_probes.sh FOLDER MODEL [SET…]`, with
# the public data sets in FOLDER and a model in Hugging Face format in MODEL. Probes are trained on 70 % of the documents,
# all thresholds are fitted on the same 10 %, and everything is measured on the same 20 %. Activations and probes go to
# build/probes, rows to benchmarks/rows/probes.jsonl and probes-compare-SET.jsonl. With ENCODER=FOLDER only probes on the
# sublayers of that encoder are trained and measured on the same parts, as further rows.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
model=${2:?the folder of the model}
shift 2
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
metrics=f1,roc_auc,pr_auc,f1_sp,token_f1,word_roc_auc

measure() { # name, SET:PATH, template, objectives, metrics
  local out=build/probes/$1 last kind select detectors
  last=$(.venv/bin/python -c "import json, sys; print(2 * json.load(open(sys.argv[1] + '/config.json'))['num_hidden_layers'] - 1)" "$model")
  train() { # name, SET:PATH, template, objectives, options
    [ -e "$out-$1/detector.json" ] || "$veridical" train probe "$2" --model "${ENCODER:-$model}" --template "$3" --objective "$4" \
      --max-tokens 512 --out "$out-$1" "${@:5}"
  }
  if [ -n "${ENCODER:-}" ]; then
    for kind in linear pooling; do
      train "encoder-$kind" "$2" "$3" "$4" --kind "$kind" --store "$out-encoder.store"
    done
    "$veridical" bench "probe:$out-encoder-linear" "probe:$out-encoder-pooling" --data "$2" --fit f1 --metrics "$5" \
      --out benchmarks/rows/probes.jsonl >/dev/null
    rm -f "benchmarks/rows/probes-compare-$1-encoder.jsonl" # comparisons are appended, and corrected for their number
    "$veridical" bench compare "probe:$out-encoder-linear" "probe:$out-encoder-pooling" overlap --data "$2" --fit f1 \
      --out "benchmarks/rows/probes-compare-$1-encoder.jsonl" >/dev/null
    return
  fi
  for kind in linear pooling; do
    for select in best ensemble; do
      train "$kind-$select" "$2" "$3" "$4" --kind "$kind" --select "$select" --store "$out.store"
    done
  done
  train last-layer "$2" "$3" "$4" --kind linear --select best --sublayers "$last"
  detectors="probe:$out-linear-best probe:$out-linear-ensemble probe:$out-pooling-best probe:$out-pooling-ensemble"
  detectors="$detectors probe:$out-last-layer logprob:$model,template=$3 overlap length coin"
  # shellcheck disable=SC2086
  "$veridical" bench $detectors --data "$2" --fit f1 --metrics "$5" --out benchmarks/rows/probes.jsonl >/dev/null
  rm -f "benchmarks/rows/probes-compare-$1.jsonl" # comparisons are appended, and corrected for their number
  # shellcheck disable=SC2086
  "$veridical" bench compare $detectors --data "$2" --fit f1 --out "benchmarks/rows/probes-compare-$1.jsonl" >/dev/null
}

[ $# -gt 0 ] || set -- xsum_token bump conv_fever e2e
for set in "$@"; do
  case $set in
  xsum_token) measure xsum_token "xsum_token:$data/xsum_token" tldr token,response "$metrics" ;;
  bump) measure bump "bump:$data/bump" tldr token,response "$metrics" ;;
  conv_fever) measure conv_fever "conv_fever:$data/conv_fever" knowledge response f1,roc_auc,pr_auc ;;
  e2e)
    mkdir -p build/probes
    "$veridical" data corrupt "e2e:$data/e2e" --method attributes --seed 0 --out build/probes/e2e-attributes.jsonl
    measure e2e jsonl:build/probes/e2e-attributes.jsonl data-to-text-bare token,response "$metrics"
    ;;
  *) echo "no such set: $set" >&2 && exit 2 ;;
  esac
done
