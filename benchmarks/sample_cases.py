"""Labelled cases for detectors that take seconds a case: so many of each part, few of each document.

    python benchmarks/sample_cases.py SET:PATH --test 150 --valid 60 --per-document 4 --out FILE

`veridical bench --sample` takes all cases of a few documents; intervals are by document, so that few cases of many
documents say more. Documents are drawn by hash from the test and validation parts that `veridical bench --fit` makes
of the whole set, so `bench jsonl:FILE --fit` splits them in the same way. The members of a pair stay together.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from veridical.datasets import read
from veridical.datasets.split import document_of, split_by_document
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.records.types import Example
from veridical_lab.metrics.pairs import pair_name


def order(name: str) -> bytes:
    return hashlib.sha256(f"sample_cases\0{name}".encode("utf-8", "surrogatepass")).digest()


def drawn(examples: Iterable[Example], count: int, per_document: int) -> Iterator[Example]:
    """About `count` labelled examples with sources, at most about `per_document` of each document."""
    usable = [e for e in examples if e.case.sources and e.gold.hallucination is not None]
    found = 0
    for _, of_document in groupby(sorted(usable, key=lambda e: order(document_of(e))), key=document_of):
        units: dict[str, list[Example]] = {}
        for example in of_document:
            units.setdefault(pair_name(example) or example.case.id, []).append(example)
        taken: list[Example] = []
        for name in sorted(units, key=order):
            if len(taken) < per_document:
                taken += units[name]
        if found >= count:
            return
        found += len(taken)
        yield from taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="SET:PATH")
    parser.add_argument("--test", type=int, default=150)
    parser.add_argument("--valid", type=int, default=60)
    parser.add_argument("--per-document", type=int, default=4)
    parser.add_argument("--question", help="asked by each case that has none, for detectors that ask again (selfcheck)")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    parts = split_by_document(read(given.data))
    chosen = [e for part in ("valid", "test") for e in drawn(parts[part], getattr(given, part), given.per_document)]
    if given.question:
        chosen = [replace(e, case=replace(e.case, question=e.case.question or given.question)) for e in chosen]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(given.out, "".join(encode(example) + "\n" for example in chosen))


if __name__ == "__main__":
    main()
