"""Wikipedia claims with the web pages that they cite. Tokens or whole claims are labelled (Kamoi et al. 2023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.records.spans import Span
from veridical.records.types import Case, Claim, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.marks import align, flagged_runs
from veridical_lab.datasets.reading import group

_FOLDERS = {
    "tokens": "non_supported_tokens",
    "claims": "oracle_chunks/claim",
    "subclaims": "oracle_chunks/subclaim",
}
_FILES = {
    f"{kind}/{part}": f"{folder}/{part}.jsonl" for kind, folder in _FOLDERS.items() for part in ("train", "dev", "test")
}
_LABELS = {"supported": 0.0, "partially_supported": 1.0, "not_supported": 1.0}

INFO = Info(
    name="wice",
    title="WiCE: Wikipedia citation entailment",
    licence="ODC-BY",
    citation="Kamoi et al. 2023, WiCE: Real-World Entailment for Claims in Wikipedia",
    levels=(Level.RESPONSE, Level.SPAN),
    unit="token",
    splits=tuple(_FILES),
    document="the Wikipedia article (claim_title)",
    notes=(
        "The response is the claim. tokens/*: a span for each run of tokens labelled not supported. claims/* and "
        "subclaims/*: one verdict on the claim, score 1 for not_supported; a partially_supported claim counts as "
        "hallucinated without saying where. Several evidence chunks of one claim are cases NAME#1, NAME#2 …"
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the labelled claims in all files in `path`, or only those of one split."""
    seen: Counter[str] = Counter()
    for part, file in split_files(INFO, path, split, _FILES):
        yield from read_rows(jsonl_rows(file, on_bad), partial(_example, part, seen), on_bad)


def _example(part: str, seen: Counter[str], row: Row) -> list[Example]:
    meta = row.row("meta")
    name = meta.name("id")
    response, label = row.text("claim"), row.text("label")
    source = Source("evidence", "\n".join(row.texts("evidence")))
    score = row.choice("label", _LABELS)
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    if "non_supported_spans" in row.values:
        seen[f"tokens/{name}"] += 1
        count = seen[f"tokens/{name}"]
        case = Case(f"tokens/{name}" + (f"#{count}" if count > 1 else ""), response, (source,))
        token_spans = align(response, row.texts("claim_tokens"))
        if token_spans is None:
            raise row.bad("the claim's tokens do not join to the claim")
        verdicts = tuple(Verdict(span, 1.0) for span in flagged_runs(token_spans, row.flags("non_supported_spans")))
        score = float(bool(verdicts))
    else:
        seen[f"claims/{name}"] += 1
        case = Case(f"claims/{name}#{seen[f'claims/{name}']}", response, (source,))
        if label == "partially_supported":
            notes = ("part of the claim is not supported; which part is not labelled",)
        else:
            whole = Span(0, len(response))
            verdicts = (Verdict(whole, score, label, Claim(response, (whole,))),)
    gold = Judgement(case.id, "human:wice", score, verdicts=verdicts, notes=notes)
    return [Example(case, gold, meta.text("claim_title"), group(label=label, part=part))]
