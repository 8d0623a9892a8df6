import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.records.errors import InputError, UnknownNameError
from veridical_lab.models.probe_heads import (
    OBJECTIVES,
    PROBE_KINDS,
    Probes,
    StreamingProbes,
    from_tensors,
    running_mean,
    score_prefixes,
    sigmoid,
)


def probes(kind: str, objective: str, count: int = 3, width: int = 5, scale: float = 1.0, mix: bool = True) -> Probes:
    random = np.random.default_rng(0)
    k = {"linear": 1, "pooling": 2, "mlp": 4}[kind]
    made = {"projection": random.normal(size=(count, k, width)) * scale, "offset": random.normal(size=(count, k))}
    if kind == "mlp":
        made |= {"output": random.normal(size=(count, k)), "bias": random.normal(size=count)}
    if mix:
        made["mix"] = random.normal(size=count)
    return from_tensors(kind, objective, tuple(range(0, 2 * count, 2)), made, mix_bias=0.3)


def states(count: int = 3, tokens: int = 9, width: int = 5) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, tokens, width))


def test_a_linear_probe_is_a_logistic_regression() -> None:
    probe, h = probes("linear", "token"), states()
    expected = 1 / (1 + np.exp(-(h @ probe.projection[:, 0, :, None])[..., 0] - probe.offset))
    np.testing.assert_allclose(probe.scores_each(h), expected)


def test_attention_pooling_as_the_paper_writes_it() -> None:
    probe, h = probes("pooling", "token"), states()
    for p in range(3):
        w, q = probe.projection[p]
        for i in range(h.shape[1]):
            alpha = np.exp(h[p, : i + 1] @ q)
            pooled = (alpha[:, None] * h[p, : i + 1]).sum(0) / alpha.sum()
            expected = sigmoid(pooled @ w + probe.offset[p, 0])
            assert probe.scores_each(h)[p, i] == pytest.approx(expected, abs=1e-12)


def test_a_response_level_linear_probe_judges_the_mean_state() -> None:
    probe, h = probes("linear", "response"), states()
    means = np.cumsum(h, 1) / np.arange(1, 10)[None, :, None]
    token = from_tensors("linear", "token", probe.sublayers, {k: v for k, v in probe.tensors().items() if k != "mix"})
    np.testing.assert_allclose(probe.scores_each(h), token.scores_each(means))


def test_an_mlp_by_hand() -> None:
    probe, h = probes("mlp", "token"), states()
    inner = np.maximum(h[1] @ probe.projection[1].T + probe.offset[1], 0)
    np.testing.assert_allclose(probe.scores_each(h)[1], sigmoid(inner @ probe.output[1] + probe.bias[1]))


def test_the_ensemble_mixes_probabilities() -> None:
    probe, h = probes("pooling", "token"), states()
    each = probe.scores_each(h)
    by_sublayer = {s: h[i] for i, s in enumerate(probe.sublayers)}
    np.testing.assert_allclose(score_prefixes(probe, by_sublayer), sigmoid(probe.mix @ each + 0.3))
    single = probe.only(2)
    assert single.sublayers == (2,)
    np.testing.assert_allclose(score_prefixes(single, by_sublayer), each[1])


@pytest.mark.parametrize("kind", PROBE_KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_live_equals_offline(kind: str, objective: str, scale: float) -> None:
    probe, h = probes(kind, objective, scale=scale), states(tokens=40)
    offline = probe.combine(probe.scores_each(h))
    live = StreamingProbes(probe, batch=2)
    for t in range(40):
        found = live.step(probe.project(np.stack([h[:, t], h[:, 39 - t]], 1)))
        assert found[0] == pytest.approx(offline[t], abs=1e-9)
    backwards = probe.combine(probe.scores_each(h[:, ::-1]))
    assert found[1] == pytest.approx(backwards[-1], abs=1e-9)


def test_the_live_state_does_not_grow() -> None:
    live = StreamingProbes(probes("pooling", "token"))
    sizes = set()
    for _ in range(5):
        live.step(live.probes.project(np.ones((3, 1, 5))))
        sizes.add(sum(a.size for a in (live._total, live._mean) if a is not None))
    assert sizes == {6}


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e3, 1e3)), min_size=1, max_size=30))
@settings(deadline=None)
def test_running_means_lie_between_their_values(pairs: list[tuple[float, float]]) -> None:
    attention, values = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found = running_mean(attention, values[:, None])[:, 0]
    slack = 1e-9 * max(1.0, np.abs(values).max())
    for i, mean in enumerate(found):
        assert values[: i + 1].min() - slack <= mean <= values[: i + 1].max() + slack
    exact = [np.average(values[: i + 1], weights=np.exp(attention[: i + 1] - attention[: i + 1].max()))
             for i in range(len(values))]  # fmt: skip
    np.testing.assert_allclose(found, exact, atol=1e-6 * max(1.0, np.abs(values).max()))


def test_no_tokens() -> None:
    assert probes("pooling", "token").scores_each(np.zeros((3, 0, 5))).shape == (3, 0)


def test_arrays_that_do_not_fit() -> None:
    good = probes("linear", "token").tensors()
    with pytest.raises(InputError, match="do not fit together"):
        from_tensors("pooling", "token", (0, 2, 4), good)
    with pytest.raises(InputError, match="do not fit together"):
        from_tensors("linear", "token", (0, 2), good)
    with pytest.raises(InputError, match="lack"):
        from_tensors("linear", "token", (0, 2, 4), {})
    with pytest.raises(UnknownNameError, match="kind of probe"):
        from_tensors("lineal", "token", (0, 2, 4), good)
    with pytest.raises(UnknownNameError, match="objective of probe"):
        from_tensors("linear", "word", (0, 2, 4), good)
