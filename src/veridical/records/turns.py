"""The turns of a conversation before a response."""

from __future__ import annotations

from veridical.records.types import Case, Turn


def turns_of_others(case: Case) -> tuple[Turn, ...]:
    """Return the turns of the history that do not come from the assistant.

    If no speaker is called "assistant", return the turns of the last speaker, because the response replies to this
    speaker.

    >>> history = (Turn("user", "Who is it?"), Turn("assistant", "It is Ann."), Turn("user", "Sure?"))
    >>> [turn.text for turn in turns_of_others(Case("1", "Yes.", history=history))]
    ['Who is it?', 'Sure?']
    """
    speakers = {turn.speaker for turn in case.history}
    others = speakers - {"assistant"} if "assistant" in speakers else {turn.speaker for turn in case.history[-1:]}
    return tuple(turn for turn in case.history if turn.speaker in others)
