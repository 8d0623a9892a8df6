"""What was made of texts lately."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from veridical.text.recent import Recent


def test_the_least_recently_used_goes_first() -> None:
    kept: Recent[str, str] = Recent(3)
    calls: list[str] = []

    def get(key: str) -> str:
        return kept.get(key, 1, lambda: calls.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [get(key) for key in "abca"] == ["A", "B", "C", "A"]
    get("d")  # b goes
    assert [get(key) for key in "acdb"] == ["A", "C", "D", "B"]
    assert calls == ["a", "b", "c", "d", "b"]


def test_the_latest_stays_however_large() -> None:
    kept: Recent[str, int] = Recent(10)
    kept.get("small", 4, lambda: 1)
    assert kept.get("large", 1000, lambda: 2) == 2
    assert len(kept) == 1
    assert kept.get("large", 1000, lambda: 3) == 2
    kept.get("small", 4, lambda: 1)
    kept.get("other", 6, lambda: 1)
    assert len(kept) == 2  # the large one is counted out again


def test_so_many_values_stay_however_small() -> None:
    kept: Recent[int, int] = Recent(1000, count=3)
    for i in range(10):
        assert kept.get(i, 1, lambda: i) == i  # noqa: B023 - called at once
    assert len(kept) == 3
    assert [kept.get(i, 1, lambda: -1) for i in (9, 8, 7, 6)] == [9, 8, 7, -1]


def test_threads_share_it() -> None:
    kept: Recent[int, int] = Recent(5)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: kept.get(i % 7, 1, lambda: i % 7), range(2000)))
    assert found == [i % 7 for i in range(2000)]
    assert len(kept) == 5
