"""Get few-shot examples for a prompt from a file, from the package, or from labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from veridical.detectors.claims.source_chunks import format_sources
from veridical.records.errors import DataError, InputError
from veridical.records.types import GOLD_THRESHOLD, Example
from veridical.text.segment import has_words

_BUILTIN = "builtin"


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """A document, a claim (or a whole response) about it, and the right answer."""

    document: str
    claim: str
    supported: bool
    reasoning: str = ""


def require_few_shot(name: str, examples: Sequence[FewShotExample], count: int) -> None:
    """Raise `InputError` if the detector `name` still lacks few-shot examples from labelled data."""
    if len(examples) < count:
        raise InputError(
            f"{name} needs {count} few-shot examples from labelled data", hint="bench --fit, or few_shot=FILE"
        )


def answered_examples(examples: Sequence[FewShotExample], label: str, *, reasoning: bool) -> list[tuple[str, str, str]]:
    """Return the document, the claim and the answer of each example.

    With `reasoning`, an answer consists of the reasoning and a last line such as "Supported: Yes" for the label
    "Supported".
    """
    answers = ["Yes" if example.supported else "No" for example in examples]
    if reasoning:
        answers = [f"Reasoning: {e.reasoning}\n{label}: {word}" for e, word in zip(examples, answers, strict=True)]
    return [(e.document, e.claim, answer) for e, answer in zip(examples, answers, strict=True)]


def few_shot_option(text: str) -> int | tuple[FewShotExample, ...]:
    """Parse the option `few_shot=` of a spec.

    Its value can be a file, `builtin` for the examples in the package, or the number of examples to draw from labelled
    data.
    """
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    return read_few_shot(text)


def read_few_shot(path: str | Path) -> tuple[FewShotExample, ...]:
    """Read few-shot examples from a JSON Lines file.

    Each line is {"document", "claim", "supported": true or false, "reasoning"}. The path `builtin` stands for the
    examples in the package: four short English documents, with two supported claims and two subtly wrong claims.

    Raises:
        DataError: A line is not such an example. The error names the line.
    """
    from veridical.datasets.reading import jsonl_rows

    if str(path) == _BUILTIN:
        with as_file(files("veridical.llm") / "prompts" / "few_shot.jsonl") as shipped:
            return read_few_shot(shipped)
    examples = []
    for row in jsonl_rows(Path(path)):
        supported = row.get("supported")
        if not isinstance(supported, bool):
            raise DataError("'supported' is neither true nor false", path=row.path, line=row.line)
        example = FewShotExample(row.text("document"), row.text("claim"), supported, row.optional("reasoning") or "")
        examples.append(example)
    return tuple(examples)


def draw_few_shot(examples: Sequence[Example], n: int) -> tuple[FewShotExample, ...]:
    """Draw `n` few-shot examples from labelled data, alternating between supported and unsupported.

    The shortest examples are used, because every prompt repeats their documents. A document is used at most once per
    label. You always get the same examples from the same data.

    Raises:
        InputError: There are too few examples.
    """
    supported: list[FewShotExample] = []
    unsupported: list[FewShotExample] = []
    for example in sorted(examples, key=lambda e: (sum(len(s.text) for s in e.case.sources), e.case.id)):
        case, score = example.case, example.gold.hallucination
        document = format_sources(case.sources) if case.sources else ""
        if score is None or not has_words(document) or not has_words(case.response):
            continue
        same_label = unsupported if score >= GOLD_THRESHOLD else supported
        if all(other.document != document for other in same_label):
            same_label.append(FewShotExample(document, case.response, same_label is supported))
    half = n // 2
    chosen = (supported[: n - half], unsupported[:half])
    if len(chosen[0]) + len(chosen[1]) < n:
        raise InputError(
            f"{n} few-shot examples are wanted; the data has only {len(chosen[0])} supported and {len(chosen[1])} not",
            hint="give more labelled data, or few_shot=FILE",
        )
    return tuple(chosen[i % 2][i // 2] for i in range(n))
