#!/usr/bin/env bash
# Result rows of alignment beside word overlap: `benchmarks/rows_align.sh FOLDER ENCODER [SET…]`, with the public data sets in
# FOLDER and an encoder in Hugging Face format in ENCODER. All thresholds are fitted on the same 10 % of the documents, and
# everything is measured on the same 20 %. Coverage (argkp, perspectrum) is measured on the published dev split.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
encoder=${2:?the folder of the encoder}
shift 2
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

[ $# -gt 0 ] || set -- xsum_token bump summedits argkp perspectrum

for one in "$@"; do
  detectors=(overlap "align:$encoder")
  options=(--fit f1 --metrics roc_auc,balanced_accuracy,f1,token_f1,word_roc_auc,char_f1,f1_sp)
  case $one in
    perspectrum | argkp) options=(--split dev --metrics coverage_roc_auc,omission_f1,source_word_roc_auc) ;;
    xsum_token) detectors+=(overlap:values "align:$encoder,values=no" "align:$encoder,idf=yes") ;;
  esac
  "$veridical" bench "${detectors[@]}" --data "$one:$data/$one" "${options[@]}" --out benchmarks/rows/align.jsonl >/dev/null
done
