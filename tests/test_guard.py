"""Guarded decoding on a tiny model that prefers to go wrong, and on random ones."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.core import serialization
from veridical.core.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.core.segment import sentences, words
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement, Outcome, Source, Verdict

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.guard_model import RACE, RIGHT, RIGHT_SIGNS, SIGNS, WRONG, WRONG_SIGNS, train  # noqa: E402
from tests.probes.samples import examples  # noqa: E402
from veridical.detectors import load_detector  # noqa: E402
from veridical.detectors.local.logprob import Logprob, token_scores  # noqa: E402
from veridical.detectors.local.probe import Probe  # noqa: E402
from veridical.guard import Budget, Guarded, Sampling, guard  # noqa: E402
from veridical.guard import decoding_loop as course_module  # noqa: E402
from veridical.guard.decoding_loop import Course, Spending  # noqa: E402
from veridical.guard.generation import Prompt, Writer, prompt_of  # noqa: E402
from veridical.guard.monitors import (  # noqa: E402
    JudgeOnline,
    LikelihoodOnline,
    ProbeOnline,
    StreamOnline,
    online_of,
)
from veridical.models.encode import Encoded, encode  # noqa: E402
from veridical.models.load import LocalModel, load  # noqa: E402
from veridical.models.runner import Runner, Want  # noqa: E402
from veridical.models.testing import tiny  # noqa: E402
from veridical.probes.options import ProbeOptions, TrainingConfig  # noqa: E402
from veridical.probes.training import train_probe  # noqa: E402
from veridical.report.guarded import print_guarded  # noqa: E402

WARM = Sampling(max_new_tokens=60, temperature=1.0, seed=1)
COOL = Sampling(max_new_tokens=60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    torch.set_num_threads(1)
    return load(train(tmp_path_factory.mktemp("wrong")), dtype="fp32", device="cpu")


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    """Random weights: it writes bytes, parts of characters, anything."""
    return load(tiny("llama", tmp_path_factory.mktemp("wild")), dtype="fp32", device="cpu")


@pytest.fixture(scope="module", params=["linear", "pooling"])
def probe(request: pytest.FixtureRequest, model: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> Probe:
    options = ProbeOptions(request.param, learning_rates=(0.1,), batch_sizes=(16,), max_epochs=5)
    folder = tmp_path_factory.mktemp("probe")
    train_probe(model, examples(), TrainingConfig(options, template="tldr"), out=folder)
    return Probe(folder)


class Words:
    """Flags every word of a set, as soon as it is complete; `stream` leaves it out of the loop where False."""

    name = "words"

    def __init__(self, *wrong: str, score: float = 0.9) -> None:
        self.wrong, self.score = wrong, score

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        found = [Verdict(w, self._score(w.of(case.response))) for w in words(case.response)]
        whole = sum(v.score for v in found) / len(found) if found else None
        return Judgement(case.id, self.name, whole, verdicts=tuple(found), judged=None if found else ())

    def _score(self, word: str) -> float:
        return self.score if not self.wrong or word in self.wrong else 0.0


class Streaming(Words):
    """The same with `stream`."""

    def stream(self, case: Case) -> Streaming:
        assert case.response == ""
        made = Streaming(*self.wrong, score=self.score)
        made.text, made.told = "", 0
        return made

    text: str
    told: int

    def feed(self, more: str) -> list[Verdict]:
        self.text += more
        return self._new([w for w in words(self.text) if w.end < len(self.text)])

    def finish(self) -> list[Verdict]:
        return self._new(words(self.text))

    def _new(self, found: list[Span]) -> list[Verdict]:
        new = [Verdict(w, self._score(w.of(self.text))) for w in found if w.start >= self.told]
        self.told = max([self.told, *(w.end for w in found)])
        return new


class Whole(Words):
    """One score for the response, no spans."""

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [replace(j, verdicts=(), hallucination=max((v.score for v in j.verdicts), default=None))
                for j in super().judge(cases)]  # fmt: skip


def score(judgement: Judgement) -> float:
    return float(np.mean([v.score for v in judgement.verdicts])) if judgement.verdicts else 0.0


# --- it must go wrong, and is mended ----------------------------------------------------------------------------------

WAYS: list[dict[str, Any]] = [
    {"strategy": "stop"},
    {"strategy": "stop", "unit": "sentence"},
    {"strategy": "backtrack"},
    {"strategy": "backtrack", "unit": "sentence"},
    {"strategy": "backtrack", "sampling": WARM},
    {"strategy": "suppress"},
    {"strategy": "suppress", "sampling": WARM},
    {"strategy": "rerank", "sampling": WARM, "samples": 6},
    {"strategy": "rerank", "beams": True, "samples": 3},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("detector", ["overlap", Streaming("Peter", "東", "京")], ids=["overlap", "stream"])
def test_what_must_go_wrong_is_mended(model: LocalModel, way: dict[str, Any], detector: Any) -> None:
    # of the names one begins with a bare blank and the other does not: only going back to before it helps
    case, wrong = (SIGNS, WRONG_SIGNS) if way["strategy"] == "suppress" else (RACE, WRONG)
    result = guard(case, detector, model, template="tldr", compare=True, **{"sampling": COOL, **way})
    assert result.unguarded is not None
    assert result.unguarded.case.response == wrong
    assert (result.judgement.hallucination or 0.0) < result.unguarded.judgement.hallucination
    assert result.interventions
    assert not {"Peter", "東京"} & {w.of(result.text) for w in words(result.text)}
    assert result.case == replace(case, response=result.text)


def test_the_words_that_come_instead(model: LocalModel) -> None:
    for detector in ("overlap", Streaming("Peter")):
        result = guard(RACE, detector, model, template="tldr", sampling=COOL)
        assert result.text == RIGHT
        (done,) = result.interventions
        assert (done.rejected, done.score, done.action) in [("Peter", s, "backtracked") for s in (0.9, 1.0)]
        assert done.span is not None
        assert done.span.of(result.text) == "Marta"
        assert result.outcome is Outcome.CLEAR
        assert result.reason == "the model ended its text"
    result = guard(SIGNS, "overlap", model, template="tldr", sampling=COOL, compare=True)
    assert result.unguarded is not None
    assert (result.unguarded.case.response, result.text) == (WRONG_SIGNS, RIGHT_SIGNS)
    spans = [done.span for done in result.interventions]
    assert [span.of(result.text) for span in spans if span] == [" Ωμέγα"] * len(spans)


def test_stop_ends_before_and_says_what_would_have_come(model: LocalModel) -> None:
    result = guard(RACE, Streaming("Paris"), model, template="tldr", strategy="stop", sampling=COOL)
    assert result.text == "Peter won the race in"
    (done,) = result.interventions
    assert done.rejected == " Paris"
    assert done.span == Span(len(result.text), len(result.text))
    assert result.reason == "it was stopped where something was flagged"
    first = guard(RACE, Streaming("Peter"), model, template="tldr", strategy="stop", sampling=COOL)
    assert (first.text, first.outcome) == ("", Outcome.UNJUDGED)


def test_back_to_the_start_of_a_sentence(model: LocalModel) -> None:
    result = guard(RACE, Streaming("race"), model, template="tldr", strategy="stop", unit="sentence", sampling=COOL)
    assert result.text == ""
    assert result.interventions[0].rejected == "Peter won the race"
    second = guard(RACE, Streaming("clean"), model, template="tldr", strategy="stop", unit="sentence", sampling=COOL)
    assert second.text == sentences(WRONG)[0].of(WRONG)
    assert second.interventions[0].rejected == " The river was clean"
    word = guard(RACE, Streaming("clean"), model, template="tldr", strategy="stop", sampling=COOL)
    assert word.text == "Peter won the race in Paris. The river was"


def test_likelihood_of_what_is_drawn(model: LocalModel) -> None:
    hot = replace(WARM, temperature=1.6)
    for strategy in ("backtrack", "suppress", "stop"):
        result = guard(
            RACE, "logprob", model, template="tldr", strategy=strategy, sampling=hot, threshold=0.9, compare=True
        )
        assert result.unguarded is not None
        assert score(result.judgement) < score(result.unguarded.judgement)
        assert all(done.score >= 0.9 for done in result.interventions if done.score)
    free = guard(RACE, "logprob", model, template="tldr", sampling=hot, threshold=0.9)
    assert free.forward_passes <= free.tokens_drawn + 1


def test_a_probe_in_the_loop(model: LocalModel, probe: Probe) -> None:
    plain = Writer(model, prompt_of(model, RACE, "tldr", 60))
    seen = ProbeOnline(probe.heads)
    threshold = 1.0
    course(plain, seen, COOL, threshold=threshold).run()
    threshold = float(np.quantile([s for s in seen.scores if s is not None], 0.8))
    for strategy in ("stop", "backtrack", "suppress", "rerank"):
        options = {"sampling": replace(WARM, temperature=1.5) if strategy == "rerank" else COOL}
        result = guard(RACE, probe, model, strategy=strategy, threshold=threshold, compare=True, **options)
        assert result.unguarded is not None
        assert result.interventions
        if strategy == "rerank":
            assert result.judgement.hallucination <= result.unguarded.judgement.hallucination
        elif probe.heads["token"].probes.kind == "linear":
            assert score(result.judgement) < score(result.unguarded.judgement)


# --- budgets ----------------------------------------------------------------------------------------------------------

HOPELESS = [{"strategy": s, "unit": u} for s in ("stop", "backtrack", "suppress", "rerank")
            for u in ("token", "word", "sentence")]  # fmt: skip
BUDGETS = [
    Budget(),
    Budget(interventions=10**6, retries=10**6),
    Budget(interventions=10**6, retries=2, tokens=100),
    Budget(interventions=5, retries=0),
    Budget(interventions=3, retries=10**6),
    Budget(tokens=1),
]


@pytest.mark.parametrize("way", HOPELESS, ids=str)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_it_ends_where_nothing_helps(wild: LocalModel, way: dict[str, Any], budget: Budget) -> None:
    sampling = Sampling(max_new_tokens=12, temperature=0.7)
    for detector in (Streaming(), Words()):
        result = guard(RACE, detector, wild, template="tldr", sampling=sampling, budget=budget, **way)
        assert result.tokens_drawn <= budget.tokens_for(sampling)
        assert sum(d.action != "settled" for d in result.interventions) <= budget.interventions
        assert len(Writer(wild, Prompt((1,))).model.tokenizer(result.text)["input_ids"]) <= 4 * 12
        assert result.reason


def test_every_token_flagged_by_the_likelihood_of_them_all(wild: LocalModel) -> None:
    sampling = Sampling(max_new_tokens=8)
    vocabulary = len(wild.tokenizer)
    many = Budget(interventions=10**6, retries=10**6, tokens=10**5)
    result = guard(RACE, "entropy", wild, template="tldr", strategy="suppress", sampling=sampling,
                   threshold=1e-6, budget=many)  # fmt: skip
    tried = Counter(d.span.start for d in result.interventions if d.span)
    assert 20 < max(tried.values()) <= vocabulary, "each token once, then the best stands"
    assert result.tokens_drawn <= 8 * vocabulary


def test_where_no_token_is_left_the_best_stands(wild: LocalModel) -> None:
    writer = Writer(wild, Prompt((1, 10, 11)))
    running = course(writer, None)
    everything = set(range(len(wild.tokenizer)))
    running._places = {0: course_module._Place(tried=[(0.9, [20]), (0.7, [30, 31]), (0.8, [40])], banned=everything)}
    assert running._draw() is None
    assert writer.ids == [30, 31]
    assert running._places[0].settled


def test_no_budget_is_no_guard(model: LocalModel) -> None:
    for strategy, sampling in itertools.product(("stop", "backtrack", "suppress", "rerank"), (COOL, WARM)):
        if strategy == "rerank" and sampling is COOL:
            continue
        result = guard(RACE, Streaming("Peter", "Marta"), model, template="tldr", strategy=strategy, sampling=sampling,
                       budget=Budget(interventions=0), compare=True)  # fmt: skip
        assert result.unguarded is not None
        assert (result.text, result.judgement) == (result.unguarded.case.response, result.unguarded.judgement)
        assert result.interventions == ()
        assert ("no intervention was left (0)" in result.reason) == (strategy != "rerank")
    none = guard(RACE, "overlap", model, template="tldr", budget=Budget(tokens=0))
    assert (none.text, none.tokens_drawn, none.outcome) == ("", 0, Outcome.UNJUDGED)
    assert none.reason == "the budget of 0 tokens is spent"


def test_the_best_of_what_was_tried_stands(model: LocalModel) -> None:
    online = LikelihoodOnline()
    read, scores = online.read, iter([0.9, 0.6, 0.8])
    drafts: list[str] = []

    def graded(writer: Writer, *, final: bool) -> list[Verdict]:
        found = read(writer, final=final)
        first = [v for v in found if v.span.start == 0]
        drafts.extend(writer.text for _ in first)
        return [Verdict(v.span, next(scores, 0.0)) for v in first]

    online.read = graded  # type: ignore[method-assign]
    result = guard(RACE, "overlap", model, template="tldr", strategy="suppress", threshold=0.5, sampling=COOL,
                   budget=Budget(retries=2), online=online)  # fmt: skip
    assert [(d.action, d.score) for d in result.interventions] == [
        ("suppressed", 0.9), ("suppressed", 0.6), ("settled", 0.8),
    ]  # fmt: skip
    assert len(set(drafts[:3])) == 3
    assert result.text.startswith(drafts[1])


def test_seconds(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(course_module, "monotonic", lambda: float(next(ticks)))
    result = guard(RACE, Streaming("Peter"), model, template="tldr", budget=Budget(seconds=5.0), sampling=COOL)
    assert result.reason == "the budget of 5 seconds is spent"
    assert 0 < result.tokens_drawn < 6


def test_after_the_last_intervention_the_rest_is_unguarded(model: LocalModel) -> None:
    detector = Streaming("Peter", "river")
    result = guard(RACE, detector, model, template="tldr", sampling=COOL, budget=Budget(interventions=1))
    assert result.text == RIGHT
    assert result.outcome is Outcome.FLAGGED
    assert result.reason.endswith("; no intervention was left (1)")


# --- writing ----------------------------------------------------------------------------------------------------------


def course(
    writer: Writer, online: Any, sampling: Sampling = COOL, budget: Budget | None = None, **options: Any
) -> Course:
    budget = budget or Budget()
    random = torch.Generator().manual_seed(sampling.seed)
    return Course(writer, online, Spending(budget, sampling), sampling, random, **options)


@pytest.mark.parametrize(
    "architecture", ["llama", "gpt2", "opt", "falcon", "gpt_neox", "gemma2", "mistral", "qwen3", "phi3"]
)
def test_a_cropped_cache_is_as_good_as_reading_afresh(architecture: str, tmp_path: Path) -> None:
    local = load(tiny(architecture, tmp_path), dtype="fp32", device="cpu")
    prompt = Prompt(tuple(range(3, 73)))  # past the sliding window of 64 that some have
    writer = Writer(local, prompt)
    random = torch.Generator().manual_seed(0)
    for _ in range(30):
        writer.append(writer.draw(WARM, random, heat=1.0, bias={}) or 0)
    kept = list(writer.ids)
    for count in (28, 29, 7, 3, 0):
        writer.ids[:] or writer.rewind(0)
        for token in kept[len(writer.ids) :]:
            writer.append(token)
        writer.advance()
        writer.rewind(count)
        fresh = Writer(local, Prompt((*prompt.ids, *kept[:count])))
        torch.testing.assert_close(writer.logits(), fresh.logits(), atol=1e-5, rtol=1e-5)
        writer.append(kept[count])
        fresh = Writer(local, Prompt((*prompt.ids, *kept[: count + 1])))
        torch.testing.assert_close(writer.logits(), fresh.logits(), atol=1e-5, rtol=1e-5)


def test_going_back_a_little_costs_no_pass(model: LocalModel) -> None:
    writer = Writer(model, prompt_of(model, RACE, "tldr", 60))
    for token in range(10, 20):
        writer.advance()
        writer.append(token)
    before = writer.passes
    assert before == 10
    writer.rewind(8)
    writer.logits()
    assert writer.passes == before
    writer._logits.clear()
    writer.logits()
    assert writer.passes == before + 1


@pytest.mark.parametrize("kind", ["bytes", "metaspace", "unigram"])
def test_the_text_is_what_the_tokenizer_says(kind: Any, tmp_path: Path) -> None:
    local = load(tiny("llama", tmp_path, tokenizer=kind), dtype="fp32", device="cpu")
    said = "the cat slept. 😀 naïve house"
    (encoded,) = encode(local, replace(RACE, response=said), "tldr")
    begin, ids = encoded.response_start, encoded.ids
    writer = Writer(local, Prompt(ids[:begin], blank=True))
    for token in ids[begin:]:
        writer.append(token)
    writer.finish()
    expected = said if kind != "unigram" else writer.text
    assert writer.text == expected
    assert writer.text.startswith("the cat slept.")
    for count in range(len(writer.ids), -1, -1):
        writer.rewind(count)
        assert expected.startswith(writer.text)
        assert len(writer.spans) <= count
    for token in ids[begin:]:
        writer.append(token)
    writer.finish()
    assert writer.text == expected


def test_part_of_a_character_waits(wild: LocalModel) -> None:
    ids = wild.tokenizer("a😀b", add_special_tokens=False)["input_ids"]
    writer = Writer(wild, Prompt((1,)))
    texts = []
    for token in ids:
        writer.append(token)
        texts.append(writer.text)
    assert texts == ["a", "a", "a", "a", "a😀", "a😀b"]
    assert writer.spans == [Span(0, 1), *[Span(1, 2)] * 4, Span(2, 3)]
    assert (writer.token_at(1), writer.start_of(1), writer.start_of(6)) == (1, 1, 3)
    writer.rewind(3)
    assert (writer.text, writer.spans) == ("a", [Span(0, 1)])
    writer.finish()
    assert writer.text == "a\ufffd"
    writer.rewind(3)
    writer.append(ids[3])
    writer.append(ids[4])
    assert writer.text == "a😀"


def test_sampling(wild: LocalModel) -> None:
    writer = Writer(wild, Prompt((1, 10, 11)))
    random = torch.Generator().manual_seed(0)
    order = writer.logits().argsort(descending=True).tolist()

    def drawn(**options: Any) -> set[int | None]:
        heat, bias = options.pop("heat", 1.0), options.pop("bias", {})
        made = Sampling(temperature=heat, **options)
        return {writer.draw(made, random, heat=heat, bias=bias) for _ in range(200)}

    assert drawn(heat=0) == {order[0]}
    assert drawn(heat=0, bias={order[0]: -np.inf}) == {order[1]}
    assert drawn(heat=9.0, top_k=3) == set(order[:3])
    chances = writer.logits().softmax(-1)[order]
    count = int((chances.cumsum(-1) < 0.5).sum()) + 1
    assert drawn(top_p=0.5) <= set(order[:count])
    assert drawn(top_p=1e-9) == {order[0]}
    assert drawn(bias=dict.fromkeys(range(len(order)), -np.inf)) == {None}
    assert order[5] not in drawn(heat=9.0, bias={order[5]: -np.inf})


def test_numbers_that_are_not_finite(wild: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(wild.model), "forward", lambda *a, **k: _Broken())
    with pytest.raises(CannotJudgeError, match="not finite"):
        guard(RACE, "overlap", wild, template="tldr")


class _Broken:
    past_key_values = None
    logits = torch.full((1, 1, 9), float("nan"))


# --- in the loop ------------------------------------------------------------------------------------------------------


def random_flags(online: Any, seed: int, chance: float = 0.4) -> Any:
    """`online`, whose verdicts are replaced by random ones and whose texts are kept."""
    random = np.random.default_rng(seed)
    read = online.read
    online.drafts = []

    def spy(writer: Writer, *, final: bool) -> list[Verdict]:
        online.drafts.append(writer.text)
        return [replace(v, score=float(random.random() < chance)) for v in read(writer, final=final)]

    online.read = spy
    return online


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
@pytest.mark.parametrize("seed", range(3))
def test_a_probe_scores_while_writing_as_offline(model: LocalModel, probe: Probe, unit: str, seed: int) -> None:
    prompt = prompt_of(model, SIGNS, "tldr", 60)
    writer = Writer(model, prompt)
    online = random_flags(ProbeOnline(probe.heads), seed)
    running = course(writer, online, replace(WARM, seed=seed), unit=unit, threshold=0.5)
    running.run()
    assert running.interventions()
    ids = (*prompt.ids, *writer.ids)
    encoded = Encoded(ids, len(prompt.ids), (None,) * len(writer.ids))
    (result,) = Runner(model).run([encoded], Want(logprobs=False, sublayers=probe.sublayers))
    np.testing.assert_allclose(online.scores, probe.heads["token"].score(result.hidden), atol=1e-5)


@pytest.mark.parametrize("kind", ["logprob", "entropy", "rank"])
def test_the_likelihood_while_writing_is_that_offline(model: LocalModel, kind: str) -> None:
    writer = Writer(model, prompt_of(model, RACE, "tldr", 60))
    online = LikelihoodOnline(kind)
    course(writer, online, replace(WARM, temperature=1.3), threshold=1.0).run()
    encoded = Encoded((*writer.prompt, *writer.ids), len(writer.prompt), (None,) * len(writer.ids))
    (result,) = Runner(model).run([encoded], Want(kind == "logprob", kind == "entropy", kind == "rank"))
    scored = token_scores(getattr(result, kind), kind, len(model.tokenizer))
    np.testing.assert_allclose(online.scores, scored, atol=1e-4)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), unit=st.sampled_from(["token", "word", "sentence"]),
    strategy=st.sampled_from(["stop", "backtrack", "suppress"]), retries=st.integers(0, 3),
    chance=st.sampled_from([0.1, 0.5, 0.9]), signs=st.booleans(),
)  # fmt: skip
def test_places_lie_right_in_the_text(
    model: LocalModel, wild: LocalModel, seed: int, unit: str, strategy: str, retries: int, chance: float, signs: bool
) -> None:
    local, case = (model, SIGNS) if signs else (wild, RACE)
    writer = Writer(local, prompt_of(local, case, "tldr", 60))
    online = random_flags(LikelihoodOnline(), seed, chance)
    sampling = Sampling(max_new_tokens=25, temperature=1.0, seed=seed)
    running = course(writer, online, sampling, Budget(retries=retries), strategy=strategy, unit=unit, threshold=0.5)
    running.run()
    text = writer.text
    for done in running.interventions():
        if done.span is None:
            continue
        assert done.span.end <= len(text)
        before = text[: done.span.start]
        assert any(draft.startswith(before + done.rejected) for draft in online.drafts)
        assert done.rejected
        if strategy == "stop":
            assert done.span == Span(len(text), len(text))
    reached = 0
    for span in writer.spans:
        if span and span.start >= reached:
            assert span.start == reached
            reached = span.end
    assert reached == len(text)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_suppressed_is_never_drawn_there(model: LocalModel, seed: int) -> None:
    writer = Writer(model, prompt_of(model, SIGNS, "tldr", 60))
    online = random_flags(LikelihoodOnline(), seed)
    banned: dict[tuple[int, ...], set[int]] = {}
    running = course(writer, online, replace(WARM, seed=seed), strategy="suppress", threshold=0.5)
    draw, cut = writer.draw, running._cut

    def drawing(*arguments: Any, **options: Any) -> int | None:
        token = draw(*arguments, **options)
        assert token not in banned.get(tuple(writer.ids), ())
        return token

    def cutting(count: int) -> None:
        if not running._places[count].settled:
            banned.setdefault(tuple(writer.ids[:count]), set()).add(writer.ids[count])
        cut(count)

    writer.draw, running._cut = drawing, cutting  # type: ignore[method-assign]
    running.run()
    assert sum(map(len, banned.values())) > 2


def test_a_bare_blank_may_stand_again(model: LocalModel) -> None:
    writer = Writer(model, prompt_of(model, RACE, "tldr", 60))
    running = course(writer, None, unit="word")
    assert writer.prompt[-1] != model.tokenizer.convert_tokens_to_ids("Ġ")
    blank = int(writer.logits().argmax())
    assert model.tokenizer.convert_ids_to_tokens(blank) == "Ġ", "the wrong name begins with a bare blank"
    writer.append(blank)
    letter = int(writer.logits().argmax())
    share = float(writer.logits().softmax(-1)[letter])
    writer.append(letter)
    running._places[0] = course_module._Place(tried=[(1.0, [blank, letter])])
    running._ban(0)
    running._cut(0)
    place, bias = running._banned(0)
    assert place == 0
    assert bias[blank] == pytest.approx(np.log1p(-share), rel=1e-3)
    assert set(bias) == {blank, *writer.ends}
    writer.append(blank)
    place, bias = running._banned(1)
    assert (place, bias[letter]) == (0, -np.inf)
    writer.rewind(0)
    writer.append(letter)
    assert running._banned(1) == (1, {})


def test_text_does_not_end_in_the_middle_of_a_sentence_for_want_of_another_word(model: LocalModel) -> None:
    writer = Writer(model, Prompt((1, 5)))
    running = course(writer, None)
    ids = model.tokenizer(" the cat.", add_special_tokens=False)["input_ids"]
    for count, allowed in ((len(ids) - 1, False), (len(ids), True)):
        writer.rewind(0)
        for token in ids[:count]:
            writer.append(token)
        running._places = {count: course_module._Place(tried=[(1.0, [9])], banned={9})}
        _, bias = running._banned(count)
        assert (bias.keys() & writer.ends == set()) == allowed
        running._places = {}
        assert running._banned(count)[1] == {}


def test_the_end_of_the_text_is_judged_too(model: LocalModel) -> None:
    last = guard(RACE, Streaming("clean"), model, template="tldr", sampling=COOL, budget=Budget(retries=1))
    assert last.interventions[0].rejected == " clean"
    ends = guard(RACE, Words("clean"), model, template="tldr", sampling=COOL, budget=Budget(retries=1))
    assert ends.interventions[0].rejected.strip() == "clean"
    few = replace(COOL, max_new_tokens=4)
    short = guard(RACE, "overlap", model, template="tldr", sampling=few, threshold=1.0, budget=Budget(interventions=0))
    assert short.reason.startswith("max_new_tokens is reached (4)")
    last_word = words(short.text)[-1]
    assert last_word.end == len(short.text)
    cut = guard(RACE, Streaming(last_word.of(short.text)), model, template="tldr", sampling=few, strategy="stop")
    assert cut.text == short.text[: last_word.start].rstrip()


def test_sentences_are_judged_when_the_next_one_begins(model: LocalModel) -> None:
    asked: list[str] = []

    class Spy(Whole):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            asked.extend(case.response for case in cases)
            return super().judge(cases)

    result = guard(RACE, Spy("Peter"), model, template="tldr", sampling=COOL, strategy="stop")
    assert asked[0] == "Peter won the race in Paris."
    assert result.text == ""
    result = guard(RACE, Spy("Pan"), model, template="tldr", sampling=COOL)
    assert result.text == WRONG
    assert asked[-2:] == [WRONG, WRONG], "at its end, and offline"


def test_a_new_session_after_a_cut(model: LocalModel) -> None:
    sessions = []

    class Counting(Streaming):
        def stream(self, case: Case) -> Streaming:
            sessions.append(super().stream(case))
            return sessions[-1]

    guard(RACE, Counting("Peter"), model, template="tldr", sampling=COOL)
    assert [s.text.split()[0] for s in sessions] == ["Peter", "Marta"]


@pytest.mark.parametrize("kind", [Words, Streaming])
def test_what_comes_instead_is_judged_too(model: LocalModel, kind: type[Words]) -> None:
    result = guard(RACE, kind("Peter", "Marta"), model, template="tldr", sampling=COOL, budget=Budget(retries=2))
    assert [d.rejected.strip() for d in result.interventions][:2] == ["Peter", "Marta"]


def test_which_way_a_detector_reads_along(model: LocalModel, wild: LocalModel, probe: Probe) -> None:
    assert isinstance(online_of(probe, RACE, model), ProbeOnline)
    assert isinstance(online_of(probe, RACE, wild), StreamOnline)
    assert isinstance(online_of(Logprob(model.name), RACE, model), LikelihoodOnline)
    assert isinstance(online_of(Logprob(model.name), RACE, wild), JudgeOnline)
    assert isinstance(online_of(Streaming(), RACE, model), StreamOnline)
    assert isinstance(online_of(load_detector("overlap"), RACE, model), JudgeOnline)
    encoder = Probe(probe.path)
    encoder.base = lambda: replace(model, kind="encoder")  # type: ignore[method-assign]
    assert isinstance(online_of(encoder, RACE, wild), JudgeOnline)
    with pytest.raises(InputError, match="no model is named to write"):
        guard(RACE, encoder)
    mine = LikelihoodOnline("rank")
    guard(RACE, "overlap", model, template="tldr", online=mine, sampling=COOL)
    assert len(mine.scores) > 5


def test_a_probe_of_another_model_reads_along(wild: LocalModel, probe: Probe) -> None:
    case = Case("1", "", RACE.sources)
    result = guard(case, probe, wild, sampling=Sampling(max_new_tokens=10, temperature=1.0), threshold=1e-9,
                   budget=Budget(interventions=3))  # fmt: skip
    assert len([d for d in result.interventions if d.action == "backtracked"]) == 3


def test_models_and_templates_come_from_the_detector(model: LocalModel, probe: Probe) -> None:
    one = guard(RACE, f"probe:{probe.path}", sampling=COOL, threshold=1.0)
    assert one.text == WRONG
    two = guard(RACE, f"logprob:{model.name},template=tldr,dtype=fp32", sampling=COOL, threshold=1.0)
    assert two.text == WRONG
    three = guard(RACE, f"probe:{probe.path}", model.name, sampling=COOL, threshold=1.0)
    assert three.text == WRONG
    raw = replace(RACE, prompt=f"{RACE.sources[0].text}\nTL;DR: ")
    assert guard(raw, "overlap", model, sampling=COOL, threshold=1.0, budget=Budget(interventions=0)).text == WRONG


def test_the_same_seed_gives_the_same_text(wild: LocalModel) -> None:
    for strategy in ("backtrack", "suppress", "rerank"):
        made = []
        for seed in (1, 1, 2):
            result = guard(RACE, "logprob", wild, template="tldr", strategy=strategy, threshold=0.97,
                           sampling=Sampling(20, 1.0, seed=seed, reheat=0.5), budget=Budget(retries=1))  # fmt: skip
            made.append((result.text, result.interventions, result.tokens_drawn))
        assert made[0] == made[1] != made[2]


def test_reheating(model: LocalModel) -> None:
    writer = Writer(model, prompt_of(model, RACE, "tldr", 60))
    heats: list[float] = []
    draw = writer.draw

    def drawing(*arguments: Any, heat: float, **options: Any) -> int | None:
        heats.append(heat)
        return draw(*arguments, heat=heat, **options)

    writer.draw = drawing  # type: ignore[method-assign]
    online = random_flags(LikelihoodOnline(), 0, chance=1.0)
    course(writer, online, replace(COOL, reheat=0.25), Budget(interventions=2), strategy="suppress").run()
    assert [heat for heat in heats if heat] == [0.25, 0.5]


# --- the result -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mended(model: LocalModel) -> Guarded:
    case = replace(RACE, id="race [bold]")
    return guard(case, "overlap", model, template="tldr", sampling=COOL, compare=True)


def test_json_and_back(mended: Guarded) -> None:
    document = json.loads(serialization.encode(mended))
    assert document["veridical"] == "guarded/1"
    assert serialization.decode(document) == mended
    assert document["outcome"] == "clear"
    assert document["unguarded"]["case"]["response"] == WRONG
    assert document["interventions"] == [
        {"span": {"start": 0, "end": 5}, "rejected": "Peter", "score": 1.0, "action": "backtracked"}
    ]


def test_in_a_terminal(mended: Guarded) -> None:
    from io import StringIO

    from rich.console import Console

    def shown(result: Guarded) -> str:
        out = StringIO()
        print_guarded([result], Console(file=out, width=100, color_system=None, markup=False))
        return out.getvalue()

    text = shown(mended)
    assert "race [bold]  CLEAR" in text
    assert "1. backtracked “Peter” 1.00, replaced by “Marta” (character 0)" in text
    assert "Unguarded  hallucination 0." in text
    assert "Ended: the model ended its text" in text
    many = replace(mended, interventions=mended.interventions * 30, notes=("the sources did not fit",))
    assert "… and 10 more interventions" in shown(many)
    assert "Note: the sources did not fit" in shown(many)
    gone = replace(mended.interventions[0], span=None, score=None)
    assert "“Peter” not scored, in a part that was thrown away" in shown(replace(mended, interventions=(gone,)))


def test_a_long_source_is_cut_and_said(model: LocalModel) -> None:
    long = replace(RACE, sources=(Source("a", "Marta won the race in Paris. " * 60),))
    result = guard(long, "overlap", model, template="tldr", sampling=replace(COOL, max_new_tokens=20))
    assert "did not fit" in result.notes[0]
    assert result.tokens_drawn >= 1


def test_rerank_keeps_the_best_and_leaves_the_cut_one_out(model: LocalModel) -> None:
    sampling = replace(WARM, temperature=1.5)
    result = guard(RACE, Words("Peter"), model, template="tldr", strategy="rerank", sampling=sampling, samples=6)
    assert len(result.interventions) == 5
    assert all((d.score or 0) >= (result.judgement.hallucination or 0) for d in result.interventions)
    assert all(d.action == "not chosen" for d in result.interventions)
    tight = guard(RACE, Words("Peter"), model, template="tldr", strategy="rerank", sampling=sampling, samples=6,
                  budget=Budget(tokens=result.tokens_drawn // 2))  # fmt: skip
    assert tight.tokens_drawn == result.tokens_drawn // 2
    assert "of 6 texts" in tight.reason
    whole = {result.text, *(d.rejected for d in result.interventions)}
    assert {tight.text, *(d.rejected for d in tight.interventions)} <= whole
    beams = guard(RACE, Words("Peter"), model, template="tldr", strategy="rerank", beams=True, samples=3,
                  sampling=COOL, budget=Budget(tokens=31))  # fmt: skip
    assert 0 < beams.tokens_drawn <= 31
    assert beams.forward_passes == beams.tokens_drawn // 3


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"strategy": "pray"}, UnknownNameError, "unknown strategy 'pray'"),
        ({"unit": "page"}, UnknownNameError, "unit to go back to"),
        ({"strategy": "rerank"}, InputError, "at temperature 0 all samples are the same"),
        ({"strategy": "rerank", "samples": 1, "beams": True}, InputError, "1 samples to choose from"),
        ({"beams": True}, InputError, "has no beams"),
        ({"threshold": 0.0}, InputError, "the threshold is 0.0"),
        ({"sampling": Sampling(max_new_tokens=256)}, InputError, "the model reads 256 tokens at once"),
        ({"template": "raw"}, CannotJudgeError, "has no prompt"),
        ({"template": "verse"}, UnknownNameError, "unknown template"),
        ({"detector": "overlapp"}, UnknownNameError, "did you mean overlap"),
        ({"model": None}, InputError, "no model is named to write, and 'overlap' has none"),
        ({"model": None, "detector": "entropy"}, InputError, "'entropy' is of that model"),
        ({"model": "no-folder"}, InputError, "there is no model folder"),
        ({"model": "no-folder", "detector": "logprob"}, InputError, "there is no model folder"),
    ],
)
def test_bad_input_is_one_line(model: LocalModel, options: dict[str, Any], error: type[Exception], says: str) -> None:
    given = {"detector": "overlap", "model": model, "template": "tldr", **options}
    with pytest.raises(error) as caught:
        guard(RACE, given.pop("detector"), given.pop("model"), **given)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sampling(max_new_tokens=0), lambda: Sampling(temperature=-1.0), lambda: Sampling(top_p=0.0),
        lambda: Sampling(top_p=1.1), lambda: Sampling(top_k=-1), lambda: Sampling(temperature=float("nan")),
        lambda: Sampling(reheat=-0.1), lambda: Sampling(seed=-1), lambda: Budget(interventions=-1),
        lambda: Budget(retries=-1), lambda: Budget(tokens=-1), lambda: Budget(seconds=float("inf")),
    ],
)  # fmt: skip
def test_numbers_out_of_range(make: Any) -> None:
    with pytest.raises(InputError):
        make()
