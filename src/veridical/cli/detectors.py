"""`veridical detectors`."""

from __future__ import annotations

import inspect

import typer


def detectors_command() -> None:
    """List the detectors, what each scores, and how to name its options."""
    from veridical.core.detector import info_of
    from veridical.detectors import DETECTORS

    width = max(len(name) for name in DETECTORS)
    for name in DETECTORS:
        cls = DETECTORS.load(name)
        about = (inspect.getdoc(cls) or "").partition("\n")[0]
        typer.echo(f"{name:<{width}}  {about}  [{', '.join(info_of(cls).levels)}]")
