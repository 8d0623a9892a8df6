#!/usr/bin/env bash
# Makes the rows of docs/perspectives.md again: `benchmarks/rows_perspectives.sh FOLDER`, with perspectrum in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
veridical=${VERIDICAL:-.venv/bin/veridical}

"$veridical" bench perspectives overlap default --data "perspectrum:$data/perspectrum" --table 1 --table 3 --sample 80 \
  --out benchmarks/rows/perspectives.jsonl --comparisons benchmarks/rows/perspectives-compare.jsonl >/dev/null
