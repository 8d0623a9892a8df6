"""Parse and format specs, the strings that name a detector with its options.

Specs are used on the command line, in configuration and in the files of trained detectors.

    NAME[:ITEM,ITEM,…]      ITEM is a value, or OPTION=VALUE
    overlap:values          logprob:models/reader,template=tldr          verify:overlap,citations=all

If a value contains a comma or a quote, or begins or ends with white space, put it in double quotes and double each
quote inside, as in `logprob:"/models/a,b",template=tldr`. In this way, any path and any other spec can be a value.
Names of options have only lower-case letters, digits and underscores, so `/runs/a=b` is read as a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from veridical.records.errors import InputError, UnknownNameError

LONGEST = 10_000
"""The maximum length of a spec, in characters."""

_ITEM = re.compile(r'\s*+(?:([a-z][a-z0-9_]*+)\s*+=\s*+)?+(?:"((?:[^"]++|"")*+)"\s*+|([^",]*+))(,|\Z)')
_PLAIN = re.compile(r'[^\s",](?:[^",]*[^\s",])?')


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed spec: the string that names a detector, with its values and options.

    In "verify:overlap,citations=all", the name is "verify", "overlap" is a value, and "citations" is an option.
    `parse_spec(str(spec))` returns an equal spec. The methods that convert an option (`whole`, `number`, `flag`,
    `choice`) return `default` if the option is missing, and raise `InputError` if it cannot be converted.
    """

    name: str
    values: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        items = [_quoted(value, bool(re.match(r"\s*[a-z][a-z0-9_]*\s*=", value))) for value in self.values]
        items += [f"{name}={_quoted(value)}" for name, value in self.options.items()]
        return f"{self.name}:{','.join(items)}" if items else self.name

    def accept(self, options: Sequence[str] = (), values: int = 0) -> Self:
        """Check that the spec has only the allowed options and at most `values` values, and return it.

        Raises:
            InputError: The spec has another option, or too many values.
        """
        for name in self.options:
            if name not in options:
                raise UnknownNameError(f"option of {self.name}", name, options)
        if len(self.values) > values:
            hint = f"options: {', '.join(options)}" if options else "it takes no options"
            raise InputError(f"{self.name} does not take {self.values[values]!r}", hint=hint)
        return self

    def split(self, own: Sequence[str]) -> tuple[Spec, Spec]:
        """Split the spec into two: one with only the options in `own`, and one with the values and other options.

        A detector that wraps another one uses it to separate its own options from those of the inner detector.
        """
        inside = {name: value for name, value in self.options.items() if name in own}
        outside = {name: value for name, value in self.options.items() if name not in own}
        return replace(self, values=(), options=inside), replace(self, options=outside)

    def nested(self, default: str) -> Spec:
        """Parse the first value as the spec of an inner detector, and add all other values and options to that spec.

        If there is no value, `default` is parsed instead.
        """
        inner = parse_spec(self.values[0] if self.values else default)
        for name in self.options:
            if name in inner.options:
                raise InputError(f"the option {name} of {self.name} is given twice")
        return replace(inner, values=(*inner.values, *self.values[1:]), options={**inner.options, **self.options})

    @property
    def value(self) -> str | None:
        """The first value, or None if there is none."""
        return self.values[0] if self.values else None

    def whole(self, name: str, default: int | None = None) -> int | None:
        """Return the option `name` as an integer of at least 1, or `default` if the option is missing."""
        text = self.options.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or int(text) < 1:
            raise InputError(f"{name} of {self.name} is {text!r}", hint="a whole number from 1")
        return int(text)

    def number(self, name: str, default: float, low: float = 0.0, high: float = 1.0) -> float:
        """Return the option `name` as a float, or `default` if the option is missing.

        The number must lie between `low` and `high`, both included.
        """
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
        """Return True if the option `name` is "yes", False if it is "no", and `default` if it is missing."""
        return self.choice(name, "yes" if default else "no", ("yes", "no")) == "yes"

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """Return the option `name`, one of the texts in `known`, or `default` if the option is missing.

        Raises:
            UnknownNameError: The option has another value.
        """
        text = self.options.get(name, default)
        if text not in known:
            raise UnknownNameError(f"{name} of {self.name}", text, known)
        return text


def _quoted(value: str, looks_like_option: bool = False) -> str:
    if _PLAIN.fullmatch(value) and not looks_like_option:
        return value
    return '"' + value.replace('"', '""') + '"'


def parse_spec(text: str) -> Spec:
    """Parse a spec, such as "verify:overlap,citations=all", into the name of a detector, its values and its options.

    Raises:
        InputError: An item is empty, an option is given twice, a quote is not closed, or the spec is longer than
            `LONGEST` characters.

    >>> parse_spec('logprob:"/models/a,b",template=tldr')
    Spec(name='logprob', values=('/models/a,b',), options={'template': 'tldr'})
    >>> str(parse_spec("verify:overlap:values,citations=all"))
    'verify:overlap:values,citations=all'
    """
    if len(text) > LONGEST:
        raise InputError(f"a spec of {len(text):,} characters", hint=f"at most {LONGEST:,}")
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
    """Yield the items after the colon, each as (option or None, value)."""
    position, more = 0, True
    while more:
        match = _ITEM.match(rest, position)
        if match is None:
            raise InputError(f"a quote in {text!r} is out of place", hint='"a value, in quotes", a quote in it doubled')
        option, quoted, plain, comma = match.groups()
        value = plain.strip() if quoted is None else quoted.replace('""', '"')
        if not value and quoted is None:
            raise InputError(f"{text!r} has an empty value", hint="write VALUE or OPTION=VALUE between commas")
        yield option, value
        position, more = match.end(), comma == ","
