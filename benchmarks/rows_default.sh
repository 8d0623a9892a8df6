#!/usr/bin/env bash
# Measures everything that the docs say of the detector `default`, after it has changed: `benchmarks/rows_default.sh FOLDER [LOG]`, with the
# data sets in FOLDER and, as LOG, tau-bench's gpt-4o-airline.json (docs/conversations.md). Rows of the earlier version are replaced. If the run
# is interrupted, it begins again, but keeps the rows of the yardsticks. Afterwards, run `make docs`.
#
# It needs no chat model, so rows that compare `default` with one stay as they are (llm_faithfulness.py, answers.py, rows_real_models.sh). So do
# times (default_speed.py, batch_rows.py, server_load.py), which need a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?the folder with the data sets}
python=${PYTHON:-.venv/bin/python}

VERIDICAL=${VERIDICAL:-"$(dirname "$python")/veridical"} benchmarks/rows_yardsticks.sh "$data"
"$python" benchmarks/rules.py "$data" --most 60
"$python" benchmarks/leave_one_out.py "$data" --most 60
"$python" benchmarks/error_kinds.py "$data"
"$python" benchmarks/explanations.py "$data" --detector default
"$python" benchmarks/causes.py "$data/written" --split dev
"$python" benchmarks/causes.py "$data/written" --split dev --questions 8
"$python" benchmarks/conversations.py --detector default
[ $# -lt 2 ] || "$python" benchmarks/conversations.py --log "$2" --detector default
"$python" benchmarks/true_rate.py "$data" --cases 500
