"""Run a model over given responses (teacher forcing), as several detectors need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.inference.local_model import LocalModel
from veridical.records.errors import CannotJudgeError
from veridical.records.types import Case
from veridical.text.segment import words
from veridical_lab.models.encode import Encoded, encode
from veridical_lab.models.runner import RequestedOutputs, Runner, RunnerResult

NO_WORDS = "the response has no words"


@dataclass(frozen=True, slots=True)
class DecodedCase:
    """What the model computed for a case.

    There is a result for each window over the sources, or `problems` say why there are none.
    """

    windows: Sequence[Encoded] = ()
    results: Sequence[RunnerResult] = ()
    problems: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes from encoding the windows and from running the model, without repeats."""
        pairs = zip(self.windows, self.results, strict=True)
        return tuple(dict.fromkeys(note for window, result in pairs for note in (*window.notes, *result.notes)))


def decode_cases(
    model: LocalModel,
    cases: Sequence[Case],
    want: RequestedOutputs,
    template: str | None,
    *,
    max_tokens: int | None = None,
    max_windows: int | None = None,
) -> list[DecodedCase]:
    """Run a model over the responses of cases. The windows of all cases are batched together.

    Args:
        model: The model to run.
        cases: The cases with the responses.
        want: What to compute for each token.
        template: The name of the template. Default: the model's default template.
        max_tokens: A sequence may have at most this many tokens. Default: the model's context.
        max_windows: Read at most this many windows over long sources. Default: all.
    """
    sequences: list[Encoded] = []
    windows_of: list[slice | str] = []
    for case in cases:
        if not words(case.response):
            windows_of.append(NO_WORDS)
            continue
        try:
            windows = encode(model, case, template, max_tokens=max_tokens, max_windows=max_windows)
        except CannotJudgeError as error:
            windows_of.append(str(error))
            continue
        if windows[0].spans:
            windows_of.append(slice(len(sequences), len(sequences) + len(windows)))
            sequences += windows
        else:
            windows_of.append("the tokenizer has no token for anything in the response")
    results = list(Runner(model).run(sequences, want))
    decoded = []
    for part in windows_of:
        if isinstance(part, str):
            decoded.append(DecodedCase(problems=(part,)))
            continue
        failures = dict.fromkeys(result.failed for result in results[part] if result.failed)
        decoded.append(DecodedCase(sequences[part], results[part], tuple(failures)))
    return decoded
