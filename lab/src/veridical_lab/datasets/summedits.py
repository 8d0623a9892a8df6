"""Edited summaries in ten domains. People labelled them as consistent with the source or not (Laban et al. 2023)."""

from __future__ import annotations

from veridical.datasets import Info
from veridical.datasets.reading import Row, text_id
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import FileSet
from veridical_lab.datasets.marks import diff_spans
from veridical_lab.datasets.reading import group, json_rows

DOMAINS = (
    *("billsum", "ectsum", "news", "podcast", "qmsumm", "sales_call", "sales_email", "samsum", "scitldr"),
    "shakespeare",
)
INFO = Info(
    name="summedits",
    title="SummEdits",
    licence="Apache-2.0",
    citation="Laban et al. 2023, SummEdits: Measuring LLM Ability at Factual Reasoning Through The Lens "
    "of Summarization",
    levels=(Level.RESPONSE, Level.SPAN),
    splits=DOMAINS,
    document="the source text (by its hash)",
    notes=(
        "The splits are the domains. Spans are the word-level difference to the original summary, so harmless "
        "changes made beside the wrong one are marked too."
    ),
)


def _example(domain: str, row: Row) -> list[Example]:
    text, response = row.text("doc"), row.text("summary")
    document = text_id(text)
    case = Case(f"{domain}/{row.name('id')}", response, (Source(document, text),))
    score = row.choice("label", {1: 0.0, 0: 1.0})
    kinds = "+".join(sorted(set(row.texts("edit_types")))) or None
    spans = diff_spans(row.text("original_summary"), response) if score else []
    notes = ("the inconsistent summary has no word that the original lacks",) if score and not spans else ()
    verdicts = tuple(Verdict(span, 1.0, kinds) for span in spans)
    gold = Judgement(case.id, "human:summedits", score, verdicts=verdicts, notes=notes)
    return [Example(case, gold, document, group(domain=domain, edit=kinds, part=row.optional("split")))]


read = FileSet(INFO, {domain: f"summedits_{domain}.json" for domain in DOMAINS}, json_rows, _example).read
