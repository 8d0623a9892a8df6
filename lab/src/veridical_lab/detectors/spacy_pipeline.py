"""Load a spaCy pipeline of the user, and identify it by language, name and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridical.records.errors import InputError, MissingExtraError


def load_pipeline(name: str, *, exclude: Sequence[str], needs: Sequence[str], what: str) -> Any:
    """Load a spaCy pipeline from its folder, or by name if it is installed.

    Args:
        name: The folder of the pipeline, or its name if it is installed.
        exclude: The components to leave out.
        needs: Components of which the pipeline must have at least one.
        what: What messages call the needed components.

    Raises:
        MissingExtraError: spaCy is not installed.
        InputError: The pipeline cannot be loaded, or has none of the needed components.
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
    """Join language, name and version of a pipeline into one text."""
    return f"spacy:{pipeline.meta['lang']}_{pipeline.meta['name']}-{pipeline.meta['version']}"
