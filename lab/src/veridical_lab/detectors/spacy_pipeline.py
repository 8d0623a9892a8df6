"""spaCy pipelines that a user has: loading one, and what identifies it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridical.core.errors import InputError, MissingExtraError

__all__ = ["identity_of", "load_pipeline"]


def load_pipeline(name: str, *, exclude: Sequence[str], needs: Sequence[str], what: str) -> Any:
    """A spaCy pipeline by its folder, or by its name where it is installed.

    Args:
        name: The folder or name.
        exclude: Components that are not needed.
        needs: Components of which it must have one.
        what: What those are called.

    Raises:
        MissingExtraError: spaCy is not installed.
        InputError: There is no such pipeline, or it has none of the components.
    """
    try:
        import spacy
    except ImportError:
        raise MissingExtraError("a spaCy pipeline", "tagger", "veridical-lab") from None
    try:
        nlp = spacy.load(name, exclude=list(exclude))
    except (OSError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        hint = "name its folder, or an installed one such as en_core_web_sm"
        raise InputError(f"the spaCy pipeline {name!r} cannot be loaded: {reason}", hint=hint) from None
    if not set(needs) & set(nlp.pipe_names):
        has = ", ".join(nlp.pipe_names) or "nothing"
        raise InputError(f"the spaCy pipeline {name!r} has no {what}", hint=f"it has: {has}")
    return nlp


def identity_of(pipeline: Any) -> str:
    """Language, name and version of a pipeline."""
    return f"spacy:{pipeline.meta['lang']}_{pipeline.meta['name']}-{pipeline.meta['version']}"
