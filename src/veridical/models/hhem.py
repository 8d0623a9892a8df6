"""HHEM-2.1-Open (Vectara) rebuilt: a T5 encoder with a linear layer, read at the first token.

Its checkpoint brings code, which is never run, and names the model it was made from, whose sizes and tokenizer it has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veridical.core.errors import InputError
from veridical.core.files import read_text
from veridical.core.serialization import parse

__all__ = ["HHEM", "HHEM_NAMES", "hhem_parts", "is_hhem"]

HHEM = "HHEMv2ForSequenceClassification"  # as its config.json calls it
HHEM_NAMES = {r"^t5\.": ""}  # from its names of weights to those of transformers' T5ForTokenClassification


def is_hhem(folder: str | Path) -> bool:
    """Whether it is a folder with a checkpoint of HHEM-2."""
    path = Path(folder) / "config.json"
    return path.is_file() and HHEM in read_text(path)


def hhem_parts(folder: Path) -> tuple[Any, Any]:
    """The configuration and the tokenizer of the model it was made from: in a folder of that name inside, or the hub's.

    Raises `InputError` if it is in neither.
    """
    import transformers

    named = str(parse(read_text(folder / "config.json")).get("foundation", "google/flan-t5-base"))
    inside = folder / Path(named).name
    place = inside if inside.is_dir() else named
    try:
        config = transformers.AutoConfig.from_pretrained(place, num_labels=2, architectures=[HHEM])
        return config, transformers.AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError):
        raise InputError(
            f"{folder} was made from {named}, which cannot be had",
            hint=f"copy config.json, tokenizer.json and tokenizer_config.json of {named} to {inside}",
        ) from None
