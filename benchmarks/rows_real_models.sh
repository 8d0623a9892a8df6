#!/usr/bin/env bash
# Result rows of detectors that read real language models: `benchmarks/rows_real_models.sh FOLDER MODELS [PART…]`, with the
# public data sets in FOLDER and the model folders in MODELS. On a few cases of each of many documents
# (benchmarks/sample_cases.py), as one pass takes seconds on a processor. The parts:
#   logprob  log-probability by decoders (DECODERS), thresholds fitted on validation documents
#   verify   claims, and whole responses, judged by chat models (CHATS), beside detectors without one; nothing is fitted
#   judges   every way to ask a chat model (CHATS), and detectors without one beside them: few cases (40 of the test part of each
#            set), thresholds fitted on 20 cases of validation documents; not unless it is named
#   server   the judges of `verify` as a llama.cpp server has them (SERVED): their model.gguf, read by the interpreter LLAMA_PYTHON,
#            which has llama-cpp-python[server]; not unless it is named
#   speed    tokens per second of each method and of generation, by model (DECODERS and CHATS), with nothing beside it;
#            LLAMA_PYTHON as above; not unless it is named
# Rows that are there already are kept, and replies of chat models are kept in build/real: a run that was stopped goes on.
# CASES limits the test cases of each set (60, 60 and 40 of summedits, bump and wice in real-verify.jsonl; 100 in real-served.jsonl).
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
models=${2:?the folder with the model folders}
shift 2
[ $# -gt 0 ] || set -- logprob verify
veridical=${VERIDICAL:-.venv/bin/veridical}
python=${PYTHON:-.venv/bin/python}
decoders=${DECODERS:-smollm2-135m-instruct gemma-3-270m}
chats=${CHATS:-qwen2.5-coder-0.5b-instruct}
judges="judge:yes_no judge:cot judge:list verify:yes_no verify:cot verify:yes_no,splitter=model selfcheck:yes_no"
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
rows=benchmarks/rows

sampled() { # set, test cases, validation cases, name
  [ -e "build/real/$4.jsonl" ] || "$python" benchmarks/sample_cases.py "$1:$data/$1" --test "$2" --valid "$3" --per-document 6 \
    --out "build/real/$4.jsonl"
}

for part in "$@"; do
  case $part in
  logprob)
    for set in xsum_token wice bump summedits; do
      sampled $set "${CASES:-150}" 60 $set
      for detector in overlap default length; do
        "$veridical" bench $detector --data "jsonl:build/real/$set.jsonl" --fit balanced_accuracy \
          --metrics roc_auc,balanced_accuracy,f1,word_roc_auc,token_f1 --out $rows/real-logprob.jsonl >/dev/null
      done
      for decoder in $decoders; do
        "$veridical" bench "logprob:$models/$decoder,template=tldr" --data "jsonl:build/real/$set.jsonl" \
          --fit balanced_accuracy --metrics roc_auc,balanced_accuracy,f1,word_roc_auc,token_f1 \
          --out $rows/real-logprob.jsonl >/dev/null
      done
    done
    ;;
  verify)
    for set in conv_fever summedits bump wice; do
      sampled $set "${CASES:-100}" 0 "$set-test"
      for detector in overlap default verify:overlap verify; do
        "$veridical" bench "$detector" --data "jsonl:build/real/$set-test.jsonl" --metrics roc_auc,balanced_accuracy,f1 \
          --out $rows/real-verify.jsonl >/dev/null
      done
      for chat in $chats; do
        for detector in judge:yes_no verify:yes_no; do
          "$veridical" bench "$detector" --model "$models/$chat" --cache "build/real/$chat.db" \
            --data "jsonl:build/real/$set-test.jsonl" --metrics roc_auc,balanced_accuracy,f1 \
            --out $rows/real-verify.jsonl >/dev/null
        done
      done
    done
    ;;
  judges)
    for set in ${SETS:-conv_fever summedits bump wice}; do
      [ -e "build/real/$set-judges.jsonl" ] || "$python" benchmarks/sample_cases.py "$set:$data/$set" --test 40 --valid 20 \
        --per-document 6 --question "Summarise the document in one or two sentences." --out "build/real/$set-judges.jsonl"
      judged=(bench --data "jsonl:build/real/$set-judges.jsonl" --fit balanced_accuracy --metrics roc_auc,balanced_accuracy,f1
        --out $rows/real-judges.jsonl)
      "$veridical" "${judged[@]}" overlap default verify:default >/dev/null
      for chat in $chats; do
        for judge in ${JUDGES:-$judges}; do
          [[ $judge = *yes_no* ]] && judge=$judge,min_probability_mass=0
          "$veridical" "${judged[@]}" "$judge" --model "$models/$chat" --cache "build/real/$chat.db" >/dev/null
        done
      done
    done
    ;;
  server)
    for chat in ${SERVED:-qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct}; do
      "${LLAMA_PYTHON:?an interpreter with llama-cpp-python[server]}" -m llama_cpp.server --model "$models/$chat/model.gguf" \
        --model_alias "$chat-llama.cpp" --host 127.0.0.1 --port 8124 --n_ctx 4096 --n_threads 2 --logits_all True >build/real/server.log 2>&1 &
      server=$!
      trap 'kill $server' EXIT
      until "$python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8124/v1/models')" 2>/dev/null; do
        kill -0 $server || exit 1
        sleep 1
      done
      for set in ${SETS:-conv_fever summedits bump wice}; do
        sampled $set "${CASES:-100}" 0 "$set-test"
        for detector in ${JUDGES:-judge:yes_no verify:yes_no}; do
          "$veridical" bench "$detector,min_probability_mass=0" --model "$chat-llama.cpp" --concurrency 1 --timeout 600 \
            --base-url http://127.0.0.1:8124/v1 --cache "build/real/$chat-served.db" --data "jsonl:build/real/$set-test.jsonl" \
            --metrics roc_auc,balanced_accuracy,f1 --out $rows/real-verify.jsonl >/dev/null
        done
      done
      kill $server
      wait $server || true
      trap - EXIT
    done
    ;;
  speed)
    for name in $decoders $chats; do
      "$python" benchmarks/method_throughput.py "$models/$name" "summedits:$data/summedits" --cases "${CASES:-8}" --rounds 2 \
        --llama-python "${LLAMA_PYTHON:?an interpreter with llama-cpp-python}" --rows $rows/method-throughput.jsonl
    done
    ;;
  *) echo "no such part: $part" >&2 && exit 2 ;;
  esac
done

"$veridical" bench table $rows/real-logprob.jsonl $rows/real-verify.jsonl --format svg --metrics roc_auc --out docs/real-models.svg
