"""Money is set aside before it is spent; requests wait their turn, on a clock that moves only when somebody sleeps."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.loopback import FakeTime, ask
from tests.processes import LIMIT
from veridical.llm.budget import Budget, most_tokens
from veridical.llm.protocol import Message, Request
from veridical.llm.rate_limit import retry_after
from veridical.records.errors import InputError
from veridical.records.types import Usage


def test_what_is_on_its_way_is_set_aside() -> None:
    request = ask("x" * 67, max_tokens=1)  # 99 bytes at most, and one token: 100 in all
    assert sum(most_tokens(request)) == 101 - 1
    budget = Budget(prices=(1e4, 1e4), max_cost=2.5)  # a request costs 1 at most
    first, second = budget.reserve(request), budget.reserve(request)
    assert first == second == pytest.approx(1.0)
    third: list[float | None] = []
    waiting = threading.Thread(target=lambda: third.append(budget.reserve(request)), daemon=True)
    waiting.start()
    assert first is not None
    assert second is not None
    budget.settle(first, Usage(1, 20, 0, 0.2))
    waiting.join(LIMIT)
    assert third == [pytest.approx(1.0)]
    assert budget.cost == pytest.approx(0.2)


def test_one_that_waits_in_vain_is_told_so() -> None:
    request = ask("x" * 67, max_tokens=1)
    budget = Budget(prices=(1e4, 1e4), max_cost=1.5)
    first = budget.reserve(request)
    reserved: list[float | None] = []
    waiting = threading.Thread(target=lambda: reserved.append(budget.reserve(request)), daemon=True)
    waiting.start()
    assert first is not None
    budget.settle(first, None)  # nobody knows what it cost: all of it
    waiting.join(LIMIT)
    assert reserved == [None]
    assert budget.cost == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0, 5))
def test_the_limit_holds_whatever_requests_cost(shares: list[float], limit: float) -> None:
    request, budget = ask("x" * 67, max_tokens=1), Budget(prices=(1e4, 1e4), max_cost=limit)
    for share in shares:
        reserved = budget.reserve(request)
        if reserved is None:
            assert budget.cost + 1 > limit - 1e-9
        else:
            budget.settle(reserved, Usage(1, 1, 1, share))
        assert budget.cost <= limit + 1e-9


def test_calls_are_counted() -> None:
    budget = Budget(max_calls=2)
    assert [budget.reserve(ask("x")) for _ in range(3)] == [0.0, 0.0, None]


@pytest.mark.parametrize(
    "limits",
    [{"prices": (-1, 0)}, {"prices": (1, float("nan"))}, {"prices": (1,)}, {"max_cost": 1}, {"max_calls": -1}],
)
def test_unusable_prices_and_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Budget(**limits)


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match="per_minute is 0"):
        FakeTime().rate_limiter(per_minute=0)


def test_usage_adds_up_and_an_unknown_cost_stays_unknown() -> None:
    assert Usage.total([Usage(1, 2, 3, 0.5), None, Usage(1, 2, 3)]) == Usage(2, 4, 6, None)
    assert Usage.total([Usage(1, 2, 3, 0.5), Usage()]) == Usage(1, 2, 3, 0.5)
    assert Usage.total([]) is Usage.total([None]) is None


def test_requests_are_spaced() -> None:
    time = FakeTime()
    limiter = time.rate_limiter(per_minute=120)
    for _ in range(5):
        limiter.wait()
    assert time.slept == [0.5] * 4


def test_one_that_is_told_to_wait_holds_all() -> None:
    time = FakeTime()
    limiter = time.rate_limiter()
    assert limiter.back_off(0, 30.0, all_wait=True)
    assert not time.slept
    limiter.wait()
    assert time.time == 30.0


def test_waits_grow_to_a_bound() -> None:
    time = FakeTime()
    limiter = time.rate_limiter(base_wait=1.0, max_wait=5.0)
    for n in range(5):
        limiter.back_off(n, None, all_wait=False)
    assert time.slept == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=lambda: 1445412480.0) == seconds


def test_requests_are_checked() -> None:
    for wrong in ({"temperature": -1}, {"max_tokens": 0}, {"top_logprobs": 21}, {"temperature": float("nan")}):
        with pytest.raises(InputError):
            ask("x", **wrong)
    with pytest.raises(InputError):
        Request(())
    with pytest.raises(InputError, match="'robot'"):
        Message("robot", "x")
