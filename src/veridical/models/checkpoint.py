"""Find the files of a published checkpoint by folder or hub name, and read its configuration.

The names of a classifier's classes say what they mean: entailment, neutral and contradiction (NLI), supported and
unsupported (MiniCheck, FactCC), or one logit of consistency (HHEM-1). No weights are loaded here, and no code of a
checkpoint ever runs: a checkpoint that needs its own code is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from veridical.core.errors import DataError, InputError
from veridical.core.strict_json import read_object
from veridical.models.load import HHEM, HUB_NAME
from veridical.models.local_model import require_models

__all__ = [
    "ROLES",
    "Role",
    "architectures_of",
    "checkpoint_folder",
    "class_roles",
    "label_names",
    "parse_config",
    "read_config",
    "role_of",
]

Role = Literal["entailment", "neutral", "contradiction", "unsupported"]
ROLES: tuple[Role, ...] = ("entailment", "neutral", "contradiction", "unsupported")

_CONTRADICTION = re.compile(r"contradict|refut|disprov")
_NEUTRAL = re.compile(r"neutral|unknown|not enough|\bnei\b|unrelated|unverifiable|cannot|can t")
_SUPPORT = re.compile(
    r"(?P<negated>\b(?:not|non|no) ?|un|in|mis)?"
    r"(?P<word>entail|support|consisten|correct|factual|faithful|align|grounded|attributable|true)"
)
_ERROR = re.compile(r"(?P<negated>\b(?:not|non|no) ?)?(?:hallucinat|fabricat|false|wrong)")
_BY_NUMBER = re.compile(r"(?:label|class)?[ _]?\d+")

_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # neither pickles nor code
# their own code is not needed: transformers has the first, `load` rebuilds the second
_WITHOUT_CODE = ("EuroBertForTokenClassification", HHEM)
_TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model", "merges.txt")


def checkpoint_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """Return the folder `name`, or that of the hub model "owner/model", which is downloaded unless it is in the cache.

    Raises:
        InputError: If there is no such folder, and the hub has no such model or cannot be reached.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_NAME.fullmatch(str(name)):
        raise InputError(
            f"there is no checkpoint folder {str(name)!r}", hint="name a folder, or a hub model as owner/name"
        )
    require_models()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), revision=revision, allow_patterns=list(_FILES)))
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise InputError(
            f"there is no folder {str(name)!r}, and as a hub name it cannot be had: {reason}",
            hint="download it where there is a network, and name the folder",
        ) from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a Hugging Face folder.

    Raises:
        DataError: If the folder has no tokenizer, or no configuration that can be read.
        InputError: If the model needs code of its own.
    """
    config = parse_config(folder)
    architectures = architectures_of(config)
    if config.get("auto_map") and architectures not in _WITHOUT_CODE:
        raise InputError(
            f"{folder} needs code of its own (auto_map in config.json), which is never run",
            hint="take a checkpoint of a plain architecture, or save its weights as one where you trust that code",
        )
    if architectures != HHEM and not any(file for pattern in _TOKENIZERS for file in folder.glob(pattern)):
        raise DataError(
            "no tokenizer in it", path=folder, hint="copy tokenizer.json from the model it was trained from"
        )
    return config


def architectures_of(config: Mapping[str, Any]) -> str:
    """Return the names of the model classes in a configuration; "" if it names none."""
    architectures = config.get("architectures")
    return ", ".join(map(str, architectures)) if isinstance(architectures, list) else ""


def parse_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a folder, whatever it holds; raise `DataError` if that fails."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(
            "no config.json in it", path=folder, hint="name the folder that save_pretrained or a hub download made"
        )
    return read_object(path)


def role_of(name: str) -> Role | None:
    """Return what a class of this name stands for, whatever its case and prefixes; None if the name does not say.

    >>> [role_of(name) for name in ("ENTAIL", "not_entailment", "INCORRECT", "Refutes", "LABEL_0")]
    ['entailment', 'unsupported', 'unsupported', 'contradiction', None]
    """
    plain = re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()).strip()
    if _CONTRADICTION.search(plain):
        return "contradiction"
    if _NEUTRAL.search(plain):
        return "neutral"
    for pattern, meaning, negation in ((_ERROR, ROLES[3], ROLES[0]), (_SUPPORT, ROLES[0], ROLES[3])):
        if match := pattern.search(plain):
            return negation if match["negated"] else meaning
    return None


def label_names(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a checkpoint's classes, in order: LABEL_0, LABEL_1 … where its configuration has none."""
    named = config.get("id2label")
    if isinstance(named, Mapping) and named and all(str(key).isdecimal() for key in named):
        return [str(named[key]) for key in sorted(named, key=int)]
    count = config.get("num_labels")
    return [f"LABEL_{i}" for i in range(count if isinstance(count, int) and 0 < count < 1000 else 2)]


def class_roles(names: Sequence[str], given: str | None, place: object) -> tuple[Role, ...]:
    """Return what each class of a classifier stands for.

    Without names, one class is the probability of consistency, and the second of two is the supported one (as in
    MiniCheck).

    Args:
        names: The names of its classes, in order (`label_names`).
        given: The user's names for them, separated by "|"; None: use the classifier's own.
        place: The checkpoint, for the message.

    Raises:
        InputError: If the names do not say which class is which.

    >>> class_roles(["CORRECT", "INCORRECT"], None, "here")
    ('entailment', 'unsupported')
    """
    stated = names if given is None else [part.strip() for part in given.split("|")]
    if len(stated) != len(names):
        raise InputError(f"labels names {len(stated)} classes, {place} has {len(names)}", hint="one name per class")
    roles = [role_of(name) for name in stated]
    if given is None and all(_BY_NUMBER.fullmatch(name.lower()) for name in names) and len(names) <= 2:
        return ("entailment",) if len(names) == 1 else ("unsupported", "entailment")
    is_clear = None not in roles and (given is not None or len(set(roles)) == len(roles))
    if not is_clear or not ("entailment" in roles or len(roles) == 1):
        listed = ", ".join(stated[:8]) + (" …" if len(stated) > 8 else "")
        raise InputError(
            f"the classes of {place} are called {listed}, which does not say what they stand for",
            hint=f"say it in their order: labels=contradiction|neutral|entailment (also: {ROLES[-1]})",
        )
    return tuple(role for role in roles if role is not None)
