#!/usr/bin/env bash
# Makes the committed result rows again: `benchmarks/rows.sh FOLDER`, with the public data sets in FOLDER (see docs/datasets.md).
# Rows that are there already for the same data and settings are kept; a run that was stopped goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
veridical=${VERIDICAL:-.venv/bin/veridical}
detectors="overlap overlap:values length coin majority"

measure() { # set, group
  # shellcheck disable=SC2086
  "$veridical" bench $detectors --data "$1:$data/$1" --group-by "$2" --out benchmarks/rows/baselines.jsonl >/dev/null
  # shellcheck disable=SC2086
  "$veridical" bench $detectors --data "$1:$data/$1" --fit f1 --out benchmarks/rows/baselines-fitted.jsonl >/dev/null
  rm -f "benchmarks/rows/compare-$1.jsonl" # comparisons are appended, and corrected for their number
  # shellcheck disable=SC2086
  "$veridical" bench compare $detectors --data "$1:$data/$1" --fit f1 --out "benchmarks/rows/compare-$1.jsonl" >/dev/null
}

measure xsum_token system
measure wice part
measure bump error_type
measure summedits domain
measure conv_fever model
measure begin model
measure shroom_2024 task
