"""Guarded decoding on a tiny model that prefers to go wrong, and on random ones."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.lab.guard_model import RACE, RIGHT, RIGHT_SIGNS, SIGNS, WRONG, WRONG_SIGNS, train
from tests.lab.probes.samples import examples
from veridical.detectors import load_detector
from veridical.inference.artifact import load_artifact
from veridical.inference.local_model import LocalModel
from veridical.io import serialization
from veridical.models.load import load
from veridical.models.sampling import Sampler
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Outcome, Source, Verdict
from veridical.text.segment import sentences, words
from veridical_lab.detectors.local.logprob import Logprob, token_scores
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.guard import Guard, Guarded, GuardOptions, Sampling, TokenBudget, guard
from veridical_lab.guard import decoding_loop as loop_module
from veridical_lab.guard.decoding_loop import BudgetUsage, DecodingLoop
from veridical_lab.guard.monitors import (
    HiddenStateMonitor,
    LikelihoodMonitor,
    SentenceMonitor,
    StreamMonitor,
    monitor_for,
)
from veridical_lab.models.encode import Encoded, encode
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.stepwise import Generation, TokenPrompt, prompt_of
from veridical_lab.models.testing import tiny
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe
from veridical_lab.report.guarded import print_guarded

WARM = Sampling(max_new_tokens=60, temperature=1.0, seed=2)
COOL = Sampling(max_new_tokens=60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
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
        assert done.span.of(result.text) == "Marta"
        assert result.outcome is Outcome.CLEAR
        assert result.reason == "the model ended its text"
    result = guard(SIGNS, "overlap", model, template="tldr", sampling=COOL, compare=True)
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
        assert score(result.judgement) < score(result.unguarded.judgement)
        assert all(done.score >= 0.9 for done in result.interventions if done.score)
    free = guard(RACE, "logprob", model, template="tldr", sampling=hot, threshold=0.9)
    assert free.forward_passes <= free.tokens_drawn + 1


def test_a_probe_in_the_loop(model: LocalModel, probe: Probe) -> None:
    plain = Generation(model, prompt_of(model, RACE, "tldr", 60))
    seen = HiddenStateMonitor(probe)
    threshold = 1.0
    loop(plain, seen, COOL, threshold=threshold).run()
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


HOPELESS = [{"strategy": s, "unit": u} for s in ("stop", "backtrack", "suppress", "rerank")
            for u in ("token", "word", "sentence")]  # fmt: skip
BUDGETS = [
    TokenBudget(),
    TokenBudget(interventions=10**6, retries=10**6),
    TokenBudget(interventions=10**6, retries=2, tokens=100),
    TokenBudget(interventions=5, retries=0),
    TokenBudget(interventions=3, retries=10**6),
    TokenBudget(tokens=1),
]


@pytest.mark.parametrize("way", HOPELESS, ids=str)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_it_ends_where_nothing_helps(wild: LocalModel, way: dict[str, Any], budget: TokenBudget) -> None:
    sampling = Sampling(max_new_tokens=12, temperature=0.7)
    for detector in (Streaming(), Words()):
        result = guard(RACE, detector, wild, template="tldr", sampling=sampling, budget=budget, **way)
        assert result.tokens_drawn <= budget.tokens_for(sampling)
        assert sum(d.action != "accepted" for d in result.interventions) <= budget.interventions
        assert len(Generation(wild, TokenPrompt((1,))).model.tokenizer(result.text)["input_ids"]) <= 4 * 12
        assert result.reason


def test_every_token_flagged_by_the_likelihood_of_them_all(wild: LocalModel) -> None:
    sampling = Sampling(max_new_tokens=8)
    vocabulary = len(wild.tokenizer)
    many = TokenBudget(interventions=10**6, retries=10**6, tokens=10**5)
    result = guard(RACE, "entropy", wild, template="tldr", strategy="suppress", sampling=sampling,
                   threshold=1e-6, budget=many)  # fmt: skip
    tried = Counter(d.span.start for d in result.interventions if d.span)
    assert 20 < max(tried.values()) <= vocabulary, "each token once, then the best stands"
    assert result.tokens_drawn <= 8 * vocabulary


def test_where_no_token_is_left_the_best_stands(wild: LocalModel) -> None:
    generation = Generation(wild, TokenPrompt((1, 10, 11)))
    running = loop(generation, None)
    everything = set(range(len(wild.tokenizer)))
    running._positions = {
        0: loop_module._Position(attempts=[(0.9, [20]), (0.7, [30, 31]), (0.8, [40])], banned=everything)
    }
    assert running._sample() is None
    assert generation.ids == [30, 31]
    assert running._positions[0].accepted


def test_no_budget_is_no_guard(model: LocalModel) -> None:
    for strategy, sampling in itertools.product(("stop", "backtrack", "suppress", "rerank"), (COOL, WARM)):
        if strategy == "rerank" and sampling is COOL:
            continue
        result = guard(RACE, Streaming("Peter", "Marta"), model, template="tldr", strategy=strategy, sampling=sampling,
                       budget=TokenBudget(interventions=0), compare=True)  # fmt: skip
        assert (result.text, result.judgement) == (result.unguarded.case.response, result.unguarded.judgement)
        assert result.interventions == ()
        assert ("no intervention was left (0)" in result.reason) == (strategy != "rerank")
    none = guard(RACE, "overlap", model, template="tldr", budget=TokenBudget(tokens=0))
    assert (none.text, none.tokens_drawn, none.outcome) == ("", 0, Outcome.UNJUDGED)
    assert none.reason == "the budget of 0 tokens is spent"


def test_the_best_of_what_was_tried_stands(model: LocalModel) -> None:
    monitor = LikelihoodMonitor()
    read, scores = monitor.verdicts, iter([0.9, 0.6, 0.8])
    drafts: list[str] = []

    def graded(generation: Generation, *, final: bool) -> list[Verdict]:
        found = read(generation, final=final)
        first = [v for v in found if v.span.start == 0]
        drafts.extend(generation.text for _ in first)
        return [Verdict(v.span, next(scores, 0.0)) for v in first]

    monitor.verdicts = graded  # type: ignore[method-assign]
    result = guard(RACE, "overlap", model, template="tldr", strategy="suppress", threshold=0.5, sampling=COOL,
                   budget=TokenBudget(retries=2), monitor=monitor)  # fmt: skip
    assert [(d.action, d.score) for d in result.interventions] == [
        ("suppressed", 0.9), ("suppressed", 0.6), ("accepted", 0.8),
    ]  # fmt: skip
    assert len(set(drafts[:3])) == 3
    assert result.text.startswith(drafts[1])


def test_seconds(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(loop_module, "monotonic", lambda: float(next(ticks)))
    result = guard(RACE, Streaming("Peter"), model, template="tldr", budget=TokenBudget(seconds=5.0), sampling=COOL)
    assert result.reason == "the budget of 5 seconds is spent"
    assert 0 < result.tokens_drawn < 6


def test_after_the_last_intervention_the_rest_is_unguarded(model: LocalModel) -> None:
    detector = Streaming("Peter", "river")
    result = guard(RACE, detector, model, template="tldr", sampling=COOL, budget=TokenBudget(interventions=1))
    assert result.text == RIGHT
    assert result.outcome is Outcome.FLAGGED
    assert result.reason.endswith("; no intervention was left (1)")


def loop(
    generation: Generation, monitor: Any, sampling: Sampling = COOL, budget: TokenBudget | None = None, **options: Any
) -> DecodingLoop:
    threshold = options.pop("threshold", 1.0)
    given = GuardOptions(sampling=sampling, **options)
    sampler = Sampler([sampling.seed], temperature=sampling.temperature)
    return DecodingLoop(generation, sampler, BudgetUsage(budget or TokenBudget(), sampling), given, monitor, threshold)


@pytest.mark.parametrize(
    "architecture", ["llama", "gpt2", "opt", "falcon", "gpt_neox", "gemma2", "mistral", "qwen3", "phi3"]
)
def test_a_cropped_cache_is_as_good_as_reading_afresh(architecture: str, tmp_path: Path) -> None:
    local = load(tiny(architecture, tmp_path), dtype="fp32", device="cpu")
    prompt = TokenPrompt(tuple(range(3, 73)))  # past the sliding window of 64 that some have
    generation = Generation(local, prompt)
    sampler = Sampler([0], temperature=1.0)
    for _ in range(30):
        generation.append(sampler.sample(generation.logits()[None])[0])
    kept = list(generation.ids)
    for count in (28, 29, 7, 3, 0):
        generation.ids[:] or generation.rewind(0)
        for token in kept[len(generation.ids) :]:
            generation.append(token)
        generation.advance()
        generation.rewind(count)
        fresh = Generation(local, TokenPrompt((*prompt.ids, *kept[:count])))
        torch.testing.assert_close(generation.logits(), fresh.logits(), atol=1e-5, rtol=1e-5)
        generation.append(kept[count])
        fresh = Generation(local, TokenPrompt((*prompt.ids, *kept[: count + 1])))
        torch.testing.assert_close(generation.logits(), fresh.logits(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma2", "mistral"])
def test_what_an_earlier_prompt_began_with_is_not_read_again(architecture: str, tmp_path: Path) -> None:
    local = load(tiny(architecture, tmp_path), dtype="fp32", device="cpu")
    first = Generation(local, TokenPrompt(tuple(range(3, 83))))  # past the sliding window of 64 that some have
    first.logits()
    first.append(7)
    prompts = [((*range(3, 80), 5, 6), 2), (tuple(range(3, 83)), 3), (tuple(range(3, 43)), 1), ((9, 8), 2)]
    for ids, unread in prompts:
        read: list[int] = []
        again = Generation(local, TokenPrompt(ids), after=first)
        with forward_hook(local, read):
            found = again.logits()
        assert (read, again.passes) == ([unread], 1)
        torch.testing.assert_close(found, Generation(local, TokenPrompt(ids)).logits(), atol=1e-5, rtol=1e-5)
        first = again


def test_cases_of_one_guard_are_as_if_alone(model: LocalModel) -> None:
    guarding = Guard("overlap", model, GuardOptions(template="tldr", sampling=WARM, compare=True))
    for case in (RACE, SIGNS, RACE):
        alone = guard(case, "overlap", model, template="tldr", sampling=WARM, compare=True)
        result = guarding.generate(case)
        assert result.text == alone.text
        assert result.forward_passes == alone.forward_passes


STOPPING = [
    {"strategy": "stop"}, {"strategy": "backtrack"}, {"strategy": "suppress", "sampling": WARM},
    {"strategy": "rerank", "sampling": WARM}, {"strategy": "rerank", "beams": True},
]  # fmt: skip


@pytest.mark.parametrize("way", STOPPING, ids=str)
def test_the_text_ends_before_a_stop_string(model: LocalModel, way: dict[str, Any]) -> None:
    way = {**way, "sampling": replace(way.get("sampling", COOL), stop=("clean", " Paris"))}
    result = guard(RACE, Words("Marta"), model, template="tldr", compare=True, **way)
    assert result.unguarded.case.response == WRONG.partition(" Paris")[0]
    assert result.text in ("", *(text.partition(" Paris")[0] for text in (WRONG, RIGHT)))
    if way["strategy"] != "stop":
        assert result.reason == "the text reached ' Paris'"
    if way["strategy"] != "rerank":
        assert result.tokens_drawn < 30, "what comes after is not sampled"
    assert result.judgement.hallucination == float("Marta" in result.text)


def test_what_follows_a_stop_string_is_not_flagged(model: LocalModel) -> None:
    sampling = replace(COOL, stop=(" in",))
    result = guard(RACE, Words("in"), model, template="tldr", sampling=sampling, strategy="suppress")
    assert (result.text, result.interventions) == ("Peter won the race", ())


def test_going_back_a_little_costs_no_pass(model: LocalModel) -> None:
    generation = Generation(model, prompt_of(model, RACE, "tldr", 60))
    for token in range(10, 20):
        generation.advance()
        generation.append(token)
    before = generation.passes
    assert before == 10
    generation.rewind(8)
    generation.logits()
    assert generation.passes == before
    generation._logits.clear()
    generation.logits()
    assert generation.passes == before + 1


@pytest.mark.parametrize("kind", ["bytes", "metaspace", "unigram"])
def test_the_text_is_what_the_tokenizer_says(kind: Any, tmp_path: Path) -> None:
    local = load(tiny("llama", tmp_path, tokenizer=kind), dtype="fp32", device="cpu")
    said = "the cat slept. 😀 naïve house"
    (encoded,) = encode(local, replace(RACE, response=said), "tldr")
    begin, ids = encoded.response_start, encoded.ids
    generation = Generation(local, TokenPrompt(ids[:begin], space=True))
    for token in ids[begin:]:
        generation.append(token)
    generation.finish()
    expected = said if kind != "unigram" else generation.text
    assert generation.text == expected
    assert generation.text.startswith("the cat slept.")
    for count in range(len(generation.ids), -1, -1):
        generation.rewind(count)
        assert expected.startswith(generation.text)
        assert len(generation.spans) <= count
    for token in ids[begin:]:
        generation.append(token)
    generation.finish()
    assert generation.text == expected


def test_part_of_a_character_waits(wild: LocalModel) -> None:
    ids = wild.tokenizer("a😀b", add_special_tokens=False)["input_ids"]
    generation = Generation(wild, TokenPrompt((1,)))
    texts = []
    for token in ids:
        generation.append(token)
        texts.append(generation.text)
    assert texts == ["a", "a", "a", "a", "a😀", "a😀b"]
    assert generation.spans == [Span(0, 1), *[Span(1, 2)] * 4, Span(2, 3)]
    assert (generation.token_at(1), generation.start_of(1), generation.start_of(6)) == (1, 1, 3)
    generation.rewind(3)
    assert (generation.text, generation.spans) == ("a", [Span(0, 1)])
    generation.finish()
    assert generation.text == "a\ufffd"
    generation.rewind(3)
    generation.append(ids[3])
    generation.append(ids[4])
    assert generation.text == "a😀"


def test_numbers_that_are_not_finite(wild: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(wild.model), "forward", lambda *a, **k: _Broken())
    with pytest.raises(CannotJudgeError, match="not finite"):
        guard(RACE, "overlap", wild, template="tldr")


class _Broken:
    cache = past_key_values = None  # the latter before transformers 5.24
    logits = torch.full((1, 1, 9), float("nan"))


def random_flags(monitor: Any, seed: int, chance: float = 0.4) -> Any:
    """`monitor`, whose verdicts are replaced by random ones and whose texts are kept."""
    random = np.random.default_rng(seed)
    read = monitor.verdicts
    monitor.drafts = []

    def spy(generation: Generation, *, final: bool) -> list[Verdict]:
        monitor.drafts.append(generation.text)
        return [replace(v, score=float(random.random() < chance)) for v in read(generation, final=final)]

    monitor.verdicts = spy
    return monitor


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
@pytest.mark.parametrize("seed", range(3))
def test_a_probe_scores_while_writing_as_offline(model: LocalModel, probe: Probe, unit: str, seed: int) -> None:
    prompt = prompt_of(model, SIGNS, "tldr", 60)
    generation = Generation(model, prompt)
    monitor = random_flags(HiddenStateMonitor(probe), seed)
    running = loop(generation, monitor, replace(WARM, seed=seed), unit=unit, threshold=0.5)
    running.run()
    assert running.interventions()
    ids = (*prompt.ids, *generation.ids)
    encoded = Encoded(ids, len(prompt.ids), (None,) * len(generation.ids))
    (result,) = Runner(model).run([encoded], RequestedOutputs(logprobs=False, sublayers=probe.sublayers))
    np.testing.assert_allclose(monitor.scores, probe.heads["token"].score(result.hidden), atol=1e-5)


@pytest.mark.parametrize("stop", [(), (" clean",)], ids=str)
def test_what_a_probe_says_in_the_end_costs_no_pass(model: LocalModel, probe: Probe, stop: tuple[str, ...]) -> None:
    monitor = HiddenStateMonitor(probe)
    read = monitor.verdicts

    def of_peter(generation: Generation, *, final: bool) -> list[Verdict]:
        wrong = generation.text.startswith("P")
        return [replace(v, score=float(wrong and v.span.start == 0)) for v in read(generation, final=final)]

    monitor.verdicts = of_peter  # type: ignore[method-assign]
    passes: list[int] = []
    sampling = replace(COOL, stop=stop)
    with forward_hook(model, passes):
        result = guard(RACE, probe, model, monitor=monitor, threshold=0.5, sampling=sampling)
    assert result.interventions
    assert result.text == (RIGHT.partition(*stop)[0] if stop else RIGHT)
    assert result.forward_passes == len(passes)
    (expected,) = probe.judge([result.case])
    found = [v.score for v in result.judgement.verdicts]
    np.testing.assert_allclose(found, [v.score for v in expected.verdicts], atol=1e-5)
    assert [v.span for v in result.judgement.verdicts] == [v.span for v in expected.verdicts]
    assert result.judgement.hallucination == pytest.approx(expected.hallucination, abs=1e-5)
    assert (result.judgement.by, result.judgement.judged) == (expected.by, expected.judged)
    other = guard(RACE, probe, model, template="general", threshold=1.0, sampling=sampling)  # the probe reads "tldr"
    (expected,) = probe.judge([other.case])
    assert other.judgement == expected


@contextmanager
def forward_hook(model: LocalModel, passes: list[int]) -> Iterator[None]:
    """Put the number of tokens of each forward pass into `passes`."""
    hook = model.model.base_model.register_forward_hook(
        lambda module, args, out: passes.append(out.last_hidden_state.shape[1])
    )
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize("kind", ["logprob", "entropy", "rank"])
def test_the_likelihood_while_writing_is_that_offline(model: LocalModel, kind: str) -> None:
    generation = Generation(model, prompt_of(model, RACE, "tldr", 60))
    monitor = LikelihoodMonitor(kind)
    loop(generation, monitor, replace(WARM, temperature=1.3), threshold=1.0).run()
    encoded = Encoded((*generation.prompt, *generation.ids), len(generation.prompt), (None,) * len(generation.ids))
    (result,) = Runner(model).run([encoded], RequestedOutputs(kind == "logprob", kind == "entropy", kind == "rank"))
    scored = token_scores(getattr(result, kind), kind, len(model.tokenizer))
    np.testing.assert_allclose(monitor.scores, scored, atol=1e-4)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), unit=st.sampled_from(["token", "word", "sentence"]),
    strategy=st.sampled_from(["stop", "backtrack", "suppress"]), retries=st.integers(0, 3),
    chance=st.sampled_from([0.1, 0.5, 0.9]), signs=st.booleans(),
)  # fmt: skip
def test_positions_lie_right_in_the_text(
    model: LocalModel, wild: LocalModel, seed: int, unit: str, strategy: str, retries: int, chance: float, signs: bool
) -> None:
    local, case = (model, SIGNS) if signs else (wild, RACE)
    generation = Generation(local, prompt_of(local, case, "tldr", 60))
    monitor = random_flags(LikelihoodMonitor(), seed, chance)
    sampling = Sampling(max_new_tokens=25, temperature=1.0, seed=seed)
    running = loop(
        generation, monitor, sampling, TokenBudget(retries=retries), strategy=strategy, unit=unit, threshold=0.5
    )
    running.run()
    text = generation.text
    for done in running.interventions():
        if done.span is None:
            continue
        assert done.span.end <= len(text)
        before = text[: done.span.start]
        assert any(draft.startswith(before + done.rejected) for draft in monitor.drafts)
        assert done.rejected
        if strategy == "stop":
            assert done.span == Span(len(text), len(text))
    reached = 0
    for span in generation.spans:
        if span and span.start >= reached:
            assert span.start == reached
            reached = span.end
    assert reached == len(text)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_suppressed_is_never_drawn_there(model: LocalModel, seed: int) -> None:
    generation = Generation(model, prompt_of(model, SIGNS, "tldr", 60))
    monitor = random_flags(LikelihoodMonitor(), seed)
    banned: dict[tuple[int, ...], set[int]] = {}
    running = loop(generation, monitor, replace(WARM, seed=seed), strategy="suppress", threshold=0.5)
    sample, cut = running.sampler.sample, running._cut

    def sampling(*arguments: Any) -> list[int]:
        (token,) = sample(*arguments)
        assert token not in banned.get(tuple(generation.ids), ())
        return [token]

    def cutting(count: int) -> None:
        if not running._positions[count].accepted:
            banned.setdefault(tuple(generation.ids[:count]), set()).add(generation.ids[count])
        cut(count)

    running.sampler.sample, running._cut = sampling, cutting  # type: ignore[method-assign]
    running.run()
    assert sum(map(len, banned.values())) > 2


def test_a_bare_blank_may_stand_again(model: LocalModel) -> None:
    generation = Generation(model, prompt_of(model, RACE, "tldr", 60))
    running = loop(generation, None, unit="word")
    assert generation.prompt[-1] != model.tokenizer.convert_tokens_to_ids("Ġ")
    blank = int(generation.logits().argmax())
    assert model.tokenizer.convert_ids_to_tokens(blank) == "Ġ", "the wrong name begins with a bare blank"
    generation.append(blank)
    letter = int(generation.logits().argmax())
    share = float(generation.logits().softmax(-1)[letter])
    generation.append(letter)
    running._positions[0] = loop_module._Position(attempts=[(1.0, [blank, letter])])
    running._ban(0)
    running._cut(0)
    place, bias = running._bias(0)
    assert place == 0
    assert bias[blank] == pytest.approx(np.log1p(-share), rel=1e-3)
    assert set(bias) == {blank, *generation.end_ids}
    generation.append(blank)
    place, bias = running._bias(1)
    assert (place, bias[letter]) == (0, -np.inf)
    generation.rewind(0)
    generation.append(letter)
    assert running._bias(1) == (1, {})


def test_text_does_not_end_in_the_middle_of_a_sentence_for_want_of_another_word(model: LocalModel) -> None:
    generation = Generation(model, TokenPrompt((1, 5)))
    running = loop(generation, None)
    ids = model.tokenizer(" the cat.", add_special_tokens=False)["input_ids"]
    for count, allowed in ((len(ids) - 1, False), (len(ids), True)):
        generation.rewind(0)
        for token in ids[:count]:
            generation.append(token)
        running._positions = {count: loop_module._Position(attempts=[(1.0, [9])], banned={9})}
        _, bias = running._bias(count)
        assert (bias.keys() & generation.end_ids == set()) == allowed
        running._positions = {}
        assert running._bias(count)[1] == {}


def test_the_end_of_the_text_is_judged_too(model: LocalModel) -> None:
    last = guard(RACE, Streaming("clean"), model, template="tldr", sampling=COOL, budget=TokenBudget(retries=1))
    assert last.interventions[0].rejected == " clean"
    ends = guard(RACE, Words("clean"), model, template="tldr", sampling=COOL, budget=TokenBudget(retries=1))
    assert ends.interventions[0].rejected.strip() == "clean"
    few = replace(COOL, max_new_tokens=4)
    short = guard(
        RACE, "overlap", model, template="tldr", sampling=few, threshold=1.0, budget=TokenBudget(interventions=0)
    )
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
    result = guard(RACE, kind("Peter", "Marta"), model, template="tldr", sampling=COOL, budget=TokenBudget(retries=2))
    assert [d.rejected.strip() for d in result.interventions][:2] == ["Peter", "Marta"]


def test_how_a_detector_monitors(model: LocalModel, wild: LocalModel, probe: Probe) -> None:
    assert isinstance(monitor_for(probe, RACE, model), HiddenStateMonitor)
    assert isinstance(monitor_for(probe, RACE, wild), StreamMonitor)
    assert isinstance(monitor_for(Logprob(model.name), RACE, model), LikelihoodMonitor)
    assert isinstance(monitor_for(Logprob(model.name), RACE, wild), SentenceMonitor)
    assert isinstance(monitor_for(Streaming(), RACE, model), StreamMonitor)
    assert isinstance(monitor_for(load_detector("overlap"), RACE, model), SentenceMonitor)
    encoder = Probe(probe.path)
    encoder.base = lambda: replace(model, kind="encoder")  # type: ignore[method-assign]
    assert isinstance(monitor_for(encoder, RACE, wild), SentenceMonitor)
    with pytest.raises(InputError, match="no model is named to generate"):
        guard(RACE, encoder)
    mine = LikelihoodMonitor("rank")
    guard(RACE, "overlap", model, template="tldr", monitor=mine, sampling=COOL)
    assert len(mine.scores) > 5


def test_detector_and_model_are_loaded_once(model: LocalModel, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Path] = []

    def counted(folder: Path, kind: str) -> object:
        loads.append(folder)
        return load_artifact(folder, kind)

    monkeypatch.setattr("veridical_lab.detectors.local.probe.load_artifact", counted)
    guarded = Guard(f"probe:{probe.path}", options=GuardOptions(sampling=COOL, threshold=1.0))
    texts = [guarded.generate(replace(RACE, id=str(i))).text for i in range(3)]
    assert (texts, len(loads)) == ([WRONG] * 3, 1)


def test_a_probe_of_another_model_monitors(wild: LocalModel, probe: Probe) -> None:
    case = Case("1", "", RACE.sources)
    result = guard(case, probe, wild, sampling=Sampling(max_new_tokens=10, temperature=1.0), threshold=1e-9,
                   budget=TokenBudget(interventions=3))  # fmt: skip
    assert len([d for d in result.interventions if d.action == "backtracked"]) == 3


def test_models_and_templates_come_from_the_detector(model: LocalModel, probe: Probe) -> None:
    one = guard(RACE, f"probe:{probe.path}", sampling=COOL, threshold=1.0)
    assert one.text == WRONG
    two = guard(RACE, f"logprob:{model.name},template=tldr,dtype=fp32", sampling=COOL, threshold=1.0)
    assert two.text == WRONG
    three = guard(RACE, f"probe:{probe.path}", model.name, sampling=COOL, threshold=1.0)
    assert three.text == WRONG
    raw = replace(RACE, prompt=f"{RACE.sources[0].text}\nTL;DR: ")
    assert guard(raw, "overlap", model, sampling=COOL, threshold=1.0, budget=TokenBudget(interventions=0)).text == WRONG


def test_the_same_seed_gives_the_same_text(wild: LocalModel) -> None:
    for strategy in ("backtrack", "suppress", "rerank"):
        made = []
        for seed in (1, 1, 2):
            sampling = Sampling(20, 1.0, seed=seed, temperature_increase=0.5)
            options = GuardOptions(
                strategy, threshold=0.97, template="tldr", sampling=sampling, budget=TokenBudget(retries=1)
            )
            result = guard(RACE, "logprob", wild, options)
            made.append((result.text, result.interventions, result.tokens_drawn))
        assert made[0] == made[1] != made[2]


def test_every_retry_is_warmer(model: LocalModel) -> None:
    generation = Generation(model, prompt_of(model, RACE, "tldr", 60))
    monitor = random_flags(LikelihoodMonitor(), 0, chance=1.0)
    sampling = replace(COOL, temperature_increase=0.25)
    running = loop(generation, monitor, sampling, TokenBudget(interventions=2), strategy="suppress")
    temperatures: list[float] = []
    sample = running.sampler.sample

    def spy(logits: Any, temperature: float) -> list[int]:
        temperatures.append(temperature)
        return sample(logits, temperature)

    running.sampler.sample = spy  # type: ignore[method-assign,assignment]
    running.run()
    assert [temperature for temperature in temperatures if temperature] == [0.25, 0.5]


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
    assert result.forward_passes < result.tokens_drawn / 2, "the texts are sampled together"
    tight = guard(RACE, Words("Peter"), model, template="tldr", strategy="rerank", sampling=sampling, samples=6,
                  budget=TokenBudget(tokens=result.tokens_drawn // 2))  # fmt: skip
    assert tight.tokens_drawn == result.tokens_drawn // 2
    assert "of 6 texts" in tight.reason
    whole = {result.text, *(d.rejected for d in result.interventions)}
    assert {tight.text, *(d.rejected for d in tight.interventions)} <= whole
    beams = guard(RACE, Words("Peter"), model, template="tldr", strategy="rerank", beams=True, samples=3,
                  sampling=COOL, budget=TokenBudget(tokens=31))  # fmt: skip
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
        ({"threshold": 1.5}, InputError, "threshold is 1.5"),
        ({"sampling": Sampling(max_new_tokens=256)}, InputError, "the model reads 256 tokens at once"),
        ({"template": "raw"}, CannotJudgeError, "has no prompt"),
        ({"template": "verse"}, UnknownNameError, "unknown template"),
        ({"detector": "overlapp"}, UnknownNameError, "did you mean overlap"),
        ({"model": None}, InputError, "no model is named to generate, and 'overlap' has none"),
        ({"model": None, "detector": "entropy"}, InputError, "'entropy' has none of its own"),
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
        lambda: Sampling(temperature_increase=-0.1), lambda: Sampling(seed=-1), lambda: TokenBudget(interventions=-1),
        lambda: TokenBudget(retries=-1), lambda: TokenBudget(tokens=-1), lambda: TokenBudget(seconds=float("inf")),
        lambda: Sampling(stop=("\n", "")), lambda: Sampling(stop=cast("Any", "\n")),
    ],
)  # fmt: skip
def test_numbers_out_of_range(make: Any) -> None:
    with pytest.raises(InputError):
        make()
