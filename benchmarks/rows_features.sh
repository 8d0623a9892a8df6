#!/usr/bin/env bash
# Result rows of classifiers of word features: `benchmarks/rows_features.sh FOLDER READER HIDDEN [PIPELINE]`, with the public data
# sets in FOLDER, a small language model that reads sources in READER, another for responses without sources in HIDDEN, and a spaCy
# pipeline in PIPELINE. Detectors are trained on 70 % of the documents, all thresholds are fitted on the same 10 %, and everything
# is measured on the same 20 %; mu_shroom is cross-fitted, with HIDDEN or the models of MODELS. Detectors and counts go to build/features.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
reader=${2:?the folder of the model that reads sources}
hidden=${3:?the folder of the model for responses without sources}
pipeline=${4:-}
veridical=${VERIDICAL:-.venv/bin/veridical}
python=${PYTHON:-.venv/bin/python}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
out=build/features
mkdir -p "$out"
[ -e "$out/words.npz" ] || "$veridical" data statistics "wikipedia:$data/wikipedia" --out "$out/words.npz"

train() { # name, options
  [ -e "$out/$1/detector.json" ] ||
    "$veridical" train features "xsum_token:$data/xsum_token" --statistics "$out/words.npz" --out "$out/$1" "${@:2}"
}

train shown-lr
train shown-svm --classifier svm
train shown-left-lr --context left
train hidden-lr --no-sources
[ -z "$pipeline" ] || train shown-spacy-lr --tagger "spacy:$pipeline"
train hidden-model-lr --no-sources --model "$hidden" --template plain
train hidden-model-svm --no-sources --model "$hidden" --template plain --classifier svm
train shown-model-lr --model "$reader" --template tldr

detectors="features:$out/shown-lr features:$out/shown-svm features:$out/shown-left-lr"
[ -z "$pipeline" ] || detectors="$detectors features:$out/shown-spacy-lr"
detectors="$detectors features:$out/shown-model-lr features:$out/hidden-lr"
detectors="$detectors features:$out/hidden-model-lr features:$out/hidden-model-svm"
# shellcheck disable=SC2086
"$veridical" bench $detectors overlap overlap:values length coin --data "xsum_token:$data/xsum_token" --fit f1 \
  --metrics f1,roc_auc,token_f1,word_roc_auc,f1_sp --out benchmarks/rows/features.jsonl >/dev/null
# shellcheck disable=SC2086
"$python" benchmarks/features_mu_shroom.py "$data" "$out/words.npz" ${MODELS:-"$hidden"}
