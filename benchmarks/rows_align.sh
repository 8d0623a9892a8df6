#!/usr/bin/env bash
# Result rows of alignment beside word overlap: `benchmarks/rows_align.sh FOLDER ENCODER [SET…]`, with the public data sets in
# FOLDER and an encoder in Hugging Face format in ENCODER. Heads are trained on 70 % of the documents, all thresholds are
# fitted on the same 10 %, and everything is measured on the same 20 %. Trained detectors go to build/align. Coverage (argkp,
# perspectrum) is measured without training, on the published dev split, and summedits without training.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
encoder=${2:?the folder of the encoder}
shift 2
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

[ $# -gt 0 ] || set -- xsum_token bump summedits argkp perspectrum

for one in "$@"; do
  out=build/align/$one
  metrics=roc_auc,balanced_accuracy,f1,token_f1,word_roc_auc,char_f1,f1_sp
  detectors=(overlap "align:$encoder" "align:$out")
  case $one in
    perspectrum | argkp)
      "$veridical" bench overlap "align:$encoder" --data "$one:$data/$one" --split dev \
        --metrics coverage_roc_auc,omission_f1,source_word_roc_auc --out benchmarks/rows/align.jsonl >/dev/null
      continue
      ;;
    summedits) detectors=(overlap "align:$encoder") ;;
    xsum_token) detectors+=(overlap:values "align:$encoder,values=no" "align:$encoder,idf=yes") ;;
  esac
  if [[ " ${detectors[*]} " == *" align:$out "* && ! -e $out/detector.json ]]; then
    "$veridical" train align "$one:$data/$one" --model "$encoder" --out "$out"
  fi
  "$veridical" bench "${detectors[@]}" --data "$one:$data/$one" --fit f1 --metrics "$metrics" \
    --out benchmarks/rows/align.jsonl >/dev/null
  if [ "$one" = xsum_token ]; then
    rm -f "benchmarks/rows/align-compare-$one.jsonl" # comparisons are appended, and corrected for their number
    "$veridical" bench compare overlap "align:$encoder" "align:$out" --data "$one:$data/$one" --fit f1 \
      --out "benchmarks/rows/align-compare-$one.jsonl" >/dev/null
  fi
done
