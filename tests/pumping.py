"""All regular expressions of both packages, and texts that make one slow if it backtracks.

`re` holds the interpreter's lock, so a pattern of quadratic time stops the whole service. Each pattern is tried on
`prefix + n × pump + suffix`: for each of its repetitions, the prefix is a text that leads there, and the pump is one
that the repetition takes.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import veridical
import veridical_lab

USES = {"match": "match", "fullmatch": "fullmatch"}
"""Methods that begin at one position; any other method searches."""
CUT = {
    "veridical.detectors.default.absences._ABSENCES": ("fullmatch", 400),
    "veridical.detectors.scope._CODE": ("match", 200),
    "veridical.detectors.scope._SLOT": ("search", 200),
    "veridical_lab.datasets.answer_statements._RULES": ("fullmatch", 200),
    "veridical_lab.datasets.answer_statements._TIME": ("fullmatch", 200),
}
"""Patterns whose callers look only at texts of so many characters, with the method: such a text has to be quick."""
SUFFIXES = ("", "\0", "x", "1!\n")
PUMPS = (*" \na1,.-_|\"'(<[*#é", "a ", "a-", "a.", "a@", "a, ", "1/", "1,", "A ", "A. ", "\n\n ", "['", "a: ", "– ")
KINDS = (" \n\t", "aAbBxzé", "19", ",.-_|:;\"'()[]<>*#/@&+=!%^~`$\\{}—–")
"""Characters of each kind, of which the first that a class has is tried."""
LONG = 20  # repetitions of a bounded pattern from which it is pumped, too
SIZES = ((200, 800, 6.5), (800, 3_200, 7), (3_000, 12_000, 8))
"""Two numbers of characters, and a ratio of the times of which quadratic time has twice as much; a longer pair is tried
if the one before has more."""
BUDGET = 0.5  # seconds of processor time for one pattern; only large ones need more
LIMIT = 2.0  # seconds of processor time for a short text, and more than a long one may take
QUICK = 0.005  # seconds of processor time for a text of `CUT`


@dataclass(frozen=True)
class Use:
    """A pattern, where it is, and the method that it is used with."""

    place: str
    pattern: re.Pattern[str]
    method: str
    longest: int | None = None


def modules() -> list[tuple[str, Path]]:
    """Return the modules that use `re`, by name."""
    found = []
    for package in (veridical, veridical_lab):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            if re.search(r"^import re$", path.read_text("utf-8"), re.MULTILINE):
                parts = path.relative_to(root.parent).with_suffix("").parts
                found.append((".".join(part for part in parts if part != "__init__"), path))
    return found


@cache
def methods_of_names() -> dict[str, set[str]]:
    """Return the methods that are called on each name, and "search" for one that is used in another way.

    A private name has its module before it.
    """
    methods: dict[str, set[str]] = {}
    for module, path in modules():
        tree = ast.parse(path.read_text("utf-8"))
        called = {node.value: node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                name = f"{module}.{node.id}" if node.id.startswith("_") else node.id
                methods.setdefault(name, set()).add(USES.get(called.get(node, ""), "search"))
    return methods


def uses(name: str, path: Path) -> Iterator[Use]:
    """Yield the patterns of one module: its objects, and those that its functions write at the place of use."""
    module = importlib.import_module(name)
    tree = ast.parse(path.read_text("utf-8"))
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for target in sorted(own & vars(module).keys()):
        value = vars(module)[target]
        for pattern in patterns_in(value):
            if cut := CUT.get(f"{name}.{target}"):
                yield Use(f"{name}.{target}", pattern, *cut)
                continue
            caller = f"{name}.{target}" if target.startswith("_") else target
            for method in sorted(methods_of_names().get(caller, {"search"})):
                yield Use(f"{name}.{target}", pattern, method)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "re"
            and node.func.attr in ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
        ):
            flags = [word.value for word in node.keywords if word.arg == "flags"]
            flags += node.args[{"sub": 4, "split": 3}.get(node.func.attr, 2) :][:1]
            try:
                text, *flag = (eval(ast.unparse(each), vars(module)) for each in (node.args[0], *flags))
            except NameError:  # of a local name
                continue
            if isinstance(text, str):
                yield Use(f"{name}:{node.lineno}", re.compile(text, *flag), USES.get(node.func.attr, "search"))


def patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in an object: a pattern, a container of them, or a class with such attributes."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth:
        inner: Iterable[object] = ()
        if isinstance(value, Mapping):
            inner = value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            inner = value
        elif isinstance(value, type) and value.__module__.startswith("veridical"):
            inner = vars(value).values()
        for each in inner:
            yield from patterns_in(each, depth - 1)


def texts(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield prefixes and pumps for a pattern, each pair once."""
    pairs = dict.fromkeys(("", pump) for pump in PUMPS)
    for prefix, pump in _pumps(_parser.parse(pattern.pattern, pattern.flags), ""):
        pairs |= dict.fromkeys([(prefix, pump), ("", prefix + pump), ("", pump + prefix)])
        if prefix:
            pairs["", prefix] = None
    yield from pairs


def _pumps(items: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for item in items:
        kind, value = item
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            if value[1] >= LONG:
                for pump in filter(None, _samples(value[2])):
                    yield prefix, pump
            yield from _pumps(value[2], prefix)
        else:
            for inner in _inner(kind, value):
                yield from _pumps(inner, prefix)
        prefix += _samples([item])[0]


def _inner(kind: Any, value: Any) -> list[Any]:
    """Return the patterns inside one that is no repetition."""
    if kind is sre.BRANCH:
        return list(value[1])
    if kind is sre.SUBPATTERN:
        return [value[3]]
    if kind is sre.ATOMIC_GROUP:
        return [value]
    return [value[1]] if kind in (sre.ASSERT, sre.ASSERT_NOT) else []


def _samples(items: Any) -> list[str]:
    """Return a few texts that a sequence matches, the shortest of its repetitions first."""
    samples = [""]
    for kind, value in items:
        if kind is sre.LITERAL:
            parts = [chr(value)]
        elif kind in (sre.NOT_LITERAL, sre.ANY, sre.IN):
            parts = _characters(kind, value)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            parts = [sample * value[0] for sample in _samples(value[2])][: 1 if value[0] == 0 else 4]
            parts += [] if value[0] else _samples(value[2])[:1]
        elif kind is sre.BRANCH:
            parts = [sample for branch in value[1] for sample in _samples(branch)[:1]][:4]
        elif kind in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            parts = _samples(_inner(kind, value)[0])
        else:  # a position, or text that stands there already
            parts = [""]
        samples = [samples[0] + part for part in parts] + [sample + parts[0] for sample in samples[1:]]
        samples = list(dict.fromkeys(samples))[:6]
    return samples


def _characters(kind: Any, value: Any) -> list[str]:
    """Return a character of each of `KINDS` that a class has."""
    if kind is sre.ANY:
        return [characters[0] for characters in KINDS]
    if kind is sre.NOT_LITERAL:
        return [next(c for c in characters if ord(c) != value) for characters in KINDS]
    has = _parser.SubPattern(_parser.State(), [(kind, value)])
    one = re._compiler.compile(has)  # type: ignore[attr-defined]
    found = [next(filter(one.fullmatch, characters), "") for characters in KINDS]
    return list(filter(None, found)) or [next((chr(i) for i in range(0x30000) if one.fullmatch(chr(i))), "")]


class TooLong(Exception):
    """A text took more than its limit."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the block after so much processor time; `re` looks for signals while it backtracks."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def steep(use: Use, prefix: str, pump: str) -> bool:
    """Return whether the pattern takes more than linear time on `prefix + n × pump + suffix` for some suffix."""
    if use.longest is not None:
        return _seconds(use, prefix, pump, use.longest, 1) > QUICK < _seconds(use, prefix, pump, use.longest, 8)
    for few, many, most in SIZES:
        for rounds in (1, 2, 4):
            try:
                with limited(LIMIT):
                    short = _seconds(use, prefix, pump, few, rounds)
                with limited(LIMIT + 10 * rounds * short):
                    long = _seconds(use, prefix, pump, many, rounds)
            except TooLong:
                return True
            if long < most * short + 5e-6:
                return False
    return True


def _seconds(use: Use, prefix: str, pump: str, size: int, rounds: int) -> float:
    """Return the least processor time of some rounds on a text of `size` characters with each suffix.

    The clock of the thread is used: that of the process counts in ticks while `limited` has its timer set.
    """
    body = prefix + pump * (size // len(pump))
    run: Callable[[str], object]
    if use.method == "search":
        given = ["".join(body + suffix for suffix in SUFFIXES)]
        run = lambda text: deque(use.pattern.finditer(text), 0)  # noqa: E731
    else:
        given = [body + suffix for suffix in SUFFIXES]
        run = getattr(use.pattern, use.method)
    least = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for text in given:
            run(text)
        least = min(least, time.thread_time() - start)
    return least


def slow_texts(use: Use, seconds: float = BUDGET) -> Iterator[str]:
    """Yield what makes a pattern slow, each pump as text; end after some seconds of processor time."""
    end = time.thread_time() + seconds
    given = list(texts(use.pattern))
    Random(1).shuffle(given)  # so that a large pattern, which is not tried on all, is tried on texts of each kind
    for prefix, pump in given:
        if time.thread_time() > end:
            return
        if steep(use, prefix, pump):
            yield f"{use.place} ({use.method}): {prefix!r} + n × {pump!r}"
