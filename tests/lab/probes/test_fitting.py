from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn import linear_model

from veridical.records.errors import InputError, UnknownNameError
from veridical_lab.models.probe_heads import OBJECTIVES, PROBE_KINDS, sigmoid
from veridical_lab.probes import fitting as module
from veridical_lab.probes.activations import ActivationStates, Indices, in_memory, mean_states
from veridical_lab.probes.fitting import fit, scores_of
from veridical_lab.probes.labelled_sequences import ProbeLabels
from veridical_lab.probes.options import ProbeOptions

SUBLAYERS, WIDTH, COUNT = 3, 8, 80
TRAIN, VALID = np.arange(60), np.arange(60, 80)
Data = tuple[ActivationStates, ProbeLabels]


@pytest.fixture(scope="module")
def data() -> Data:
    """States of different scales and middles; labels that sublayer 1 shows best."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 12, COUNT)
    total = int(lengths.sum())
    plain = random.normal(size=(SUBLAYERS, total, WIDTH))
    logits = plain[1] @ random.normal(size=WIDTH) - 1.0  # more are clean than not
    tokens = (random.random(total) < sigmoid(logits)).astype(np.float32)
    states = plain * random.uniform(0.2, 5, (SUBLAYERS, 1, WIDTH)) + random.normal(size=(SUBLAYERS, 1, WIDTH)) * 3
    split = np.split(tokens, np.cumsum(lengths)[:-1])
    responses = np.array([part.mean() > 0.3 for part in split], dtype=np.float32)
    labels = ProbeLabels(split, [np.ones_like(p) for p in split], responses, np.ones(COUNT, dtype=np.float32))
    return in_memory(states.astype(np.float32), lengths, range(SUBLAYERS)), labels


class Grouped:
    """The same states, in several groups."""

    def __init__(self, states: ActivationStates, groups: int) -> None:
        self.states = states
        self.sublayers, self.width, self.lengths = states.sublayers, states.width, states.lengths
        self.groups = np.array_split(np.arange(COUNT), groups)
        self.most = self.reads = 0

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        assert any(set(sequences.tolist()) <= set(g.tolist()) for g in self.groups)
        made = self.states.read(sequences, sublayers)
        self.reads += 1
        self.most = max(self.most, made.shape[1])
        return made


@pytest.mark.parametrize("kind", PROBE_KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("groups", [1, 4])
def test_together_equals_alone(data: Data, kind: str, objective: str, groups: int) -> None:
    states: ActivationStates = Grouped(data[0], groups) if groups > 1 else data[0]
    options = ProbeOptions(kind, objective, learning_rates=(0.1, 0.01), batch_sizes=(20,), max_epochs=20, patience=3)
    together = fit(states, data[1], TRAIN, VALID, options)
    if (kind, objective, groups) == ("linear", "token", 1):
        assert len(set(together.epochs.tolist())) > 1, "sublayers stop at different times"
    for s in range(SUBLAYERS):
        alone = fit(states, data[1], TRAIN, VALID, options, sublayers=[s])
        assert alone.loss[0] == pytest.approx(together.loss[s], abs=1e-4)
        assert (alone.epochs[0], alone.learning_rate[0]) == (together.epochs[s], together.learning_rate[s])
        for name, array in alone.probes.tensors().items():
            np.testing.assert_allclose(array[0], together.probes.tensors()[name][s], atol=1e-4)


def test_the_grid_equals_each_of_it_alone(data: Data) -> None:
    grid = ProbeOptions("pooling", learning_rates=(0.1, 0.01), batch_sizes=(10, 30), max_epochs=8, seed=3)
    best = fit(*data, TRAIN, VALID, grid).loss
    losses = [
        fit(*data, TRAIN, VALID, ProbeOptions("pooling", "token", (rate,), (size,), max_epochs=8, seed=3)).loss
        for rate in (0.1, 0.01)
        for size in (10, 30)
    ]
    np.testing.assert_allclose(np.min(losses, 0), best, atol=1e-5)


@pytest.mark.parametrize("balanced", [False, True])
def test_a_linear_probe_at_its_optimum_is_a_logistic_regression(data: Data, balanced: bool) -> None:
    states, labels = data
    options = ProbeOptions("linear", "token", (0.03,), (1000,), patience=10**6, max_epochs=1500, balanced=balanced)
    found = fit(states, labels, TRAIN, TRAIN, options)
    y = np.concatenate([labels.tokens[i] for i in TRAIN])
    for s in range(SUBLAYERS):
        x = states.read(TRAIN, [s])[0].double().numpy()
        x = (x - x.mean(0)) / x.std(0)  # the optimum is the same, and easier to find for the oracle
        oracle = linear_model.LogisticRegression(
            C=np.inf, tol=1e-10, max_iter=5000, class_weight="balanced" if balanced else None
        ).fit(x, y)
        expected = oracle.predict_proba(x)[:, 1]
        mine = np.concatenate([each[s] for each in scores_of(states, TRAIN, found.probes).values()])
        np.testing.assert_allclose(mine, expected, atol=1e-3)


@pytest.mark.parametrize("kind", PROBE_KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_loss_is_that_of_the_scores(data: Data, kind: str, objective: str) -> None:
    """So that what is trained is what is detected with."""
    states, labels = data
    options = ProbeOptions(kind, objective, (0.05,), (20,), max_epochs=5)
    found = fit(states, labels, TRAIN, VALID, options)
    scores = scores_of(states, VALID, found.probes)
    whole = objective == "response"
    gold = [labels.responses[[i]] if whole else labels.tokens[i] for i in VALID]
    p, y = np.concatenate([scores[i] for i in VALID], 1), np.concatenate(gold)
    loss = -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean(1)
    np.testing.assert_allclose(loss, found.loss, atol=1e-5)


def test_the_right_sublayer_learns(data: Data) -> None:
    found = fit(*data, TRAIN, VALID, ProbeOptions("linear", batch_sizes=(20,)))
    assert found.loss.argmin() == 1
    assert found.loss[1] < 0.55


def test_what_is_not_labelled_counts_for_nothing(data: Data) -> None:
    states, labels = data
    options = ProbeOptions("linear", learning_rates=(0.01,), batch_sizes=(20,), max_epochs=3)
    weights = [np.where(np.arange(len(w)) % 2, w, 0).astype(np.float32) for w in labels.token_weights]
    flipped = [np.where(w > 0, t, 1 - t) for t, w in zip(labels.tokens, weights, strict=True)]
    one, other = (
        fit(states, ProbeLabels(t, weights, labels.responses, labels.response_weights), TRAIN, VALID, options)
        for t in (labels.tokens, flipped)
    )
    np.testing.assert_array_equal(one.probes.projection, other.probes.projection)
    assert not np.array_equal(one.probes.projection, fit(*data, TRAIN, VALID, options).probes.projection)


def test_groups_bound_what_is_read_at_once(data: Data) -> None:
    grouped = Grouped(data[0], 8)
    fit(grouped, data[1], TRAIN, VALID, ProbeOptions("pooling", max_epochs=2))
    assert 0 < grouped.most <= max(data[0].lengths[g].sum() for g in grouped.groups)


def test_mean_states(data: Data) -> None:
    grouped, asked = Grouped(data[0], 8), np.array([70, 3, 41, 4])
    means = mean_states(grouped, asked, (0, 2))
    assert (means.sublayers, means.width, len(means.groups)) == ((0, 2), WIDTH, 1)
    assert means.lengths.tolist() == [int(i in asked) for i in range(COUNT)]
    found = means.read(asked, (2,))
    for i, mean in zip(asked, found[0], strict=True):
        torch.testing.assert_close(mean, data[0].read(np.array([i]), (2,))[0].mean(0))
    everyone = mean_states(data[0], np.arange(COUNT), (1,)).read(np.arange(COUNT), (1,))  # more than are read at once
    torch.testing.assert_close(everyone[0, -1], data[0].read(np.array([COUNT - 1]), (1,))[0].mean(0))
    many = Grouped(data[0], COUNT)
    assert mean_states(many, np.arange(COUNT), (0, 2)) is many, "a mean per response may be too many for the memory"


def test_a_linear_probe_by_response_is_trained_on_mean_states(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ProbeOptions("linear", objective="response", max_epochs=5)
    grouped = Grouped(data[0], 4)
    fit(grouped, data[1], TRAIN, VALID, options)
    assert grouped.reads == 3 + 4, "once to standardise, once for the means, whatever the number of epochs"
    fitted = fit(*data, TRAIN, VALID, options)
    monkeypatch.setattr(module, "mean_states", lambda states, sequences, sublayers: states)
    expected = fit(*data, TRAIN, VALID, options)
    np.testing.assert_allclose(fitted.loss, expected.loss, atol=1e-6)
    np.testing.assert_allclose(fitted.probes.projection, expected.probes.projection, atol=1e-5)


def test_the_same_seed_the_same_numbers(data: Data) -> None:
    options = ProbeOptions("mlp", max_epochs=4, seed=5)
    one, other = (fit(*data, TRAIN, VALID, options).probes.projection for _ in range(2))
    np.testing.assert_array_equal(one, other)
    third = fit(*data, TRAIN, VALID, ProbeOptions("mlp", max_epochs=4, seed=6)).probes.projection
    assert not np.array_equal(one, third)


def test_attention_far_apart_is_still_finite(data: Data) -> None:
    states, labels = data
    options = ProbeOptions("pooling", "token", (50.0,), (20,), max_epochs=6)
    assert np.isfinite(fit(states, labels, TRAIN, VALID, options).probes.projection).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_labels_of_one_class_are_refused(data: Data, objective: str) -> None:
    states, labels = data
    clean = ProbeLabels(
        [np.zeros_like(t) for t in labels.tokens], labels.token_weights, 0 * labels.responses, labels.response_weights
    )
    with pytest.raises(InputError, match=f"training part has only clean ones by {objective}"):
        fit(states, clean, TRAIN, VALID, ProbeOptions(objective=objective))
    with pytest.raises(InputError, match="validation part has no labels"):
        fit(states, labels, TRAIN, VALID[:0], ProbeOptions(objective=objective))


def test_activations_that_are_not_finite_are_refused(data: Data) -> None:
    states, labels = data
    broken = states.read(np.arange(COUNT), range(SUBLAYERS))
    broken[2, 5, 1] = float("nan")
    with pytest.raises(InputError, match="not finite"):
        in_memory(broken, states.lengths, range(SUBLAYERS))
    grouped = Grouped(states, 2)
    grouped.states = type("Broken", (), {"read": lambda self, i, s: states.read(i, s) * float("inf")})()
    with pytest.raises(InputError, match="not finite"):
        fit(grouped, labels, TRAIN, VALID, ProbeOptions(max_epochs=1))


def test_one_step_by_hand(data: Data) -> None:
    """Adam's first step is the rate times the gradient's sign, in standardised states, from the base rate on."""
    states, labels = data
    found = fit(states, labels, TRAIN, VALID, ProbeOptions("linear", "token", (0.01,), (1000,), max_epochs=1))
    y = np.concatenate([labels.tokens[i] for i in TRAIN])
    for s in range(SUBLAYERS):
        x = states.read(TRAIN, [s])[0].double().numpy()
        z = (x - x.mean(0)) / x.std(0)
        gradient = z.T @ (y.mean() - y) / len(y)
        expected = -0.01 * np.sign(gradient) / x.std(0)
        np.testing.assert_allclose(found.probes.projection[s, 0], expected, rtol=1e-3)


def test_a_probe_out_of_patience_is_not_taken_up_again(data: Data) -> None:
    """Though others of its sublayer train on, and its loss falls below its best once more."""
    curves = {0.5: [3.0, 1.0, 2.0, 2.0, 0.1, 0.1], 0.01: [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]}
    losses = iter(zip(*curves.values(), strict=True))

    def scripted(run: module._Run, valid: Indices, epoch: int) -> None:
        original = module.losses_of
        both = torch.tensor(next(losses)) * float(len(np.concatenate([data[1].tokens[i] for i in VALID])))
        module.losses_of = lambda logits, items: both  # type: ignore[assignment]
        validate(run, valid, epoch)
        module.losses_of = original

    validate = module._Run._validate
    module._Run._validate = scripted  # type: ignore[method-assign]
    try:
        options = ProbeOptions("linear", "token", tuple(curves), (1000,), patience=2, max_epochs=6)
        found = fit(*data, TRAIN, VALID, options, sublayers=[0])
    finally:
        module._Run._validate = validate  # type: ignore[method-assign]
    assert (found.learning_rate[0], found.epochs[0], round(found.loss[0], 6)) == (0.5, 2, 1.0)


def test_options_that_make_no_sense() -> None:
    with pytest.raises(UnknownNameError, match="kind of probe"):
        ProbeOptions("linaer")
    with pytest.raises(UnknownNameError, match="objective of probe"):
        ProbeOptions("linear", "word")
    for wrong in ({"learning_rates": ()}, {"batch_sizes": (0,)}, {"learning_rates": (-1.0,)}, {"patience": 0}):
        with pytest.raises(InputError, match="cannot be trained with"):
            ProbeOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="states of shape"):
        in_memory(np.zeros((2, 3, 4)), [2], [0, 1])
