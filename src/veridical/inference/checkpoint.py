"""Find the files of a published checkpoint by folder or hub name, and load its configuration.

The classes of a classifier are recognised by their names: entailment, neutral and contradiction (NLI), supported and
unsupported (MiniCheck, FactCC), or a single logit of consistency (HHEM-1).

This module loads no weights and never runs code from a checkpoint. If a checkpoint needs its own code, it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from veridical.inference.catalogue import repository_of
from veridical.inference.fetched import FILES, find_fetched
from veridical.inference.hub import HUB_NAME
from veridical.inference.telemetry import import_without_telemetry
from veridical.io.files import expanded
from veridical.io.strict_json import read_object
from veridical.records.errors import DataError, InputError

HHEM = "HHEMv2ForSequenceClassification"
"""The class of HHEM-2.1-Open (Vectara) in its configuration: a T5 encoder with a linear layer on the first token."""

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

# their own code is not needed: transformers has the first, `load` rebuilds the second
_WITHOUT_CODE = ("EuroBertForTokenClassification", HHEM)
_TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model", "merges.txt")


def checkpoint_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """Return the folder of a model on this machine, without using the network.

    The model can be in a folder of your own, in the folder of `veridical models get`, or in the cache of
    huggingface_hub.

    Args:
        name: A folder, a name in `veridical models list`, or a hub name, "owner/model".
        revision: The commit, branch or tag of a hub model. Default: any downloaded commit, or the cache's "main".

    Raises:
        InputError: There is no such folder, and no such model on this machine.
    """
    folder = expanded(name)
    if folder.is_dir():
        return folder
    repository = repository_of(str(name))
    if not HUB_NAME.fullmatch(repository):
        raise InputError(
            f"there is no checkpoint folder {str(name)!r}",
            hint="name a folder, or a model that `veridical models get` fetched",
        )
    model = find_fetched(repository)
    if model is not None and revision in (None, model.revision, model.asked):
        return model.folder
    hub = import_without_telemetry("huggingface_hub")
    try:
        cached = hub.snapshot_download(repository, revision=revision, allow_patterns=list(FILES), local_files_only=True)
    except (OSError, ValueError):
        option = "" if revision is None else f" --revision {revision}"
        raise InputError(
            f"there is no folder {str(name)!r}, and no model of that name on this machine",
            hint=f"get it where there is a network: veridical models get {name}{option}",
        ) from None
    return Path(cached)


def read_config(folder: Path) -> dict[str, Any]:
    """Load the `config.json` of a checkpoint in Hugging Face format, and check that the checkpoint can be used.

    Raises:
        DataError: The folder has no tokenizer, or no valid `config.json`.
        InputError: The model needs custom code from its repository (`auto_map`), which is never run.
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
    """Return the model classes that a configuration names, such as "BertModel", joined by ", ". "" if it names none."""
    architectures = config.get("architectures")
    return ", ".join(map(str, architectures)) if isinstance(architectures, list) else ""


def parse_config(folder: Path) -> dict[str, Any]:
    """Load the `config.json` of a folder, without checking whether the model can be used (unlike `read_config`).

    Raises:
        DataError: The file is missing, or is not a JSON object.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(
            "no config.json in it", path=folder, hint="name the folder that save_pretrained or a hub download made"
        )
    return read_object(path)


def role_of(name: str) -> Role | None:
    """Map the label of a classifier to its role (its meaning), or to None if the label is not self-explanatory.

    The roles are "entailment" (the source supports the text), "neutral" (the source does not mention it),
    "contradiction", and "unsupported" (neutral or contradiction). Letter case and prefixes are ignored.

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
    """Return the labels of a classifier's classes, in the order of its logits, such as "entailment" and "neutral".

    They come from its `config.json`. If this has no labels, they are LABEL_0, LABEL_1, and so on.
    """
    named = config.get("id2label")
    if isinstance(named, Mapping) and named and all(str(key).isdecimal() for key in named):
        return [str(named[key]) for key in sorted(named, key=int)]
    count = config.get("num_labels")
    return [f"LABEL_{i}" for i in range(count if isinstance(count, int) and 0 < count < 1000 else 2)]


def class_roles(names: Sequence[str], given: str | None, place: object) -> tuple[Role, ...]:
    """Infer the role of each class of a classifier (such as "entailment", see `role_of`) from its label.

    If the labels are only numbers, as in LABEL_0, the usual order is assumed: a single output is the logit of
    consistency, and of two classes the second means supported (as in MiniCheck).

    Args:
        names: The classifier's own labels, in order (`label_names`).
        given: Labels from the user that replace them, separated by "|", such as "contradiction|neutral|entailment".
        place: The checkpoint, for error messages.

    Raises:
        InputError: The labels do not determine the role of each class.

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
