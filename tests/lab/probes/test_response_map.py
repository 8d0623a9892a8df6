"""The map of one response: each sublayer's score at each token, and its three pictures."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from tests.lab.probes.samples import examples
from veridical.models.load import load
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.encode import encode
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.testing import tiny
from veridical_lab.probes.analysis.response_map import map_response
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe
from veridical_lab.report.response_map import print_response_map, response_map_svg

SOURCE = Source("a", "The cat sat on the mat in the house.")
CASE = Case("1", "the cat and dogs slept <b>near</b> $Paris$.", (SOURCE,))
DOGS = Span(12, 16)


@pytest.fixture(scope="module", params=["linear", "pooling"])
def probe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Probe:
    folder = tmp_path_factory.mktemp("map")
    model = load(tiny("llama", folder / "model"), dtype="fp32")
    options = ProbeOptions(request.param, learning_rates=(0.1,), batch_sizes=(16,), max_epochs=10)
    train_probe(model, examples(), TrainingConfig(options, template="tldr", calibrate=True), out=folder / "probe")
    return Probe(folder / "probe")


def test_each_row_is_the_probe_of_one_sublayer(probe: Probe) -> None:
    found = map_response(probe, CASE)
    [encoded] = encode(probe.base(), CASE, "tldr")
    [result] = Runner(probe.base()).run([encoded], RequestedOutputs(logprobs=False, sublayers=probe.sublayers))
    assert found.scores.shape == (4, len(encoded.spans))
    assert found.sublayers == (0, 1, 2, 3)
    for row, sublayer in enumerate(found.sublayers):
        alone = probe.heads["token"].probes.only(sublayer)
        expected = alone.scores_each(result.hidden[sublayer][None])[0]
        np.testing.assert_allclose(found.scores[row], expected, atol=1e-9)


def test_the_last_row_is_what_the_detector_says(probe: Probe) -> None:
    found = map_response(probe, CASE, marked=[DOGS])
    [judgement] = probe.judge([CASE])
    for verdict in judgement.verdicts:
        of_word = [i for i, span in enumerate(found.spans) if span and span.overlaps(verdict.span)]
        assert verdict.score == pytest.approx(found.combined[of_word].max(), abs=1e-6)
    assert found.threshold == probe.heads["token"].threshold
    marked = "".join(t for t, is_marked in zip(found.tokens, found.is_marked, strict=True) if is_marked)
    assert marked == "dogs"
    by_response = map_response(probe, CASE, objective="response")
    assert by_response.combined[-1] == pytest.approx(judgement.hallucination, abs=1e-6)


def test_the_window_that_supports_a_token_best_counts(probe: Probe) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60)))
    case = Case("1", CASE.response, (long,))
    probe = Probe(probe.path, max_windows=3)
    found = map_response(probe, case)
    windows = encode(probe.base(), case, "tldr", max_windows=3)
    results = list(Runner(probe.base()).run(windows, RequestedOutputs(logprobs=False, sublayers=probe.sublayers)))
    assert len(results) == 3
    lowest = np.min([probe.heads["token"].score(r.hidden) for r in results], 0)
    np.testing.assert_allclose(found.combined, lowest, atol=1e-9)
    assert found.notes


def test_what_has_no_map(probe: Probe) -> None:
    with pytest.raises(InputError, match="has no word-level probes"):
        map_response(probe, CASE, objective="word")
    with pytest.raises(CannotJudgeError, match="no token in the response"):
        map_response(probe, Case("1", "", (SOURCE,)))
    with pytest.raises(CannotJudgeError, match="the model reads 256 at once"):
        map_response(probe, Case("1", "The cat sat. " * 100, (SOURCE,)))


@pytest.mark.parametrize("width", [50, 400])
def test_in_a_terminal(probe: Probe, width: int) -> None:
    found = map_response(probe, CASE, marked=[DOGS])
    out = io.StringIO()
    print_response_map(found, Console(file=out, width=width, color_system=None))
    text = out.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    rows = re.findall(r"^detector (.*)$", text, flags=re.MULTILINE)
    assert len(rows) == (1 if width == 400 else len(rows)) > 0
    shown = [int(score) for row in rows for score in row.split()]
    assert shown == [min(round(100 * score), 99) for score in found.combined.tolist()]
    assert "*: marked" in text


def test_as_pictures(probe: Probe) -> None:
    found = map_response(probe, CASE, marked=[DOGS])
    svg = response_map_svg(found)
    ElementTree.fromstring(svg)
    assert "detector" in svg
    assert "feed-forward" in svg
    assert "the first 3 of" in response_map_svg(found, tokens=3)
