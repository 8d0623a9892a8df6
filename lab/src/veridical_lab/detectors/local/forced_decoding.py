"""Teacher forcing, shared by several detectors: from cases to the model's outputs for their windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.errors import CannotJudgeError
from veridical.core.segment import words
from veridical.core.types import Case
from veridical.models.encode import Encoded, encode
from veridical.models.local_model import LocalModel
from veridical_lab.models.runner import RequestedOutputs, Runner, RunnerResult

__all__ = ["NO_WORDS", "DecodedCase", "decode_cases"]

NO_WORDS = "the response has no words"


@dataclass(frozen=True, slots=True)
class DecodedCase:
    """The model's outputs for a case: its windows over the sources with a result each, or why there are none."""

    windows: Sequence[Encoded] = ()
    results: Sequence[RunnerResult] = ()
    problems: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of encoding and model about the windows."""
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
    """Run a model along the responses of `cases`; all windows of all cases share batches.

    Args:
        model: The model.
        cases: The cases.
        want: The outputs to compute for each token.
        template: The name of the template; None: the model's default.
        max_tokens: The most tokens in a sequence; None: the model's context.
        max_windows: The most windows over long sources; None: all.
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
