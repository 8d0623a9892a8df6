"""A command for `veridical`: how many words and sentences of a response are flagged."""

from pathlib import Path
from typing import Annotated

import typer


def count_command(
    response: Annotated[Path, typer.Argument(help="The text to check.")],
    sources: Annotated[list[Path], typer.Argument(help="The texts that it may rest on.")],
    detector: Annotated[str, typer.Option("--detector", "-d", help="The detector.")] = "default",
) -> int:
    """Count what a detector flags in a response; the exit code is that of `veridical check`."""
    import veridical
    from veridical.io.documents import read_document
    from veridical.text.segment import words

    texts = [read_document(path) for path in (response, *sources)]
    result = veridical.check(texts[0], texts[1:], detector=detector)
    flagged = sum(len(words(span.of(texts[0]))) for span in result.flagged)
    print(f"{result.outcome.value}: {flagged} of {len(words(texts[0]))} words are flagged")
    return {"clear": 0, "flagged": 1, "unjudged": 3}[result.outcome.value]
