"""Names load what the table says; plugins add names and take none over."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint

import pytest

from veridical import cli
from veridical.records import spans
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.registry import Registry, register

TABLE = {"span": "veridical.records.spans:Span", "spans": "veridical.records.spans", "broken": "veridical.nowhere:X"}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Registry:
    plugins = [
        EntryPoint("span", "veridical.records.errors:InputError", "things"),
        EntryPoint("plugin", "veridical.records.errors:SpanError", "things"),
        EntryPoint("sick", "no_such_module:X", "things"),
    ]
    real = metadata.entry_points  # other registries keep what they find for the whole process
    monkeypatch.setattr(metadata, "entry_points", lambda group: plugins if group == "things" else real(group=group))
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


def test_what_an_upper_package_registers_is_found_before_and_after() -> None:
    register("veridical.no.such.forms", {"text": "veridical.records.spans:TextSpan"})
    forms = Registry("form", {}, group="veridical.no.such.forms")
    register("veridical.no.such.forms", {"span": "veridical.records.spans:Span"})
    assert forms.load("text") is spans.TextSpan
    assert forms.name_of("veridical.records.spans:Span") == "span"


def test_nothing_is_imported_before_it_is_asked_for(names: Registry) -> None:
    assert "broken" in names
    assert "sick" in names
    with pytest.raises(ModuleNotFoundError):
        names.load("broken")


def test_a_plugin_that_cannot_be_imported_is_one_clear_line(names: Registry) -> None:
    with pytest.raises(InputError, match=r"the thing 'sick' of another package cannot be loaded \(ModuleNotFoundError"):
        names.load("sick")


def test_a_broken_command_hides_no_other(
    names: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plugins = {"sick": EntryPoint("sick", "no_such_module:X", "veridical.commands")}
    monkeypatch.setattr(cli.COMMANDS, "plugins", plugins)
    assert cli.main(["--help"]) == 0
    assert "check" in capsys.readouterr().out
    assert cli.main(["sick"]) == 2
    assert "cannot be loaded" in capsys.readouterr().err


def test_an_object_is_found_by_its_place(names: Registry) -> None:
    assert names.name_of("veridical.records.spans:Span") == "span"
    assert names.name_of("veridical.records.errors:SpanError") == "plugin"
    assert names.name_of("veridical.records.spans:Other") is None


def test_an_unknown_name_offers_the_near_ones_plugins_included(names: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown thing 'plugn'.*did you mean plugin.*known: broken, plugin"):
        names.load("plugn")


def test_the_table_of_the_caller_is_not_shared() -> None:
    table = {"span": "veridical.records.spans:Span"}
    names = Registry("thing", table, group="veridical.no.such.group")
    table["other"] = "x"
    assert list(names) == ["span"]
