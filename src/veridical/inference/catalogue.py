"""List the checkpoints that `veridical models` recommends (`catalogue.json`), and recognise non-commercial licences.

If the list has no revision or no hash for a checkpoint, the first download records the missing values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from veridical.io.strict_json import read_object

_NON_COMMERCIAL = re.compile(r"(?<![a-z])(nc|non-?commercial)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """A repository on the Hugging Face hub from which files of a checkpoint are downloaded.

    Attributes:
        repository: The name of the repository, "owner/model".
        revision: The commit. Default: the newest commit at the first download.
        sha256: The expected SHA-256 hashes of files, by path. A file that is missing here may have any hash.
    """

    repository: str
    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A recommended checkpoint, as `veridical models list` shows it.

    Attributes:
        part: The repository with the files of the checkpoint.
        licence: The licence, as the hub names it.
        languages: The languages that the checkpoint was trained for.
        parameters: The number of its weights, as text.
        megabytes: The approximate size of the download, in megabytes.
        onnx: If true, its publisher offers an ONNX file, which runs without torch.
        figures: The publisher's results, as text. "" if the list does not repeat them.
        source: Where the results are published.
        inside: A second repository from which the checkpoint needs files, such as a tokenizer. Those of its files that
            have a hash in `Part.sha256` are downloaded to a subfolder.
    """

    part: Part
    licence: str
    languages: tuple[str, ...]
    parameters: str
    megabytes: int
    onnx: bool
    figures: str
    source: str
    inside: Part | None = None

    @property
    def pinning(self) -> str:
        """A text that says whether the list fixes commit and hash of the weights, such as "commit and hash known".

        Values that the list does not fix are recorded at the first download.
        """
        if self.part.revision is None:
            return "commit and hash as first downloaded"
        known = any(name.endswith(".safetensors") for name in self.part.sha256)
        return "commit and hash known" if known else "commit known, hash as first downloaded"


@cache
def catalogue() -> dict[str, Checkpoint]:
    """Return the checkpoints that `veridical models list` shows, by their names in this list."""
    entries = read_object(Path(__file__).with_name("catalogue.json"))
    return {
        name: Checkpoint(
            Part(entry["repository"], entry.get("revision"), entry.get("sha256", {})),
            entry["licence"],
            tuple(entry["languages"]),
            entry["parameters"],
            entry["megabytes"],
            entry.get("onnx", False),
            entry["figures"],
            entry["source"],
            Part(**entry["inside"]) if "inside" in entry else None,
        )
        for name, entry in entries.items()
    }


def repository_of(name: str) -> str:
    """Return the hub repository ("owner/model") of a model in the catalogue. Return any other name unchanged.

    >>> repository_of("hhem-2.1-open"), repository_of("owner/model")
    ('vectara/hallucination_evaluation_model', 'owner/model')
    """
    return catalogue()[name].part.repository if name in catalogue() else name


def forbids_commerce(licence: str | None) -> bool:
    """Check whether the name of a licence says that it forbids commercial use. If the name is None, return False.

    >>> [forbids_commerce(name) for name in ("cc-by-nc-4.0", "CC BY-NC-SA 4.0", "apache-2.0", None)]
    [True, True, False, False]
    """
    return licence is not None and _NON_COMMERCIAL.search(licence) is not None
