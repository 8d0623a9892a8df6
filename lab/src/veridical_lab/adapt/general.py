"""General examples that come with the laboratory.

Training on your documents also uses some of these examples, so that the detector does not forget other texts. They are
drawn from our own statements, pairs and answers about invented passages and passages of Wikipedia (CC BY-SA 4.0). To
draw them again, run `python -m veridical_lab.adapt.general DATA`.
"""

from __future__ import annotations

import gzip
import sys
from importlib.resources import files
from pathlib import Path

from veridical.datasets import read
from veridical.io.serialization import decode, encode
from veridical.records.types import Example
from veridical_lab.training.contrasts import contrasts
from veridical_lab.training.default_data import WRITTEN_SETS, some

_KINDS = {"auth", "wikipedia"}
_COUNTS = {"train": 3000, "valid": 1000}


def general_examples(part: str) -> list[Example]:
    """Load the general examples of a part, "train" or "valid"."""
    data = (files("veridical_lab.adapt") / f"general.{part}.jsonl.gz").read_bytes()
    return [decode(line) for line in gzip.decompress(data).decode("utf-8").splitlines()]


def draw(data: Path, out: Path) -> None:
    """Draw the general examples of both parts from the folder `written` in `data`, and write them into `out`."""
    for part, count in _COUNTS.items():
        drawn: list[Example] = []
        for name in WRITTEN_SETS:
            written = list(read(f"{name}:{data / 'written'}", "train" if part == "train" else "dev"))
            drawn += [e for e in written if dict(e.group).get("kind", "auth") in _KINDS]
        if part == "train":
            drawn += [e for examples in contrasts("general", drawn).values() for e in examples]
        lines = sorted(encode(example) for example in some(drawn, count, 0))
        packed = gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)
        (out / f"general.{part}.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(__file__).parent)
