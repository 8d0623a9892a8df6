import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import veridical_lab.models.encode as module
from veridical.detectors import load_detector
from veridical.models.load import load
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Judgement, Source, check_judgement
from veridical.text.segment import words
from veridical_lab.detectors.local.logprob import Logprob
from veridical_lab.models.encode import encode
from veridical_lab.models.runner import RequestedOutputs, Runner, RunnerResult
from veridical_lab.models.testing import ENCODER_DECODERS, tiny

SOURCE = Source("a", "The cat sat on the mat, and the dogs slept in the house.")
CASE = Case("1", "The cat slept 😀 on the mat.", (SOURCE,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("llama", tmp_path_factory.mktemp("llama"))


def judge(folder: Path, case: Case = CASE, **options: object) -> Judgement:
    (judgement,) = Logprob(folder, dtype="fp32", template="tldr", **options).judge([case])  # type: ignore[arg-type]
    check_judgement(case, judgement)
    return judgement


def read(folder: Path, case: Case = CASE) -> tuple[tuple[object, ...], RunnerResult]:
    model = load(folder, dtype="fp32")
    (encoded,) = encode(model, case, "tldr")
    (result,) = Runner(model).run([encoded], RequestedOutputs(entropy=True, rank=True))
    return encoded.spans, result


def test_nothing_loads_before_it_is_needed() -> None:
    detector = Logprob("./nowhere")
    assert detector.judge([]) == []
    assert detector.judge([Case("1", " ")])[0].notes == ("the response has no words",)
    with pytest.raises(InputError, match="no model folder"):
        detector.judge([CASE])


def test_the_response_is_scored_by_the_mean_log_probability(folder: Path) -> None:
    _, result = read(folder)
    expected = 1 - math.exp(float(result.logprob.mean()))
    assert judge(folder).hallucination == pytest.approx(expected, abs=1e-6)


def test_a_word_has_the_score_of_its_least_likely_token(folder: Path) -> None:
    spans, result = read(folder)
    assert result.logprob is not None
    judgement = judge(folder)
    assert [v.span for v in judgement.verdicts] == words(CASE.response)
    assert judgement.judged is None
    for verdict in judgement.verdicts:
        mine = [i for i, s in enumerate(spans) if s and s.overlaps(verdict.span)]  # type: ignore[attr-defined]
        expected = 1 - math.exp(min(float(result.logprob[i]) for i in mine))
        assert verdict.score == pytest.approx(expected, abs=1e-6)


def test_entropy_and_rank(folder: Path) -> None:
    _, result = read(folder)
    assert result.rank is not None
    size = len(load(folder, dtype="fp32").tokenizer)
    entropy = judge(folder, score="entropy", unit="token")
    assert entropy.hallucination == pytest.approx(float(result.entropy.mean()) / math.log(size), abs=1e-6)
    rank = judge(folder, score="rank", unit="token")
    assert rank.hallucination == pytest.approx(float((1 - 1 / result.rank).mean()), abs=1e-6)
    assert rank.verdicts[0].score == pytest.approx(1 - 1 / result.rank[0])


def test_tokens_as_units(folder: Path) -> None:
    judgement = judge(folder, unit="token")
    said = [v.span.of(CASE.response) for v in judgement.verdicts]
    assert "".join(said) == CASE.response.replace(" ", "")
    assert said.count("😀") == 1, "tokens that share a character are one unit"
    assert not any(s != s.strip() for s in said)


def test_any_window_may_support_a_token(folder: Path) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60)))
    case = replace(CASE, sources=(long,))
    model = load(folder, dtype="fp32")
    made = encode(model, case, "tldr")
    assert len(made) > 3
    best = np.max([r.logprob for r in Runner(model).run(made)], axis=0)
    judgement = judge(folder, case)
    assert judgement.hallucination == pytest.approx(1 - math.exp(float(best.mean())), abs=1e-6)
    assert judgement.notes == (f"the sources did not fit into 256 tokens and were read in {len(made)} windows",)
    fewer = judge(folder, case, max_windows=1)
    assert fewer.hallucination > judgement.hallucination  # type: ignore[operator]
    assert "only the first 1 were read" in fewer.notes[0]


def test_a_response_longer_than_the_context_is_not_judged_and_the_others_are(folder: Path) -> None:
    cases = [CASE, Case("long", "The cat sat. " * 100, (SOURCE,)), replace(CASE, id="3")]
    first, long, last = Logprob(folder, dtype="fp32").judge(cases)
    assert (long.hallucination, long.judged, long.verdicts) == (None, (), ())
    assert "the model reads 256 at once" in long.notes[0]
    assert first.hallucination == pytest.approx(last.hallucination)


def test_what_failed_is_not_judged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "run", lambda self, encoded, want: [RunnerResult(failed="not finite") for _ in encoded])
    judgement = judge(folder)
    assert (judgement.hallucination, judgement.judged, judgement.notes) == (None, (), ("not finite",))


def test_a_first_token_that_nothing_predicts_is_not_judged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "special_tokens", lambda model: module.SpecialTokens((), ()))
    case = Case("1", "The cat sat.")
    (judgement,) = Logprob(folder, dtype="fp32", template="plain").judge([case])
    check_judgement(case, judgement)
    assert judgement.hallucination is not None
    assert [v.span.of(case.response) for v in judgement.verdicts] == ["cat", "sat"]
    assert judgement.judged[0].of(case.response) == " cat sat."
    assert "was not judged" in judgement.notes[0]


def test_the_raw_prompt(folder: Path) -> None:
    case = replace(CASE, prompt="Once more: The cat slept 😀 on the mat.\nAgain:")
    assert judge(folder, case).hallucination is not None
    raw = Logprob(folder, dtype="fp32", template="raw")
    with_prompt, without = raw.judge([case, CASE])
    assert with_prompt.hallucination is not None
    assert without.hallucination is None
    assert "has no prompt" in without.notes[0]


@pytest.fixture(scope="module", params=ENCODER_DECODERS)
def summariser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(request.param, tmp_path_factory.mktemp(request.param))


def test_an_encoder_decoder_reads_the_bare_source(summariser: Path) -> None:
    detector = Logprob(summariser, dtype="fp32")
    (judgement,) = detector.judge([CASE])
    check_judgement(CASE, judgement)
    model = load(summariser, dtype="fp32", kinds=("seq2seq",))
    source = model.tokenizer(SOURCE.text)["input_ids"]
    target = model.tokenizer(CASE.response)["input_ids"][:-1]
    with torch.inference_mode():
        start = model.model.config.decoder_start_token_id
        pair = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([[start, *target]])}
        logprobs = model.model(**pair).logits[0, :-1].double().log_softmax(-1)
    own = logprobs.gather(1, torch.tensor(target)[:, None])[:, 0]
    if target[0] == model.tokenizer.bos_token_id:
        own = own[1:]
    assert judgement.hallucination == pytest.approx(1 - math.exp(float(own.mean())), abs=1e-5)
    assert [v.span for v in judgement.verdicts] == words(CASE.response)
    assert (judgement.judged, judgement.notes) == (None, ())
    assert detector.fingerprint()["template"] == "bare"
    assert Logprob(summariser, dtype="fp32", template="tldr").fingerprint()["template"] == "tldr"
    (other,) = Logprob(summariser, dtype="fp32", template="tldr").judge([CASE])
    assert other.hallucination != judgement.hallucination


def test_long_sources_and_long_responses_of_an_encoder_decoder(summariser: Path) -> None:
    long = replace(CASE, id="2", sources=(Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60))),))
    endless = replace(CASE, id="3", response="The cat sat. " * 100)
    cases = [CASE, long, endless]
    detector = Logprob(summariser, dtype="fp32", score="rank", unit="token")
    together = detector.judge(cases)
    assert "were read in" in together[1].notes[0]
    assert "the model reads 256 at once" in together[2].notes[0]
    assert (together[2].hallucination, together[2].judged) == (None, ())
    for case, judgement in zip(cases[:2], together[:2], strict=True):
        check_judgement(case, judgement)
        (alone,) = detector.judge([case])
        assert alone.hallucination == pytest.approx(judgement.hallucination, abs=1e-5)


def test_a_decoder_has_the_general_prompt(folder: Path) -> None:
    detector = Logprob(folder, dtype="fp32")
    assert detector.fingerprint()["template"] == "general"
    (named,) = Logprob(folder, dtype="fp32", template="general").judge([CASE])
    assert detector.judge([CASE])[0].hallucination == named.hallucination


def test_spec(folder: Path) -> None:
    argument = f"{folder},template=tldr,score=rank,unit=token,dtype=fp32,max_windows=3"
    detector = load_detector(f"logprob:{argument}")
    assert detector.name == f"logprob:{argument}"
    assert (detector.template, detector.score, detector.unit) == ("tldr", "rank", "token")
    assert detector.max_windows == 3
    (judgement,) = detector.judge([CASE])
    assert judgement.by == detector.name


@pytest.mark.parametrize(
    ("argument", "error", "match"),
    [
        ("x,score=luck", UnknownNameError, "known: entropy, logprob, rank"),
        ("x,unit=line", UnknownNameError, "unit of logprob"),
        ("x,template=tldrr", UnknownNameError, "did you mean tldr"),
        ("x,rank", InputError, "does not take 'rank'.*score"),
        ("x,luck=1", UnknownNameError, "option of logprob"),
        ("x,max_windows=0", InputError, "whole number"),
        ("x,dtype=int8", UnknownNameError, "dtype of logprob"),
    ],
)
def test_a_spec_that_makes_no_sense(argument: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        load_detector(f"logprob:{argument}")
    with pytest.raises(InputError, match="needs a model"):
        load_detector("logprob")


def test_on_a_real_model(shared_models: Path) -> None:
    source = Source("a", "The marathon in Berlin was won by Marta Kowalska. It rained all day.")
    detector = Logprob(shared_models / "reader-6m", template="tldr", dtype="fp32")
    right, wrong = detector.judge(
        [Case(name, f"The marathon in Berlin was won by {name} Kowalska.", (source,)) for name in ("Marta", "Peter")]
    )
    scores = {j.case_id: [v.score for v in j.verdicts][6:8] for j in (right, wrong)}
    assert right.hallucination < wrong.hallucination
    assert scores["Marta"][1] < 0.7 < 0.99 < scores["Peter"][1]
