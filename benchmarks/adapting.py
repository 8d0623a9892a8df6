"""Adapt the default detector to documents whose labelled summaries it never sees, and judge these.

    python benchmarks/adapting.py ../shared/data --domain qmsumm [--model NAME --url http://127.0.0.1:8080/v1]

The documents are those of one domain of `summedits` that the packaged detector was not trained on. `veridical adapt`
sees their texts alone, without any label. Appends a row to benchmarks/rows/adapting.jsonl: the gate's figures, and ROC
AUC and balanced accuracy on the labelled summaries before and after, whether or not the gate keeps the new detector.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

from commands import command

from veridical.datasets import read
from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors.default.detector import Default
from veridical.llm.connection import Connection
from veridical_lab.adapt.adapting import Adapting, adapt, compared

ROWS = Path(__file__).parent / "rows" / "adapting.jsonl"


def main() -> None:
    """Adapt, judge, print, and append the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--domain", required=True)
    parser.add_argument("--tokens", type=int, default=150_000)
    parser.add_argument("--model", help="writes the statements; without it, rules do")
    parser.add_argument("--url", help="the chat server, with /v1")
    parser.add_argument("--out", type=Path, default=Path("build/adapting"))
    options = parser.parse_args()
    parts = split_by_document(read(f"summedits:{options.data / 'summedits'}"))
    labelled = [e for part in ("valid", "test") for e in parts[part] if dict(e.group)["domain"] == options.domain]
    name = f"{options.domain}-{options.model or 'rules'}"
    documents, out = options.out / f"{options.domain}-documents", options.out / name
    documents.mkdir(parents=True, exist_ok=True)
    for document in {example.document for example in labelled}:
        text = next(e.case.sources[0].text for e in labelled if e.document == document)
        (documents / f"{str(document).replace('/', '-')}.txt").write_text(text, "utf-8")
    work = out.with_name(out.name + ".work")
    model = None
    if options.model:
        connection = Connection(base_url=options.url, cache=work / "replies.db", concurrency=1, timeout=900.0)
        work.mkdir(parents=True, exist_ok=True)
        model = connection.chat(options.model)
    start = time.perf_counter()
    report = adapt([documents], out, Adapting(tokens=options.tokens), model=model, progress=print)
    row = {
        "domain": options.domain,
        "writer": options.model or "rules",
        "minutes": round((time.perf_counter() - start) / 60, 1),
        "labelled summaries": compared(labelled, Default(), Default(work / "detector")),
        "gate": asdict(report),
        "data_hash": content_hash(labelled),
        "command": command(),
        "date": date.today().isoformat(),
    }
    print(json.dumps(row, indent=1))
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
