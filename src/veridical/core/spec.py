"""The spec of a detector, as the command line, configuration and artifacts write it.

    NAME[:ITEM,ITEM,…]      ITEM is a value, or OPTION=VALUE
    overlap:values          logprob:models/reader,template=tldr          verify:overlap,citations=all

A value with a comma, a quote or surrounding white space stands in double quotes, a quote inside it doubled:
`logprob:"/models/a,b",template=tldr`. So any path, and any other spec, can be written as a value. What stands before
an equals sign is an option only if it looks like one (lower-case letters, digits, underscores): `/runs/a=b` is a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from veridical.core.errors import InputError, UnknownNameError

__all__ = ["Spec", "parse_spec"]

_ITEM = re.compile(r'\s*(?:([a-z][a-z0-9_]*)\s*=\s*)?(?:"((?:[^"]|"")*)"|([^",]*))\s*(,|$)')
_PLAIN = re.compile(r'[^\s",](?:[^",]*[^\s",])?')


@dataclass(frozen=True, slots=True)
class Spec:
    """A name with values by position and by option, as written; `str` gives a text that `parse_spec` reads back.

    The methods that read an option give `default` where it is absent, and raise `InputError` for a value of the wrong
    kind.
    """

    name: str
    values: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        items = [_quoted(value, bool(re.match(r"\s*[a-z][a-z0-9_]*\s*=", value))) for value in self.values]
        items += [f"{name}={_quoted(value)}" for name, value in self.options.items()]
        return f"{self.name}:{','.join(items)}" if items else self.name

    def accept(self, options: Sequence[str] = (), values: int = 0) -> Self:
        """Give back the spec itself; raise unless it has no other `options` and at most so many `values`."""
        for name in self.options:
            if name not in options:
                raise UnknownNameError(f"option of {self.name}", name, options)
        if len(self.values) > values:
            known = f"options: {', '.join(options)}" if options else "it takes no options"
            raise InputError(f"{self.name} does not take {self.values[values]!r}", hint=known)
        return self

    def split(self, own: Sequence[str]) -> tuple[Spec, Spec]:
        """The spec with only the options in `own` and no values, and the spec with everything else."""
        inside = {name: value for name, value in self.options.items() if name in own}
        outside = {name: value for name, value in self.options.items() if name not in own}
        return replace(self, values=(), options=inside), replace(self, options=outside)

    def nested(self, default: str) -> Spec:
        """The spec that stands in the first value (`default` without one), with all other values and options."""
        inner = parse_spec(self.values[0] if self.values else default)
        for name in self.options:
            if name in inner.options:
                raise InputError(f"the option {name} of {self.name} is given twice")
        return replace(inner, values=(*inner.values, *self.values[1:]), options={**inner.options, **self.options})

    @property
    def value(self) -> str | None:
        """The first value, None without one."""
        return self.values[0] if self.values else None

    def whole(self, name: str, default: int | None = None) -> int | None:
        """The option as a whole number from 1."""
        text = self.options.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or int(text) < 1:
            raise InputError(f"{name} of {self.name} is {text!r}", hint="a whole number from 1")
        return int(text)

    def number(self, name: str, default: float, low: float = 0.0, high: float = 1.0) -> float:
        """The option as a number from `low` to `high`."""
        text = self.options.get(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            span = f"from {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
            raise InputError(f"{name} of {self.name} is {text!r}", hint=f"a number {span}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """The option as yes or no."""
        return self.choice(name, "yes" if default else "no", ("yes", "no")) == "yes"

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """The option as one of `known`; `UnknownNameError` for anything else."""
        text = self.options.get(name, default)
        if text not in known:
            raise UnknownNameError(f"{name} of {self.name}", text, known)
        return text


def _quoted(value: str, looks_like_option: bool = False) -> str:
    if _PLAIN.fullmatch(value) and not looks_like_option:
        return value
    return '"' + value.replace('"', '""') + '"'


def parse_spec(text: str) -> Spec:
    """The spec in `text`; `InputError` for an empty item, an option given twice, or a quote that does not close.

    >>> parse_spec('logprob:"/models/a,b",template=tldr')
    Spec(name='logprob', values=('/models/a,b',), options={'template': 'tldr'})
    >>> str(parse_spec("verify:overlap:values,citations=all"))
    'verify:overlap:values,citations=all'
    """
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not name:
        raise InputError(f"{text!r} names nothing", hint="write NAME or NAME:OPTIONS")
    if "," in name:
        fixed = text.strip().replace(",", ":", 1)
        raise InputError(f"{text!r} has options without a colon", hint=f"write {fixed!r}; name several one by one")
    if colon and not rest.strip():
        raise InputError(f"{text!r} ends in a colon", hint=f"write {name!r} or '{name}:OPTIONS'")
    values: list[str] = []
    options: dict[str, str] = {}
    for option, value in _items(text, rest) if colon else ():
        if option is None:
            values.append(value)
        elif option in options:
            raise InputError(f"the option {option} of {name} is given twice")
        else:
            options[option] = value
    return Spec(name, tuple(values), options)


def _items(text: str, rest: str) -> Iterator[tuple[str | None, str]]:
    """The items after the colon, each as (option or None, value)."""
    at, more = 0, True
    while more:
        match = _ITEM.match(rest, at)
        if match is None:
            raise InputError(f"a quote in {text!r} is out of place", hint='"a value, in quotes", a quote in it doubled')
        option, quoted, plain, comma = match.groups()
        value = plain.strip() if quoted is None else quoted.replace('""', '"')
        if not value and quoted is None:
            raise InputError(f"{text!r} has an empty value", hint="write VALUE or OPTION=VALUE between commas")
        yield option, value
        at, more = match.end(), comma == ","
