"""`veridical detectors`: list the detectors."""

from __future__ import annotations

import inspect
import sys


def detectors_command() -> None:
    """List the detectors, with what each one does and which scores it gives.

    [bold]veridical detectors[/bold]

    Choose one with `--detector NAME`. To set options, write `--detector NAME:VALUE,OPTION=VALUE`, such as
    logprob:models/reader,template=tldr. Each detector's page in the documentation lists its options.
    """
    from veridical.cli.options import write_line
    from veridical.detectors import DETECTORS
    from veridical.records.detector import info_of
    from veridical.records.errors import InputError

    width = max(len(name) for name in DETECTORS)
    for name in DETECTORS:
        try:
            detector = DETECTORS.load(name)
        except InputError as error:  # a broken plugin must not hide the other detectors
            write_line(f"veridical: {error}")
            continue
        summary = (inspect.getdoc(detector) or "").partition("\n")[0]
        info = info_of(detector)
        about = [f"scores {', '.join(info.levels)}"]
        if info.needs_sources:
            about.append("needs sources")
        if info.needs_chat_model:
            about.append("can ask a language model")
        sys.stdout.write(f"{name:<{width}}  {summary}\n{'':<{width}}  {'; '.join(about)}\n")
