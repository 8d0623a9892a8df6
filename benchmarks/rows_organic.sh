#!/usr/bin/env bash
# Probes on what real language models write (CH-Wang et al. 2024, Table 6): `benchmarks/rows_organic.sh FOLDER MODELS [NAME…]`,
# with the public data sets in FOLDER and the model folders NAME in MODELS. Every model describes each set of E2E attributes,
# once for each of two seeds, after nine few-shot examples; the detector `slots` labels what it wrote. Probes are trained on
# these descriptions, and on as many human ones with changed attributes (synthetic errors), and both are measured on the
# test parts of both. What is there already is kept: a run that was stopped goes on. RESPONSES limits the descriptions of
# each seed; PARTS (labels, generate, probes, layers, guard, replies) says what to do; layers is the paper's figures 2 to 4;
# replies is the same transfer for replies of dialogue systems that people labelled (REPLIES, Conv-FEVER and the Q2 labels of
# Wizard of Wikipedia), against true replies with a
# fact of their knowledge changed. Guarded generation describes the attributes of the test part with a probe trained on the
# organic descriptions in the loop, and `slots` judges; its rows are appended.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
models=${2:?the folder with the model folders}
shift 2
[ $# -gt 0 ] || set -- smollm2-135m-instruct qwen2.5-coder-0.5b-instruct
veridical=${VERIDICAL:-.venv/bin/veridical}
python=${PYTHON:-.venv/bin/python}
parts=${PARTS:-labels generate probes layers guard replies}
sample=${RESPONSES:+--sample $RESPONSES}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
out=build/organic rows=benchmarks/rows
template=data-to-text
metrics=f1,roc_auc,word_roc_auc,token_f1,f1_sp
mkdir -p "$out"

if [[ $parts = *labels* && ! -e $rows/slots.jsonl ]]; then
  "$veridical" bench slots --data "e2e:$data/e2e" --metrics precision,recall,f1,omission_recall,omission_f1 \
    --out $rows/slots.jsonl >/dev/null
fi

for name in "$@"; do
  model=$models/$name
  if [[ $parts = *generate* ]]; then
    for seed in 0 1; do
      # shellcheck disable=SC2086
      "$veridical" data generate "e2e:$data/e2e" --model "$model" --task data-to-text --seed $seed $sample --batch-size 32 \
        --max-tokens 60 \
        --out "$out/$name-$seed.jsonl"
    done
  fi
  if [[ $parts = *probes* ]]; then
    "$python" benchmarks/organic_data.py "e2e:$data/e2e" "$out/$name-0.jsonl" "$out/$name-1.jsonl" \
      --organic "$out/$name-organic.jsonl" --synthetic "$out/$name-synthetic.jsonl"
    "$veridical" analyse transfer "organic=jsonl:$out/$name-organic.jsonl" "synthetic=jsonl:$out/$name-synthetic.jsonl" \
      --model "$model" --template $template --kind linear --memory 6 --store "$out/$name.store" --out "$out/$name-transfer" >/dev/null
    cp "$out/$name-transfer/transfer.jsonl" "$rows/organic-transfer-$name.jsonl"
    for kind in organic synthetic; do
      "$veridical" bench overlap length coin "logprob:$model,template=$template" --data "jsonl:$out/$name-$kind.jsonl" \
        --fit f1 --metrics $metrics --out $rows/organic.jsonl >/dev/null
    done
  fi
  if [[ $parts = *layers* ]]; then
    "$veridical" analyse layers "jsonl:$out/$name-organic.jsonl" --model "$model" --template $template --kind linear --memory 6 \
      --store "$out/$name.store" --out "$out/$name-layers" >/dev/null
    cp "$out/$name-layers/layers.jsonl" "$rows/organic-layers-$name.jsonl"
    cp "$out/$name-layers/layers-word_roc_auc.svg" "docs/organic-layers-$name.svg"
  fi
  if [[ $parts = *replies* ]]; then
    for path in ${REPLIES:-conv_fever entailment/wow_q2}; do
      set=${path##*/}
      [ -e "$out/$set-knowledge.jsonl" ] ||
        "$veridical" data corrupt "$set:$data/$path" --method knowledge --seed 0 --share 0.5 --out "$out/$set-knowledge.jsonl" >/dev/null
      "$veridical" analyse transfer "organic=$set:$data/$path" "synthetic=jsonl:$out/$set-knowledge.jsonl" \
        --model "$model" --template knowledge --kind linear --objective response --memory 6 --store "$out/$name.store" \
        --out "$out/$name-replies-$set" >/dev/null
      cp "$out/$name-replies-$set/transfer.jsonl" "$rows/replies-transfer-$name-$set.jsonl"
    done
  fi
  if [[ $parts = *guard* ]]; then
    organic=jsonl:$out/$name-organic.jsonl probe=$out/$name-probe
    [ -e "$probe/detector.json" ] ||
      "$veridical" train probe "$organic" --model "$model" --template $template --kind linear --memory 6 \
        --store "$out/$name.store" --out "$probe"
    "$python" benchmarks/guard.py "$model" "$organic" --detector "probe:$probe" --judge slots --template $template --top-k 2 \
      --stop line --tokens 60 --documents 100 --ways "rerank 4" suppress "backtrack to word" --rows $rows/organic-guard.jsonl
    "$python" benchmarks/guard_speed.py "$model" "$organic" --detector "probe:$probe" --documents 5 --rounds 2 \
      --rows $rows/guard-speed.jsonl
  fi
done
