#!/usr/bin/env bash
# Result rows of ensembles and cascades: `benchmarks/rows_ensemble.sh DATA ENCODER [TOKENS]`, with the public data sets in
# DATA, an encoder in Hugging Face format in ENCODER and, where there is one, a trained token classifier in TOKENS. Fitted on
# 10 % of the documents, measured on 20 %; SETS names other sets. Fitted ensembles go to build/ensemble.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
encoder=${2:?the folder of the encoder}
tokens=${3:-}
python=${PYTHON:-.venv/bin/python}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

members=(--members overlap --members overlap:values --members "align:$encoder")
[ -z "$tokens" ] || members+=(--members "tokens:$tokens")
for one in ${SETS:-xsum_token bump summedits wice}; do
  "$python" benchmarks/ensemble.py "$one:$data/$one" "${members[@]}" --out "build/ensemble/${tokens:+tokens-}$one" >/dev/null
done
