"""The reference of the public Python names as Markdown, from their docstrings and type hints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import griffe

SRC = Path(__file__).parents[1] / "src"
NAMES: Mapping[str, tuple[str, ...]] = {
    "Check": ("veridical.check", "veridical.check_cases"),
    "Results": tuple(
        f"veridical.{name}" for name in ("Checked", "Outcome", "Cause", "Judgement", "Verdict", "Omission", "Evidence")
    ),
    "Cases": ("veridical.Case", "veridical.Source", "veridical.Span", "veridical.Turn"),
    "Revisions": ("veridical.workflows.revise.revise", "veridical.Revision", "veridical.Edit"),
    "Detectors": ("veridical.Detector", "veridical.detectors.load_detector"),
    "Tests": ("veridical.testing.assert_grounded", "veridical.testing.assert_detector_contract"),
    "Errors": ("veridical.VeridicalError",),
}
"""The public names by section of the page."""


@cache
def _package() -> griffe.Module:
    package = griffe.load("veridical", search_paths=[str(SRC)], resolve_aliases=True, docstring_parser="google")
    assert isinstance(package, griffe.Module)
    return package


def reference() -> str:
    """The whole reference."""
    return "\n\n".join(line for title, names in NAMES.items() for line in _section(title, names))


def _section(title: str, names: tuple[str, ...]) -> Iterator[str]:
    yield f"## {title}"
    for name in names:
        thing = _package()[name.removeprefix("veridical.")]
        thing = thing.final_target if isinstance(thing, griffe.Alias) else thing
        yield f"### {name}"
        if isinstance(thing, griffe.Function):
            yield f"```text\n{_signature(name.rpartition('.')[2], thing)}\n```"
        yield from _docstring(thing)
        if isinstance(thing, griffe.Class):
            yield from _members(thing)


def _members(thing: griffe.Class) -> Iterator[str]:
    meanings = {
        item.name: _text(item.description)
        for section in (thing.docstring.parsed if thing.docstring else ())
        if section.kind is griffe.DocstringSectionKind.attributes
        for item in section.value
    }
    rows = [
        f"| `{field.name}` | {_cell(field.annotation)} | {_cell(field.value)} | {meanings.get(field.name, '')} |"
        for field in thing.attributes.values()
        if not field.name.startswith("_") and field.annotation and "property" not in field.labels
    ]
    if rows:
        yield "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])
    if thing.bases and str(thing.bases[0]).endswith("Enum"):
        values = (f"`{name}` (`{each.value}`)" for name, each in thing.attributes.items() if name.isupper())
        yield f"Members: {', '.join(values)}."
    for member in (*thing.attributes.values(), *thing.functions.values()):
        if not member.name.startswith("_") and member.docstring:
            is_function = isinstance(member, griffe.Function)
            yield f"**`{_signature(member.name, member)}`**" if is_function else f"**`{member.name}`**"
            yield from _docstring(member)


def _signature(name: str, function: griffe.Function) -> str:
    parts: list[str] = []
    kinds = griffe.ParameterKind
    star = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is kinds.keyword_only and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is kinds.var_positional
        prefix = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "")
        text = f"{prefix}{parameter.name}: {parameter.annotation}" if parameter.annotation else parameter.name
        parts.append(text if parameter.default is None or prefix else f"{text} = {parameter.default}")
    returns = f" -> {function.returns}" if function.returns else ""
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= 100 or not parts:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _docstring(thing: griffe.Object) -> Iterator[str]:
    for section in thing.docstring.parsed if thing.docstring else ():
        match section.kind:
            case griffe.DocstringSectionKind.text:
                for block in section.value.split("\n\n"):
                    yield f"```pycon\n{block}\n```" if block.startswith(">>>") else block
            case griffe.DocstringSectionKind.examples:
                for kind, text in section.value:
                    yield text if kind is griffe.DocstringSectionKind.text else f"```pycon\n{text}\n```"
            case griffe.DocstringSectionKind.parameters:
                rows = (f"| `{item.name}` | {_text(item.description)} |" for item in section.value)
                yield "\n".join(["| name | meaning |", "|---|---|", *rows])
            case griffe.DocstringSectionKind.raises:
                yield "\n".join(
                    ["Raises:", "", *(f"- `{i.annotation}`: {_text(i.description)}" for i in section.value)]
                )
            case griffe.DocstringSectionKind.returns:
                yield f"Returns: {_text(' '.join(item.description for item in section.value))}"


def _text(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _cell(code: object) -> str:
    return "" if code is None else f"`{code}`".replace("|", "\\|")
