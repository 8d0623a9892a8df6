"""How fast word overlap is: against the rouge-score package on real pairs, and on one source of a million words.

    python benchmarks/overlap_speed.py ../shared/data

Needs the dev extra (rouge-score). Prints one JSON row a measurement; each of the million-word ones runs
in a process of its own, so that the peak of memory is its own.
"""

from __future__ import annotations

import hashlib
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from running import emit

from veridical.detectors.overlap.detector import WORDS, Overlap, precision_recall
from veridical.records.types import Case, Source

SYSTEMS = ("BERTS2S", "Gold", "PtGen", "TConvS2S", "TranS2S")


def xsum_pairs(root: Path) -> tuple[list[tuple[str, str]], str]:
    """The (summary, article) pairs of all systems, and the hash of the files they come from."""
    pairs, digest = [], hashlib.sha256()
    for system in SYSTEMS:
        texts = []
        for kind in ("target", "source"):
            raw = (root / "xsum_token" / system / f"{system}.{kind}").read_bytes()
            digest.update(raw)
            texts.append(raw.decode("utf-8").split("\n"))
        pairs += [(t, s) for t, s in zip(*texts, strict=True) if t]
    return pairs, digest.hexdigest()[:16]


def row(name: str, **figures: object) -> None:
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    emit({"benchmark": name, **figures, "peak_rss_mb": peak})


def against_rouge_score(root: Path) -> None:
    """All pairs; the least time of three rounds in which everything is measured in turn; the first of ours is cold.

    "judge" gives every word its verdict and place, too; "judge, must cover" also every omission; "precision_recall"
    gives what rouge-score gives.
    """
    from rouge_score.rouge_scorer import RougeScorer

    pairs, digest = xsum_pairs(root)
    loose = [Case(str(i), summary, (Source("a", article),)) for i, (summary, article) in enumerate(pairs)]
    strict = [Case(c.id, c.response, (Source("a", c.sources[0].text, None, True),)) for c in loose]
    jobs: dict[str, Callable[[], object]] = {}
    for words in WORDS:
        detector = Overlap(words=words)
        jobs[f"{words}: judge"] = partial(detector.judge, loose)
        jobs[f"{words}: judge, one call a pair"] = partial(one_by_one, detector, loose)
        jobs[f"{words}: judge, must cover"] = partial(detector.judge, strict)
        jobs[f"{words}: precision_recall"] = partial(score_all, partial(precision_recall, words=words), pairs)
    for stemmed in (True, False):
        scorer = RougeScorer(["rouge1"], use_stemmer=stemmed)
        jobs[f"rouge-score, use_stemmer={stemmed}"] = partial(rouge_all, scorer, pairs)
    rounds = [{name: timed(job) for name, job in jobs.items()} for _ in range(3)]
    least = {name: min(r[name] for r in rounds) for name in jobs}
    stemmed, plain = least["rouge-score, use_stemmer=True"], least["rouge-score, use_stemmer=False"]
    for name, seconds in least.items():
        row(
            "1,515 pairs of xsum_token",
            what=name,
            pairs=len(pairs),
            seconds=round(seconds, 3),
            first_round_seconds=round(rounds[0][name], 3),
            times_faster_than_rouge_score_stemmed=round(stemmed / seconds, 1),
            times_faster_than_rouge_score_plain=round(plain / seconds, 1),
            data=digest,
        )


def one_by_one(detector: Overlap, cases: list[Case]) -> None:
    for case in cases:
        detector.judge([case])


def score_all(score: Callable[..., object], pairs: list[tuple[str, str]]) -> None:
    for summary, article in pairs:
        score(summary, [article])


def rouge_all(scorer: Any, pairs: list[tuple[str, str]]) -> None:
    for summary, article in pairs:
        scorer.score(article, summary)


def short_pair() -> None:
    case = Case("1", "The tower is 300 m tall.", (Source("1", "The tower, built in 1889, is 330 m tall."),))
    for words in WORDS:
        detector = Overlap(words=words)
        detector.judge([case])
        best = min(timed(partial(one_by_one, detector, [case] * 1000)) for _ in range(5))
        row("overlap of one short pair, warm", words=words, microseconds=round(best * 1000, 1))


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def million_words(root: Path, words: str, must_cover: bool) -> None:
    """One real text of a million words as the one source of one short response."""
    text = (root / "wikipedia" / "articles.txt").read_text(encoding="utf-8")
    ends = [m.end() for m in re.finditer(r"\S+", text)][:1_000_000]
    text = text[: ends[-1]]
    case = Case(
        "1", "The largest city of the region had 12,000 people in May 1950.", (Source("1", text, None, must_cover),)
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    judgement = Overlap(words=words).judge([case])[0]
    row(
        "overlap with one source of a million words",
        words=words,
        must_cover=must_cover,
        source_words=len(ends),
        seconds=round(time.perf_counter() - start, 3),
        omissions=len(judgement.omissions),
        peak_rss_mb_before=round(before / 1024),
        data=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def main(root: Path, job: str | None = None) -> None:
    if job:
        words, _, cover = job.partition("/")
        million_words(root, words, cover == "cover")
        return
    for words in ("content", "values"):
        for cover in ("", "/cover"):
            subprocess.run([sys.executable, __file__, str(root), words + cover], check=True)
    short_pair()
    against_rouge_score(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
