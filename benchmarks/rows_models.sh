#!/usr/bin/env bash
# Result rows of the detectors that read a small language model: `benchmarks/rows_models.sh FOLDER MODEL`, with the public
# data sets in FOLDER and a model in Hugging Face format in MODEL. Samples: salience takes seconds a response here.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
model=${2:?the folder of the model}
veridical=${VERIDICAL:-.venv/bin/veridical}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

measure() { # set, documents
  "$veridical" bench overlap length coin "logprob:$model,template=tldr" "salience:$model,template=tldr" \
    --data "$1:$data/$1" --sample "$2" --out benchmarks/rows/models.jsonl >/dev/null
}

measure xsum_token 40
measure wice 40
measure perspectrum 40
measure conv_fever 12
measure bump 4  # long responses: minutes each
