"""`assert_grounded`, as a function and as the fixture of the pytest plugin."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import veridical.report.terminal
from tests.processes import python
from veridical import Outcome, Source, testing
from veridical.records.errors import InputError
from veridical.testing import assert_grounded

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]


def test_a_grounded_response_is_given_back_as_it_was_checked() -> None:
    checked = assert_grounded("It is red.", [Source("a", "It is red.")], detector="overlap", question="What?")
    assert checked.outcome is Outcome.CLEAR
    assert checked.case.question == "What?"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"response": "The tower is 300 m tall.", "sources": ["The tower is 330 m tall."]},
            ["not grounded", "[-300-]", "instead: 330"],
        ),
        ({"response": "Red.", "sources": ["Red."], "must_cover": ["It rusts."]}, ["not grounded", "[!rusts!]"]),
        ({"response": "Red."}, ["could not be judged", "no sources"]),
        ({"response": "Red wall.", "sources": ["Red."], "threshold": {"span": 1.0, "response": 0.5}}, ["[-wall-]"]),
    ],
)
def test_what_is_not_grounded_fails_with_the_words(arguments: dict[str, object], says: list[str]) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_grounded(**arguments, detector="overlap")  # type: ignore[arg-type]
    assert not [words for words in says if words.lower() not in str(failure.value).lower()]


def test_bad_input_is_no_failed_assertion() -> None:
    with pytest.raises(InputError, match="unknown detector"):
        assert_grounded("Red.", ["Red."], detector="overlpa")


def test_a_detector_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    real = veridical.detectors.load_detector
    monkeypatch.setattr("veridical.detectors.load_detector", lambda spec: loads.append(spec) or real(spec))
    testing.grounded._loaded.cache_clear()
    for _ in range(3):
        assert_grounded("Red.", ["Red."], detector="overlap:values")
    assert [spec for spec in loads if isinstance(spec, str)] == ["overlap:values"]


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nveridical_detector = overlap\n")
    pytester.makepyfile(
        """
        def test_clear(assert_grounded):
            assert_grounded("It is red.", ["It is red."])

        def test_flagged(assert_grounded):
            assert_grounded("It is purple.", ["It is red."])

        def test_empty(assert_grounded):
            assert_grounded("", ["It is red."])

        def test_other_detector(assert_grounded):
            assert assert_grounded("Red.", ["Red."], detector="overlap:values").judgements[0].by == "overlap:values"
        """
    )
    result = pytester.runpytest_inprocess("-p", "_veridical_pytest", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines([">*assert_grounded(*purple*", "E*not grounded*", "E*-purple-*"])
    result.stdout.no_fnmatch_line("*as_text*")  # the frames of the assertion are hidden
    assert "detector.py" not in result.stdout.str()  # the last line shown is that of the test


def test_the_plugin_imports_nothing_of_veridical_before_a_test_asks_for_it() -> None:
    code = "import _veridical_pytest, sys; print([m for m in sys.modules if m.partition('.')[0] == 'veridical'])"
    assert python("-c", code, text=True, check=True).stdout == "[]\n"


def test_the_plugin_is_declared_and_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    # named as its module is, so that `-p _veridical_pytest` and the entry point are one plugin
    assert project["project"]["entry-points"]["pytest11"] == {"_veridical_pytest": "_veridical_pytest"}
    assert "src/_veridical_pytest.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (ROOT / "src" / "_veridical_pytest.py").exists()
