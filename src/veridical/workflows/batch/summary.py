"""Summarise a batch: proportions of flagged rows, in total and by group, with confidence intervals, and the worst rows.

The files of the batch are read line by line.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from veridical.io.jsonl import read_json
from veridical.io.serialization import TAG, decode, read_documents
from veridical.metrics.measure import Measured
from veridical.metrics.significance import wilson_interval
from veridical.records.types import Checked, Outcome
from veridical.workflows.batch.folder import FAILED
from veridical.workflows.batch.records import BatchManifest, FailedRow, JudgedRow, JudgedShard

BINS = 20
MAX_GROUPS = 1000
MAX_IDS = 10_000_000  # 8 bytes each
WORST = 10
_FAILURES = 10


@dataclass(frozen=True, slots=True)
class GroupShares:
    """Summary of one group of rows, such as all answers of one system, or of all rows together.

    Attributes:
        group: The group's name. None for all rows together.
        rows: The number of judged rows.
        flagged: The number of rows with the outcome "flagged", for the response or for its coverage.
        unjudged: The number of rows that could not be judged completely.
        hallucinated: Of the rows whose response was judged, the proportion with a flagged response.
        omitted: Of the rows whose coverage was judged, the proportion with a flagged omission.
        mean_hallucination: The mean score of whole responses. None if no row has such a score.
        mean_omission: The mean score for what responses omit. None if no row has such a score.
        no_claim: The number of rows whose response makes no claim.
    """

    group: str | None
    rows: int
    flagged: int
    unjudged: int
    hallucinated: Measured | None
    omitted: Measured | None
    mean_hallucination: float | None
    mean_omission: float | None
    no_claim: int = 0


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A flagged row with one of the highest scores, which a report shows in full.

    Attributes:
        scores: The scores of the row.
        file: The name of the file in the folder of results that contains the row's result.
        line: The line of the result in this file, from 1.
    """

    scores: JudgedRow
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The summary of a finished batch, as stored in `report.json`.

    Attributes:
        inputs: The input files.
        detectors: The names of the detectors.
        rows: The number of input rows, including rows that failed.
        failed: The number of rows that could not be read or judged.
        total: The summary of all judged rows.
        groups: The summary of each group, largest groups first.
        other_groups: The number of judged rows whose group is not in `groups`, which has at most `MAX_GROUPS` groups.
        scores: A histogram of the scores of whole responses: their number in each twentieth of [0, 1].
        omission_scores: A histogram of the omission scores: their number in each twentieth of [0, 1].
        worst: The flagged rows with the highest hallucination scores.
        worst_omitted: The flagged rows with the highest omission scores.
        failures: The first rows that failed, without their content.
        repeated_ids: The number of judged rows with the id of an earlier row. None if there are too many rows to count.
        kinds: The number of rows with each kind of error, such as "value" or "name", most frequent first.
        level: The confidence level of the intervals (Wilson 1927), which assume that rows are independent.
    """

    inputs: tuple[str, ...]
    detectors: tuple[str, ...]
    rows: int
    failed: int
    total: GroupShares
    groups: tuple[GroupShares, ...]
    other_groups: int
    scores: tuple[int, ...]
    omission_scores: tuple[int, ...]
    worst: tuple[WorstRow, ...]
    worst_omitted: tuple[WorstRow, ...]
    failures: tuple[FailedRow, ...]
    repeated_ids: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    level: float = 0.95


class _Sums:
    """Counts rows by outcome, and adds up each score and flag over the rows that have it."""

    def __init__(self) -> None:
        self.rows = 0
        self.outcomes = Counter[str]()
        self.totals = defaultdict[str, float](float)
        self.numbers = Counter[str]()

    def add(self, row: dict[str, Any]) -> None:
        self.rows += 1
        self.outcomes[row["outcome"]] += 1
        for name in ("hallucinated", "omitted", "hallucination", "omission"):
            if (value := row.get(name)) is not None:
                self.totals[name] += value
                self.numbers[name] += 1

    def mean(self, name: str) -> float | None:
        return self.totals[name] / self.numbers[name] if self.numbers[name] else None

    def proportion(self, name: str) -> Measured | None:
        count, n = self.totals[name], self.numbers[name]
        return Measured(count / n, *wilson_interval(count, n), n) if n else None

    def shares(self, group: str | None) -> GroupShares:
        return GroupShares(
            group=group,
            rows=self.rows,
            flagged=self.outcomes[Outcome.FLAGGED.value],
            unjudged=self.outcomes[Outcome.UNJUDGED.value],
            hallucinated=self.proportion("hallucinated"),
            omitted=self.proportion("omitted"),
            mean_hallucination=self.mean("hallucination"),
            mean_omission=self.mean("omission"),
            no_claim=self.outcomes[Outcome.NO_CLAIM.value],
        )


def summarise(folder: Path, manifest: BatchManifest, shards: Sequence[JudgedShard]) -> BatchReport:
    """Summarise a finished batch from the score files of its shards in `folder`.

    Memory grows with the number of groups, up to a thousand, and with the number of ids, up to ten million of 8 bytes
    each.
    """
    total = _Sums()
    groups: dict[str, _Sums] = {}
    other_groups = 0
    bins = {"hallucination": Counter[int](), "omission": Counter[int]()}
    worst: dict[str, list[tuple[tuple[float, int, int], WorstRow]]] = {"hallucination": [], "omission": []}
    ids = array("q")
    kinds = Counter[str]()
    for file, line, row in _scored(folder, shards):
        total.add(row)
        if total.rows <= MAX_IDS:
            ids.append(hash(row["id"]))
        row["kinds"] = tuple(row.get("kinds", ()))
        kinds.update(row["kinds"])
        group = row.get("group")
        if group is not None:
            if group in groups or len(groups) < MAX_GROUPS:
                groups.setdefault(group, _Sums()).add(row)
            else:
                other_groups += 1
        for name, flagged, spans in (("hallucination", "hallucinated", "flagged"), ("omission", "omitted", "left_out")):
            score = row.get(name)
            if score is None:
                continue
            bins[name][min(int(score * BINS), BINS - 1)] += 1
            key = (score, row.get(spans, 0), -row["row"])
            if row.get(flagged) and (len(worst[name]) < WORST or key > worst[name][0][0]):
                scores = JudgedRow(**{**row, "outcome": Outcome(row["outcome"])})
                entry = (key, WorstRow(scores, file, line))
                (heapq.heappush if len(worst[name]) < WORST else heapq.heapreplace)(worst[name], entry)
    by_size = sorted(groups.items(), key=lambda item: (-item[1].rows, item[0]))
    failures = islice(read_documents(folder / FAILED, "failed_row"), _FAILURES)
    return BatchReport(
        inputs=tuple(file.path for file in manifest.inputs),
        detectors=tuple(detector.name for detector in manifest.detectors),
        rows=sum(shard.rows for shard in shards),
        failed=sum(shard.failed for shard in shards),
        total=total.shares(None),
        groups=tuple(sums.shares(name) for name, sums in by_size),
        other_groups=other_groups,
        scores=tuple(bins["hallucination"][i] for i in range(BINS)),
        omission_scores=tuple(bins["omission"][i] for i in range(BINS)),
        worst=tuple(row for _, row in sorted(worst["hallucination"], key=lambda e: e[0], reverse=True)),
        worst_omitted=tuple(row for _, row in sorted(worst["omission"], key=lambda e: e[0], reverse=True)),
        failures=tuple(replace(failure, content=None) for _, failure in failures),
        repeated_ids=total.rows - len(np.unique(np.asarray(ids))) if total.rows <= MAX_IDS else None,
        kinds=dict(kinds.most_common()),
    )


def _scored(folder: Path, shards: Sequence[JudgedShard]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield for each judged row its result file, its line in this file, and its scores. The files are not validated."""
    for shard in shards:
        for line, value in read_json(folder / shard.scores):
            assert isinstance(value, dict)
            value.pop(TAG)
            yield shard.results, line.number, value


def worst_cases(folder: Path, rows: Sequence[WorstRow]) -> list[Checked]:
    """Load the full results of some rows of a batch from its folder, in the order of `rows`."""
    places = {(row.file, row.line) for row in rows}
    documents: dict[tuple[str, int], Checked] = {}
    for name in sorted({file for file, _ in places}):
        with (folder / name).open(encoding="utf-8", newline="\n") as lines:
            for number, text in enumerate(lines, 1):
                if (name, number) in places:
                    documents[name, number] = decode(text, "check")
    return [documents[row.file, row.line] for row in rows]
