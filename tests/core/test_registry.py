"""Names load what the table says; plugins add names and take none over."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from veridical.core import registry, spans
from veridical.core.errors import UnknownNameError
from veridical.core.registry import Registry

TABLE = {"span": "veridical.core.spans:Span", "spans": "veridical.core.spans", "broken": "veridical.core.nowhere:X"}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Registry:
    plugins = [
        EntryPoint("span", "veridical.core.errors:InputError", "things"),
        EntryPoint("plugin", "veridical.core.errors:SpanError", "things"),
        EntryPoint("sick", "no_such_module:X", "things"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: plugins if group == "things" else [])
    return Registry("thing", TABLE, group="things")


def test_names_load_an_object_or_a_module(names: Registry) -> None:
    assert names.load("span") is spans.Span
    assert names.load("spans") is spans


def test_a_plugin_adds_a_name(names: Registry) -> None:
    assert names.load("plugin").__name__ == "SpanError"
    assert list(names) == ["broken", "plugin", "sick", "span", "spans"]
    assert "plugin" in names
    assert "span" in names
    assert "nothing" not in names
    assert 3 not in names


def test_a_plugin_cannot_take_over_a_name_of_ours(names: Registry) -> None:
    assert names.load("span") is spans.Span


def test_nothing_is_imported_before_it_is_asked_for(names: Registry) -> None:
    assert "broken" in names
    assert "sick" in names
    for name in ("broken", "sick"):
        with pytest.raises(ModuleNotFoundError):
            names.load(name)


def test_an_unknown_name_offers_the_near_ones_plugins_included(names: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown thing 'plugn'.*did you mean plugin.*known: broken, plugin"):
        names.load("plugn")


def test_the_table_of_the_caller_is_not_shared() -> None:
    table = {"span": "veridical.core.spans:Span"}
    names = Registry("thing", table, group="veridical.no.such.group")
    table["other"] = "x"
    assert list(names) == ["span"]
