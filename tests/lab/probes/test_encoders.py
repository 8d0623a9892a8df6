"""Probes on encoders: a text read as a whole, so offline only."""

from pathlib import Path

import numpy as np
import pytest

from tests.lab.probes.samples import WRONG, examples
from veridical.inference.local_model import READERS
from veridical.metrics.ranking import roc_auc
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical.records.types import Case, Source
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.encode import encode
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.testing import tiny
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    model = load(tiny(request.param, folder / "model"), dtype="fp32", kinds=READERS)
    options = ProbeOptions("linear", learning_rates=(0.1, 0.03), batch_sizes=(16,), max_epochs=40)
    train_probe(model, examples(200), TrainingConfig(options=options, template="tldr"), out=folder / "probe")
    return folder / "probe"


def test_a_probe_on_an_encoder_finds_the_words(trained: Path) -> None:
    given = examples(260)[200:]
    judged = Probe(trained).judge([example.case for example in given])
    verdicts = [
        (v.span.of(e.case.response) in WRONG, v.score) for e, j in zip(given, judged, strict=True) for v in j.verdicts
    ]
    gold, scores = np.array([g for g, _ in verdicts]), np.array([s for _, s in verdicts])
    assert roc_auc(gold, scores) > 0.8


def test_its_scores_come_from_the_states_of_the_whole_text(trained: Path) -> None:
    probe = Probe(trained, unit="token")
    case = Case("1", "The dogs swam at noon.", (Source("a", "The dogs slept at noon."),))
    [encoded] = encode(probe.base(), case, "tldr")
    [read] = Runner(probe.base()).run([encoded], RequestedOutputs(logprobs=False, sublayers=probe.sublayers))
    expected = probe.heads["token"].score(read.hidden)
    [judgement] = probe.judge([case])
    shown = [s for s in encoded.spans if s]
    assert [v.span for v in judgement.verdicts] == shown
    np.testing.assert_allclose([v.score for v in judgement.verdicts], expected[[bool(s) for s in encoded.spans]])


def test_an_encoder_cannot_be_monitored(trained: Path) -> None:
    with pytest.raises(InputError, match=r"encoder: it reads a text at once"), Probe(trained).attach():
        pass
    with pytest.raises(InputError, match=r"encoder: it reads a text at once"):
        Probe(trained).stream(Case("1", ""))
