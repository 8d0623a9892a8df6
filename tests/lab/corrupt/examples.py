"""What several tests of corruptions ask of an example."""

from veridical.records.types import Example


def restored(changed: Example) -> str:
    """The response with each verdict's correction in its place."""
    text = changed.case.response
    for verdict in reversed(changed.gold.verdicts):
        text = text[: verdict.span.start] + verdict.correction + text[verdict.span.end :]
    return text
