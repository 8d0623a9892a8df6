import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import DataError, InputError
from veridical_lab.detectors.features.statistics import WordStatistics, count_words

TEXTS = ["a b c", "a b a b", "c d"]
WORDS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12).map(" ".join)


def test_documents_are_counted_once() -> None:
    counted = count_words(TEXTS, min_pairs=1)
    assert counted.documents == 3
    assert dict(zip(counted.words, counted.document_counts.tolist(), strict=True)) == {"a": 2, "b": 2, "c": 2, "d": 1}
    values = counted.idf(counted.numbers(["d", "a", "unknown"])).tolist()
    assert values == pytest.approx([math.log10(3 / 2), 0.0, math.log10(3)])


@given(st.lists(WORDS, min_size=1, max_size=4), st.integers(1, 3))
def test_ppmi_is_its_definition(texts: list[str], window: int) -> None:
    """Against a plain count over a symmetric matrix of pairs."""
    counted = count_words(texts, window=window, min_pairs=1)
    size = len(counted.words)
    matrix = np.zeros((size, size))
    for text in texts:
        row = counted.numbers(text.split())
        for i in range(len(row)):
            for j in range(i + 1, min(len(row), i + window + 1)):
                matrix[row[i], row[j]] += 1
                matrix[row[j], row[i]] += 1
    total, marginal = matrix.sum(), matrix.sum(axis=0)
    numbers = np.arange(size)
    found = counted.ppmi(numbers[:, None], numbers[None, :])
    for i in range(size):
        for j in range(size):
            ratio = matrix[i, j] * total / (marginal[i] * marginal[j]) if matrix[i, j] else 1.0
            assert found[i, j] == pytest.approx(max(0.0, math.log(ratio)), abs=1e-9)


def test_rare_words_and_pairs_are_left_out() -> None:
    counted = count_words(["a b", "a b", "a c"], window=1, max_words=2, min_pairs=2)
    assert counted.words == ("a", "b")
    assert counted.pair_counts.tolist() == [2]
    assert counted.ppmi(np.array([-1, 0]), np.array([0, -1])).tolist() == [0.0, 0.0]


def test_there_and_back(tmp_path: Path) -> None:
    counted = count_words(TEXTS, min_pairs=1)
    counted.save(tmp_path / "words.npz")
    found = WordStatistics.load(tmp_path / "words.npz")
    assert found.words == counted.words
    assert (found.documents, found.window) == (3, 5)
    for name, array in counted.arrays().items():
        assert (found.arrays()[name] == array).all(), name


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no word"):
        count_words(["…", ""])
    with pytest.raises(InputError, match="window is 0"):
        count_words(TEXTS, window=0)
    path = tmp_path / "words.npz"
    with pytest.raises(DataError, match="no such file"):
        WordStatistics.load(path)
    path.write_bytes(b"not an archive")
    with pytest.raises(DataError, match=r"word statistics.*veridical data statistics"):
        WordStatistics.load(path)
    arrays = count_words(TEXTS, min_pairs=1).arrays()
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if name != "totals"})
    with pytest.raises(DataError, match="totals"):
        WordStatistics.load(path)
    with path.open("wb") as file:
        np.savez(file, **{**arrays, "pair_counts": arrays["pair_counts"][:-1]})
    with pytest.raises(DataError, match="do not fit together"):
        WordStatistics.load(path)


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    with path.open("wb") as file:
        np.savez(file, words=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="word statistics"):
        WordStatistics.load(path)
