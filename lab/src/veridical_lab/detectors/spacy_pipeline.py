"""Load a spaCy pipeline that the user has, and identify it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridical.core.errors import InputError, MissingExtraError

__all__ = ["identity_of", "load_pipeline"]


def load_pipeline(name: str, *, exclude: Sequence[str], needs: Sequence[str], what: str) -> Any:
    """Load a spaCy pipeline from its folder, or by name if it is installed.

    Args:
        name: The folder or name.
        exclude: Components to leave out.
        needs: Components; the pipeline must have at least one of them.
        what: The name of these components in messages.

    Raises:
        MissingExtraError: If spaCy is not installed.
        InputError: If the pipeline cannot be loaded, or has none of the components.
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
    """Return language, name and version of a pipeline."""
    return f"spacy:{pipeline.meta['lang']}_{pipeline.meta['name']}-{pipeline.meta['version']}"
