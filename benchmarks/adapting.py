"""Adapt the default detector to documents whose labelled summaries it never sees, and judge these.

    python benchmarks/adapting.py ../shared/data --domain qmsumm [--model NAME --url http://127.0.0.1:8080/v1]

The documents are those of one domain of `summedits` that the packaged detector was not trained on. `veridical adapt`
sees their texts alone, without any label. Appends a row to benchmarks/rows/adapting.jsonl: the gate's figures, and ROC
AUC and balanced accuracy on the labelled summaries before and after, whether or not the gate keeps the new detector.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from running import benchmark

from veridical.datasets import read
from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors.default.detector import Default
from veridical.llm.connection import Connection
from veridical_lab.adapt.adapting import Adapting, adapt, compared


@benchmark("adapting.jsonl")
def main(
    data: Path,
    *,
    domain: str,
    tokens: int = 150_000,
    model: Annotated[str | None, "writes the statements; without it, rules do"] = None,
    url: Annotated[str | None, "the chat server, with /v1"] = None,
    concurrency: Annotated[int, "requests at the same time"] = 1,
    out: Path = Path("build/adapting"),
) -> Iterator[dict[str, Any]]:
    parts = split_by_document(read(f"summedits:{data / 'summedits'}"))
    labelled = [e for part in ("valid", "test") for e in parts[part] if dict(e.group)["domain"] == domain]
    documents, out = out / f"{domain}-documents", out / f"{domain}-{model or 'rules'}"
    documents.mkdir(parents=True, exist_ok=True)
    for document in {example.document for example in labelled}:
        text = next(e.case.sources[0].text for e in labelled if e.document == document)
        (documents / f"{str(document).replace('/', '-')}.txt").write_text(text, "utf-8")
    work = out.with_name(out.name + ".work")
    chat = None
    if model:
        connection = Connection(base_url=url, cache=work / "replies.db", concurrency=concurrency, timeout=900.0)
        work.mkdir(parents=True, exist_ok=True)
        chat = connection.chat(model)
    start = time.perf_counter()
    report = adapt([documents], out, Adapting(tokens=tokens), model=chat, progress=print)
    yield {
        "domain": domain,
        "writer": model or "rules",
        "minutes": round((time.perf_counter() - start) / 60, 1),
        "labelled summaries": compared(labelled, Default(), Default(work / "detector")),
        "gate": asdict(report),
        "data_hash": content_hash(labelled),
    }


if __name__ == "__main__":
    main()
