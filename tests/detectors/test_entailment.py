"""Entailment in the forms of published methods: each equals its reference arithmetic on given probabilities."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.detectors.token_examples import trained_tokens
from tests.lab.detectors.feature_examples import examples
from tests.processes import without_torch
from veridical.detectors import load_detector
from veridical.detectors.claims.verify import Verify
from veridical.detectors.entailment.detector import CONTRADICTION, UNSUPPORTED, Entailment
from veridical.detectors.entailment.forms import Form, chunks, histograms
from veridical.detectors.entailment.scorers import ClassifierScorer, ScorerOptions
from veridical.detectors.tokens.detector import Tokens
from veridical.inference.heads import LogisticLayer
from veridical.io.serialization import encode
from veridical.models.cross_encoder import PairScores
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import Case, Judgement, Source, Span
from veridical.text.segment import word_forms
from veridical_lab.detectors.export import export
from veridical_lab.models.testing import tiny

NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}


class Scripted:
    """Gives each pair the probabilities that a generator drew for its texts, and keeps what it was asked."""

    most_words = 1 << 30

    def count(self, text: str) -> int:
        return len(word_forms(text))

    def __init__(self, table: dict[tuple[str, str], tuple[float, float]] | None = None, three: bool = True) -> None:
        self.table = table or {}
        self.three = self.has_contradiction = three
        self.asked: list[tuple[str, str]] = []

    def of(self, premise: str, hypothesis: str) -> tuple[float, float]:
        if (premise, hypothesis) not in self.table:
            seed = [ord(c) for c in f"{premise}|{hypothesis}"]
            e, _, c = np.random.default_rng(seed).dirichlet([0.5, 0.5, 0.5]).tolist()
            self.table[premise, hypothesis] = e, c
        return self.table[premise, hypothesis]

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        self.asked += pairs
        found = np.array([self.of(*pair) for pair in pairs])
        read = np.array([len(hypothesis) for _, hypothesis in pairs])
        return PairScores(found[:, 0], found[:, 1] if self.three else None, read, np.ones(len(pairs), dtype=bool))

    def fingerprint(self) -> dict[str, Any]:
        return {"scripted": True}


PREMISES = ["The bridge opened in 1893.", "It is 280 m long.", "Anna Berg built it.", "It was painted blue."]
HYPOTHESES = ["The bridge is old.", "It is red.", "Berg built the bridge."]
CASE = Case("1", " ".join(HYPOTHESES), (Source("a", " ".join(PREMISES[:3])), Source("b", PREMISES[3])))


def matrix(scorer: Scripted, premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """P(entailment) and P(contradiction), hypotheses by premises, as the scorer gives them."""
    found = np.array([[scorer.of(p, h) for p in premises] for h in hypotheses])
    return found[..., 0], found[..., 1]


def judged(detector: Entailment, case: Case = CASE) -> tuple[float, list[float]]:
    (judgement,) = detector.judge([case])
    assert judgement.hallucination is not None
    return judgement.hallucination, [verdict.score for verdict in judgement.verdicts]


def test_summac_zs() -> None:
    scorer = Scripted()
    e, c = matrix(scorer, PREMISES, HYPOTHESES)
    score, sentences = judged(Entailment(scorer, "summac"))
    consistency = e.max(1) - c.max(1)  # in [-1, 1]; the published score is its mean
    assert score == pytest.approx((1 - consistency.mean()) / 2, abs=1e-6)
    assert sentences == pytest.approx(((1 - consistency) / 2).tolist(), abs=1e-6)
    without, _ = judged(Entailment(scorer, Form("sentence", "sentence")))
    assert without == pytest.approx(1 - e.max(1).mean(), abs=1e-6)


def test_summac_conv() -> None:
    scorer = Scripted()
    weight, bias = np.random.default_rng(0).normal(size=50), 0.3
    e, _ = matrix(scorer, PREMISES, HYPOTHESES)
    counts = np.stack([np.histogram(row, bins=50, range=(0, 1))[0] for row in e])
    logits = counts @ weight + bias
    score, sentences = judged(Entailment(scorer, "summac-conv", layer=LogisticLayer(weight, bias)))
    assert score == pytest.approx(1 / (1 + np.exp(-logits.mean())), abs=1e-6)
    assert sentences == pytest.approx((1 / (1 + np.exp(-logits))).tolist(), abs=1e-6)
    assert histograms(np.array([[0.0, 1.0, 0.999]]), 4).tolist() == [[1, 0, 0, 2]]
    with pytest.raises(InputError, match="veridical train summac"):
        Entailment(scorer, "summac-conv")


def test_minicheck_and_alignscore() -> None:
    for form, words, combined in (("minicheck", 400, np.max), ("alignscore", 350, np.mean)):
        scorer = Scripted(three=form == "alignscore")
        long = " ".join(f"In {year} the river rose by {year % 7} m." for year in range(1800, 1900))
        case = Case("1", CASE.response, (Source("a", long), Source("b", PREMISES[3])))
        premises = [span.of(long) for span in chunks(long, words)] + [PREMISES[3]]
        assert len(premises) == (4 if words == 350 else 3)
        e, _ = matrix(scorer, premises, HYPOTHESES)
        score, sentences = judged(Entailment(scorer, form), case)
        assert score == pytest.approx(combined(1 - e.max(1)), abs=1e-6)
        assert sentences == pytest.approx((1 - e.max(1)).tolist(), abs=1e-6)


def test_hhem_and_factcc() -> None:
    scorer = Scripted(three=False)
    documents = [" ".join(PREMISES[:3]), PREMISES[3]]
    e, _ = matrix(scorer, documents, [CASE.response])
    assert judged(Entailment(scorer, "hhem")) == (pytest.approx(1 - e.max(), abs=1e-6), [pytest.approx(1 - e.max())])
    e, _ = matrix(scorer, documents, HYPOTHESES)
    assert judged(Entailment(scorer, "factcc"))[0] == pytest.approx((1 - e.max(1)).max(), abs=1e-6)


def test_the_premise_is_evidence_and_contradiction_is_not_absence() -> None:
    table = {(p, h): (0.05, 0.05) for p in PREMISES for h in HYPOTHESES}
    table[PREMISES[0], HYPOTHESES[0]] = 0.9, 0.01
    table[PREMISES[3], HYPOTHESES[1]] = 0.1, 0.8
    (judgement,) = Entailment(Scripted(table), Form("sentence", "sentence")).judge([CASE])
    supported, contradicted, absent = judgement.verdicts
    assert [v.span.of(CASE.response) for v in judgement.verdicts] == HYPOTHESES
    assert [v.label for v in judgement.verdicts] == [None, CONTRADICTION, UNSUPPORTED]
    (evidence,) = supported.evidence
    assert (evidence.source_id, evidence.span, evidence.weight) == ("a", Span(0, 26), 0.9)
    (evidence,) = contradicted.evidence
    assert (evidence.source_id, evidence.weight) == ("b", 0.8)
    assert absent.reason == "no source entails it"
    assert contradicted.reason == "a source contradicts it"


def test_chunks_are_whole_sentences() -> None:
    text = "  One two three. Four!\n\nFive six seven eight nine ten eleven. Twelve. "
    pieces = [span.of(text) for span in chunks(text, 4)]
    assert pieces == ["One two three. Four!", "Five six seven eight", "nine ten eleven. Twelve."]
    assert chunks("", 4) == []


def test_pairs_of_all_cases_are_scored_in_one_call() -> None:
    scorer = Scripted()
    cases = [CASE, Case("2", "", CASE.sources), Case("3", HYPOTHESES[0], CASE.sources)]
    detector = Entailment(scorer, Form("sentence", "sentence"))
    one, none, three = detector.judge(cases)
    assert len(scorer.asked) == 16
    assert none.judged == ()
    assert one.verdicts[0].score == three.verdicts[0].score


# --------------------------------------------------------------------------------------------- checkpoints in folders


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("entailment") / "nli"
    return tiny("roberta", folder, head="SequenceClassification", id2label=NLI)


def copy(folder: Path, to: Path, **config: Any) -> Path:
    """A copy of a checkpoint with other fields in its configuration."""
    shutil.copytree(folder, to)
    about = json.loads((to / "config.json").read_text("utf-8")) | config
    (to / "config.json").write_text(json.dumps(about), "utf-8")
    return to


def test_a_folder_gives_what_transformers_gives(nli: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(nli).eval()
    tokenizer = AutoTokenizer.from_pretrained(nli)
    pairs = [("The cat sat on the mat. " * n, f"The dog slept {n} hours.") for n in (3, 1, 9, 3)]
    expected = []
    for pair in pairs:
        with torch.no_grad():
            expected.append(torch.softmax(model(**tokenizer(*pair, return_tensors="pt")).logits[0], -1).numpy())
    found = ClassifierScorer(nli, ScorerOptions(dtype="fp32")).score(pairs)
    np.testing.assert_allclose(found.entailment, np.array(expected)[:, 2], atol=1e-6)
    np.testing.assert_allclose(found.contradiction, np.array(expected)[:, 0], atol=1e-6)
    single = ClassifierScorer(nli, ScorerOptions(dtype="fp32"))
    single.joined = "single"  # one separator, as MiniCheck joins the texts
    with torch.no_grad():
        logits = model(**tokenizer("The cat sat.</s>The dog slept.", return_tensors="pt")).logits[0]
    found = single.score([("The cat sat.", "The dog slept.")])
    assert found.entailment[0] == pytest.approx(torch.softmax(logits, -1)[2].item(), abs=1e-6)


def test_what_does_not_fit_is_reported(nli: Path) -> None:
    scorer = ClassifierScorer(nli, ScorerOptions(dtype="fp32", max_tokens=48))
    long = "mat " * 60 + "end."
    found = scorer.score([("The cat sat.", long), (long, "The cat sat."), ("The cat sat.", "The cat sat.")])
    assert found.whole.tolist() == [True, False, True]
    assert 0 < found.read[0] < len(long)
    assert found.read[1] == len("The cat sat.")
    detector = Entailment(scorer, Form("document", "sentence"))
    one, two = detector.judge(
        [Case("1", long, (Source("a", "The cat sat."),)), Case("2", "It is.", (Source("a", long),))]
    )
    assert one.judged == (Span(0, int(found.read[0])),)
    assert "1 of 1 premises are too long" in two.notes[0]


def test_the_form_is_guessed_from_the_classes(nli: Path, tmp_path: Path) -> None:
    def form_of(names: list[str]) -> str:
        folder = copy(nli, tmp_path / "-".join(names), id2label={str(i): name for i, name in enumerate(names)})
        return ClassifierScorer(folder).usual_form

    assert form_of(["LABEL_0"]) == "hhem"
    assert form_of(["LABEL_0", "LABEL_1"]) == "minicheck"
    assert form_of(["entailment", "not_entailment"]) == "nli"
    assert form_of(["CORRECT", "INCORRECT"]) == "factcc"
    assert form_of(list(NLI.values())) == "nli"


def test_what_cannot_be_used_is_said_in_one_line(nli: Path, tmp_path: Path) -> None:
    numbered = copy(nli, tmp_path / "numbered", id2label={str(i): f"LABEL_{i}" for i in range(3)})
    with pytest.raises(InputError, match=r"LABEL_0, LABEL_1, LABEL_2, which does not say .*labels=contra"):
        load_detector(f"entailment:{numbered}")
    assert load_detector(f'entailment:{numbered},labels="entailment|neutral|contradiction"')
    with pytest.raises(InputError, match="labels names 2 classes"):
        load_detector(f"entailment:{numbered},labels=entailment|neutral")
    moods = copy(nli, tmp_path / "moods", id2label={"0": "NEGATIVE", "1": "POSITIVE"})
    with pytest.raises(InputError, match="NEGATIVE, POSITIVE"):
        load_detector(f"entailment:{moods}")
    remote = copy(nli, tmp_path / "remote", auto_map={"AutoModel": "code.Model"})
    with pytest.raises(InputError, match=r"needs code of its own.*never run"):
        load_detector(f"entailment:{remote}")
    other = copy(nli, tmp_path / "other", architectures=["RobertaModel"])
    with pytest.raises(InputError, match=r"no sequence classifier \(RobertaModel\)"):
        load_detector(f"entailment:{other}")
    bare = copy(nli, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="no tokenizer in it"):
        load_detector(f"entailment:{bare}")
    with pytest.raises(DataError, match=r"no config\.json in it"):
        load_detector(f"entailment:{tmp_path}")
    with pytest.raises(InputError, match="no checkpoint folder"):
        load_detector("entailment:nowhere")
    two = copy(nli, tmp_path / "two", id2label={"0": "not_entailment", "1": "entailment"})
    with pytest.raises(InputError, match="no class for contradiction"):
        load_detector(f"entailment:{two},form=summac")
    with pytest.raises(UnknownNameError, match="form of entailment"):
        load_detector(f"entailment:{nli},form=summak")
    with pytest.raises(InputError, match="entailment needs a model"):
        load_detector("entailment")


def test_a_classifier_of_our_own_is_a_scorer_and_a_claim_checker(tmp_path: Path) -> None:
    folder = trained_tokens(tmp_path / "own")
    case = examples(2)[0].case
    detector = load_detector(f"entailment:{folder},dtype=fp32,premise=document,hypothesis=response")
    (own,) = Tokens(folder, dtype="fp32").judge([Case("1", case.response.strip(), case.sources)])
    (judgement,) = detector.judge([case])
    assert judgement.hallucination == pytest.approx(own.hallucination, abs=1e-6)
    verify = load_detector(f"verify:entailment:{folder},dtype=fp32")
    assert isinstance(verify, Verify)
    (checked,) = verify.judge([case])
    assert checked.verdicts
    assert checked.hallucination is not None
    with pytest.raises(InputError, match="no class for contradiction"):
        load_detector(f"entailment:{folder},form=summac")
    with pytest.raises(InputError, match="leave out labels="):
        load_detector(f"entailment:{folder},labels=entailment|neutral")


def test_export_to_onnx(nli: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    folder = Path(shutil.copytree(nli, tmp_path / "nli"))
    written = export(ClassifierScorer(folder), "int8")
    assert 0.9 < written.cosine < 1.0
    judgements: list[Judgement] = []
    for spec in (f"entailment:{folder},dtype=fp32", f"entailment:{folder},onnx=int8"):
        judgements += load_detector(spec).judge([CASE])
    one, two = judgements
    assert one.hallucination == pytest.approx(two.hallucination, abs=0.1)
    said = without_torch(f"""
from veridical.io.serialization import decode
from veridical.detectors import load_detector
(judgement,) = load_detector("entailment:{folder},onnx=int8").judge([decode({encode(CASE)!r})])
print(judgement.hallucination)
""")
    assert float(said) == two.hallucination
    with pytest.raises(DataError, match="no fp32 export"):
        load_detector(f"entailment:{folder},onnx=fp32").judge([CASE])
