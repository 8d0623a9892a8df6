"""The tree of errors is the one that the module draws, and each error is one clear line."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from veridical.records import errors
from veridical.records.errors import (
    CannotJudgeError,
    CircularArtifactError,
    DataError,
    InputError,
    MissingExtraError,
    OutputError,
    SpanError,
    UnknownNameError,
    VeridicalError,
    WireError,
)

ALL = [
    VeridicalError("a\n  b", hint="c\n d"),
    InputError("a"),
    CircularArtifactError("a"),
    SpanError("a", hint="b"),
    WireError("a\r\nb"),
    DataError("a\nb", path=Path("x.csv"), line=3, hint="c\nd"),
    UnknownNameError("kind\n", "na\nme", ["one\ntwo", "three"]),
    MissingExtraError("this\nthing", "extra"),
    OutputError("a"),
    CannotJudgeError("a"),
]


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    above = ["VeridicalError"]
    for indent, name in re.findall(r"^    ([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4 + 1
        above[depth:] = [name]
        drawn[name] = above[depth - 1]
    assert drawn == {
        cls.__name__: cls.__bases__[0].__name__ for e in ALL for cls in [type(e)] if cls is not VeridicalError
    }
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, VeridicalError)]
    assert {each.__name__ for each in kinds} == {*drawn, "VeridicalError"}


def test_exit_codes_are_the_drawn_ones() -> None:
    assert {type(e).__name__ for e in ALL if e.exit_code == 3} == {"CannotJudgeError"}
    assert {e.exit_code for e in ALL} == {2, 3}
    assert not any(e.retryable for e in ALL)


@pytest.mark.parametrize("error", ALL, ids=lambda e: type(e).__name__)
def test_a_message_is_one_line(error: VeridicalError) -> None:
    assert len(str(error).splitlines()) == 1
    assert error.message in str(error)


@pytest.mark.parametrize("error", ALL, ids=lambda e: type(e).__name__)
def test_an_error_crosses_process_boundaries_whole(error: VeridicalError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)
    assert not issubclass(MissingExtraError, ValueError)


def test_the_hint_stands_behind_the_message() -> None:
    assert str(InputError("found 3", hint="give 2")) == "found 3 (give 2)"
    assert str(InputError("found 3")) == "found 3"


def test_a_data_error_says_where() -> None:
    assert str(DataError("bad")) == "bad"
    assert str(DataError("bad", path="f.csv")) == "f.csv: bad"
    assert str(DataError("bad", path=Path("f.csv"), line=7)) == "f.csv:7: bad"
    assert DataError("bad", path="f.csv", line=7).line == 7


def test_an_unknown_name_offers_the_near_ones() -> None:
    error = UnknownNameError("detector", "Overlapp", {"overlap": 1, "probe": 2})
    assert str(error) == "unknown detector 'Overlapp' (did you mean overlap? known: overlap, probe)"
    assert error.known == ["overlap", "probe"]
    assert "did you mean" not in str(UnknownNameError("detector", "zzz", ["overlap"]))


def test_a_missing_extra_names_the_command() -> None:
    error = MissingExtraError("reading PDF", "documents")
    assert "pip install 'veridical[documents]'" in str(error)
    assert error.extra == "documents"


def test_no_message_is_as_long_as_the_input_that_it_quotes() -> None:
    name = "a" * 4_000_000
    error = UnknownNameError("detector", name, ["overlap"])
    assert str(error) == f"unknown detector {'a' * 100 + ' …'!r} (known: overlap)"
    for text in (name, "a " * 2_000_000, " " * 4_000_000 + "a"):
        shown = InputError(f"cannot read {text}", hint=text)
        assert len(str(shown)) < 5000
        assert shown.message.startswith("cannot read")
        assert shown.message.endswith(" …")
    assert InputError("a" * 2000).message == "a" * 2000
