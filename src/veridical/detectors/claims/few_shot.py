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
    """A solved example to show in a prompt: a document, a claim about it, and the right answer.

    Attributes:
        document: The text of the sources.
        claim: The claim, or a complete response.
        supported: The right answer: whether the document supports the claim.
        reasoning: The reasoning that leads to the answer, for prompts that ask for it.
    """

    document: str
    claim: str
    supported: bool
    reasoning: str = ""


def require_few_shot(name: str, examples: Sequence[FewShotExample], count: int) -> None:
    """Raise `InputError` if a detector has fewer few-shot examples than it needs, because `fit` was not called.

    Args:
        name: The name of the detector, for the message.
        examples: The examples that it has.
        count: The number of examples that it needs.
    """
    if len(examples) < count:
        raise InputError(
            f"{name} needs {count} few-shot examples from labelled data", hint="bench --fit, or few_shot=FILE"
        )


def answered_examples(examples: Sequence[FewShotExample], label: str, *, reasoning: bool) -> list[tuple[str, str, str]]:
    """Convert few-shot examples into (document, claim, answer) texts for `chat_messages`.

    The answer is "Yes" or "No". With `reasoning`, it consists of the reasoning and a last line such as "Supported:
    Yes", where "Supported" is the `label`.
    """
    answers = ["Yes" if example.supported else "No" for example in examples]
    if reasoning:
        answers = [f"Reasoning: {e.reasoning}\n{label}: {word}" for e, word in zip(examples, answers, strict=True)]
    return [(e.document, e.claim, answer) for e, answer in zip(examples, answers, strict=True)]


def few_shot_option(text: str) -> int | tuple[FewShotExample, ...]:
    """Parse the option `few_shot=` of a spec, and return the examples or their number.

    The value can be a file of examples, `builtin` for the examples in the package, or the number of examples to draw
    from labelled data.
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
    label. The result is deterministic.

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
