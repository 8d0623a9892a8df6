"""Read topics, which have arguments for several perspectives, and draw the same number of arguments for each of these.

A topic may have any number of perspectives, not only pro and con. Topics are used to make knowledge bases and synthetic
responses. You can read them from JSON, JSON Lines, CSV, or a data set whose reader has `read_topics`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veridical.datasets import DATASETS, load_reader
from veridical.datasets.reading import Row, jsonl_rows
from veridical.io.jsonl import OnBad, refuse
from veridical.records.errors import DataError, InputError
from veridical.records.strings import shorten
from veridical.records.types import Source
from veridical_lab.datasets.linking import linked
from veridical_lab.datasets.reading import csv_rows, json_rows, refusing

MOST_ARGUMENTS = 3
"""If you give no number, at most this many arguments are drawn for each perspective (Chang et al. 2024, §2.1)."""

_RESERVED = frozenset({"introduction", "question", "response"})
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `id` is unique in the topic, and `paraphrases` say the same as `text` in other words."""

    id: str
    perspective: str
    text: str
    paraphrases: tuple[str, ...] = ()

    @property
    def wordings(self) -> tuple[str, ...]:
        """The text, followed by its paraphrases."""
        return (self.text, *self.paraphrases)

    def source(self, text: str | None = None) -> Source:
        """Make a source from the argument, which a response must cover. Pass `text` to use another wording."""
        return Source(self.id, text or self.text, self.perspective, must_cover=True)

    def overlaps(self, other: Argument) -> bool:
        """Return whether a wording of one of the two arguments contains a wording of the other, word for word."""
        left, right = ([f" {normal_form(text)} " for text in a.wordings] for a in (self, other))
        return any(a in b or b in a for a in left for b in right)


@dataclass(frozen=True, slots=True)
class Topic:
    """A question or claim, `text`, and its arguments.

    Raises:
        InputError: There is no argument, or an argument occurs twice.
    """

    id: str
    text: str
    arguments: tuple[Argument, ...]

    def __post_init__(self) -> None:
        if not self.arguments:
            raise InputError(f"topic {_short(self.text)} has no argument", hint="give it arguments, or leave it out")
        seen: dict[str, Argument] = {}
        for argument in self.arguments:
            first = seen.setdefault(normal_form(argument.text), argument)
            if first is not argument:
                raise InputError(
                    f"topic {_short(self.text)}: the argument {_short(argument.text)} is there twice "
                    f"({first.perspective}, {argument.perspective})",
                    hint="remove one of the two",
                )

    @property
    def perspectives(self) -> dict[str, list[Argument]]:
        """The arguments of each perspective. Perspectives and arguments stay in the order of `arguments`."""
        groups: dict[str, list[Argument]] = {}
        for argument in self.arguments:
            groups.setdefault(argument.perspective, []).append(argument)
        return groups


def normal_form(text: str) -> str:
    """Join the words of `text`, in lower case, with single spaces.

    Arguments with the same normal form count as the same argument.

    >>> normal_form("Cars  pollute.") == normal_form("cars pollute")
    True
    """
    return " ".join(_WORD.findall(text.casefold()))


def make_topic(id: str, text: str, perspectives: Mapping[str, Sequence[Sequence[str]]]) -> Topic:
    """Make a topic. `perspectives` gives a list of arguments per perspective, and each argument is a list of wordings.

    The ids of arguments are PERSPECTIVE-NUMBER. A wording is left out if it has the same words as an earlier wording of
    the argument.

    Raises:
        InputError: A perspective has no argument or no usable name, or an argument is empty or occurs twice.

    >>> topic = make_topic("1", "Ban cars?", {"pro": [["They stink."]], "con": [["Cars are fast.", "A car is fast."]]})
    >>> [(a.id, a.paraphrases) for a in topic.arguments]
    [('pro-1', ()), ('con-1', ('A car is fast.',))]
    """
    arguments = []
    for name, group in perspectives.items():
        where = f"topic {_short(text)}, perspective {name!r}"
        if not name.strip() or name.casefold() in _RESERVED:
            raise InputError(f"{where}: the name cannot be used", hint=f"not empty, not {', '.join(sorted(_RESERVED))}")
        if not group:
            raise InputError(f"{where} has no argument", hint="give it one, or leave it out")
        for i, texts in enumerate(group, 1):
            wordings: dict[str, str] = {}
            for wording in texts:
                wordings.setdefault(normal_form(wording), " ".join(wording.split()))
            wordings.pop("", None)
            if not texts or not normal_form(texts[0]):
                raise InputError(f"{where}: argument {i} is empty")
            first, *others = wordings.values()
            arguments.append(Argument(f"{name}-{i}", name, first, tuple(others)))
    return Topic(id, text, tuple(arguments))


def draw_arguments(topic: Topic, draw: random.Random, count: int | None = None) -> list[Argument]:
    """Draw the same number of arguments for each perspective, none of them part of another (Chang et al. 2024, §4.1).

    Args:
        topic: The topic to draw from.
        draw: The source of randomness. The same state gives the same arguments.
        count: How many arguments to draw for each perspective. Default: a random number from 1 to 3, but not more than
            the smallest perspective has.

    Raises:
        InputError: The topic has arguments for only one perspective, or fewer than `count` for a perspective.
    """
    groups = topic.perspectives
    if len(groups) < 2:
        only = f"{len(topic.arguments)} argument{'s' * (len(topic.arguments) > 1)}, for {next(iter(groups))!r} only"
        raise InputError(f"topic {_short(topic.text)} has {only}", hint="two perspectives or more are needed")
    if count is not None and count < 1:
        raise InputError(f"{count} arguments for each perspective", hint="1 or more")
    is_given = count is not None
    if count is None:
        count = draw.randint(1, min(MOST_ARGUMENTS, *map(len, groups.values())))
    waiting = {name: draw.sample(group, len(group)) for name, group in groups.items()}
    chosen: dict[str, list[Argument]] = {name: [] for name in groups}
    for number in range(1, count + 1):
        taken = [argument for group in chosen.values() for argument in group]
        this_round: dict[str, Argument] = {}
        for name, group in waiting.items():
            others = [*taken, *this_round.values()]
            separate = next((a for a in group if not any(a is b or a.overlaps(b) for b in others)), None)
            if separate is not None:
                this_round[name] = separate
        missing = [name for name in groups if name not in this_round]
        if missing:
            if is_given or number == 1:
                raise InputError(
                    f"topic {_short(topic.text)} has {number - 1} arguments for {missing[0]!r} that can be given "
                    f"together, {count} are asked for",
                    hint=f"ask for at most {number - 1}"
                    if number > 1
                    else "its other arguments are part of one another",
                )
            break
        for name, argument in this_round.items():
            chosen[name].append(argument)
    return [argument for group in chosen.values() for argument in group]


def topic_groups(topics: Iterable[Topic]) -> dict[str, str]:
    """Group topics that share their text or a wording of an argument, and map each topic id to its group.

    Published sets have the same claim, or the same argument, under several topics. A split by group keeps such topics
    together. The name of a group is the first id in it in alphabetical order.

    >>> cars = make_topic("b", "Ban cars?", {"pro": [["Cars pollute."]]})
    >>> roads = make_topic("a", "Close roads?", {"yes": [["cars pollute"]]})
    >>> topic_groups([cars, roads])
    {'b': 'a', 'a': 'a'}
    """
    texts = {topic.id: (topic.text, *(text for a in topic.arguments for text in a.wordings)) for topic in topics}
    pairs = ((f"id {id}", f"text {normal_form(text)}") for id, of_topic in texts.items() for text in of_topic)
    joined = linked(pairs)
    names: dict[str, str] = {}
    for id in sorted(texts):
        names.setdefault(joined[f"id {id}"], id)
    return {id: names[joined[f"id {id}"]] for id in texts}


def has_topics(spec: str) -> bool:
    """Return whether `spec` is a file of topics (.json, .jsonl, .csv), or NAME:PATH of a data set with topics."""
    name, _, path = spec.partition(":")
    if path and name in DATASETS:
        return hasattr(load_reader(name), "read_topics")
    return _form_of(Path(spec)) in _FILES


def read_topics(spec: str, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Topic]:
    """Read the topics in a file, or in a data set (NAME:PATH) that has topics.

    JSON and JSON Lines contain objects with the fields `topic`, `perspectives` and `id`. `perspectives` gives each name
    a list of texts, or of objects with `text` and `paraphrases`. You can leave out `id`, which is then the text of the
    topic. CSV has the columns topic, perspective, argument.

    Args:
        spec: The file, or NAME:PATH.
        split: A split of the data set.
        on_bad: A function that receives the error of each row that cannot be used. Such rows are then left out. With
            None, the error is raised instead.
    """
    name, _, rest = spec.partition(":")
    if rest and name in DATASETS:
        reader = load_reader(name)
        if not hasattr(reader, "read_topics"):
            raise InputError(
                f"the data set {name} has no topics", hint=f"{_TOPIC_SETS}, or a .json, .jsonl or .csv file"
            )
        if not Path(rest).exists():
            raise DataError("no such file or folder", path=rest)
        yield from reader.read_topics(Path(rest), split, on_bad=on_bad)
        return
    path = Path(spec)
    form = _form_of(path)
    if form not in _FILES:
        raise DataError(
            f"a file that ends in {path.suffix!r}" if path.suffix else "not a file of topics",
            path=path,
            hint=f".json, .jsonl or .csv, or {_TOPIC_SETS} with a path, such as perspectrum:FOLDER",
        )
    if split is not None:
        raise InputError(f"a split is named ({split}), and {path} has none", hint="leave it out")
    yield from _FILES[form](path, on_bad)


_TOPIC_SETS = "argkp, perspectrum, procon"


def merged_topics(rows: Iterable[tuple[Row, str, Mapping[str, Sequence[str]]]], on_bad: OnBad) -> Iterator[Topic]:
    """Make topics from rows, each with the text of a topic and some arguments by perspective.

    Rows with the same text become one topic, and repeated arguments become one argument.
    """
    topics: dict[str, dict[str, dict[str, str]]] = {}
    of_argument: dict[tuple[str, str], str] = {}
    for row, text, perspectives in rows:
        of_topic = topics.setdefault(text, {})
        for name, arguments in perspectives.items():
            for argument in arguments:
                key = normal_form(argument)
                if of_argument.setdefault((text, key), name) != name:
                    other = of_argument[text, key]
                    message = f"the argument {_short(argument)} is under {name!r} and under {other!r}"
                    refuse(row.bad(message, hint="remove one of the two"), on_bad)
                    continue
                of_topic.setdefault(name, {}).setdefault(key, argument)
    for text, groups in topics.items():
        yield make_topic(text, text, {name: [[a] for a in group.values()] for name, group in groups.items()})


def _form_of(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _from_json(rows: Callable[[Path, OnBad], Iterator[Row]], path: Path, on_bad: OnBad) -> Iterator[Topic]:
    seen: dict[str, int] = {}
    for row in rows(path, on_bad):
        with refusing(row, on_bad):
            text = row.text("topic").strip()
            by_name = row.row("perspectives")
            wordings = {name: [_wordings(by_name, name, i) for i in by_name.items(name)] for name in by_name.values}
            id = row.name("id") if "id" in row.values else text
            for key in {id, normal_form(text)}:
                if seen.setdefault(key, row.number) != row.number:
                    raise row.bad(f"the topic {_short(text)} is there twice", hint="put its arguments together")
            yield make_topic(id, text, wordings)


def _wordings(row: Row, perspective: str, item: object) -> list[str]:
    if isinstance(item, str):
        return [item]
    if not isinstance(item, dict):
        raise row.bad(
            f"{perspective!r} holds {str(item)[:40]!r}, not an argument", hint="a text, or an object with text"
        )
    argument = Row(row.path, row.line, item, within=f"{row.within} {perspective}")
    return [argument.text("text"), *(argument.texts("paraphrases") if "paraphrases" in item else ())]


def _from_csv(path: Path, on_bad: OnBad) -> Iterator[Topic]:
    topics: dict[str, dict[str, list[list[str]]]] = {}
    lines: dict[tuple[str, str], int] = {}
    for row in csv_rows(path, on_bad):
        with refusing(row, on_bad):
            text, perspective, argument = (row.text(key).strip() for key in ("topic", "perspective", "argument"))
            if (first := lines.setdefault((text, normal_form(argument)), row.line)) != row.line:
                raise row.bad(
                    f"the argument {_short(argument)} is on line {first} already", hint="remove one of the two"
                )
            make_topic(text, text, {perspective: [[argument]]})
            topics.setdefault(text, {}).setdefault(perspective, []).append([argument])
    for text, perspectives in topics.items():
        yield make_topic(text, text, perspectives)


_FILES: Mapping[str, Callable[[Path, OnBad], Iterator[Topic]]] = {
    ".json": lambda path, on_bad: _from_json(json_rows, path, on_bad),
    ".jsonl": lambda path, on_bad: _from_json(jsonl_rows, path, on_bad),
    ".csv": _from_csv,
}


def _short(text: str) -> str:
    return repr(shorten(text, 60))
