"""Basketball reports by neural models, in which people marked the wrong words (Thomson and Reiter 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.io.files import read_text
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.marks import tokens
from veridical_lab.datasets.reading import csv_rows, group
from veridical_lab.datasets.tables import linearise

INFO = Info(
    name="rotowire_errors",
    title="Rotowire reports with marked errors (accuracy shared task)",
    licence="CC0 1.0",
    citation="Thomson and Reiter 2020, A Gold Standard Methodology for Evaluating Accuracy in Data-To-Text Systems",
    levels=(Level.RESPONSE, Level.SPAN),
    unit="token",
    splits=("train", "test"),
    document="the game",
    notes=(
        "The source is the box score, one line per team and player. Spans are labelled NUMBER, NAME, WORD, CONTEXT, "
        "NOT_CHECKABLE or OTHER, most with a correction. Every report has errors; some facts are not in the box score."
    ),
)
_FILES = {"train": "gsml.csv", "test": "test_set/gsml.csv"}
_TYPES = ("NUMBER", "NAME", "WORD", "CONTEXT", "NOT_CHECKABLE", "OTHER")


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the reports of both splits, or of one. A split is a folder with gsml.csv, shared_task.jsonl and texts/."""
    for part, file in split_files(INFO, path, split, _FILES):
        errors: dict[str, list[Row]] = {}
        for row in csv_rows(file):  # no `on_bad`: a report without one of its marks would be wrong
            errors.setdefault(row.text("TEXT_ID").removesuffix(".txt"), []).append(row)
        games = jsonl_rows(file.with_name("shared_task.jsonl"), on_bad)
        yield from read_rows(games, partial(_report, part, file.with_name("texts"), errors), on_bad)


def _report(part: str, texts: Path, errors: Mapping[str, list[Row]], game: Row) -> list[Example]:
    name = game.text("shared_task_text_id")
    if name not in errors or "/" in name:
        raise game.bad(f"no marked error for the text {name!r}", hint="check that gsml.csv is complete")
    response = read_text(texts / f"{name}.txt").strip()
    words = tokens(response)
    verdicts = tuple(sorted((_error(row, response, words) for row in errors[name]), key=lambda v: v.span))
    home, visitors, day = game.text("home_name"), game.text("vis_name"), game.text("day")
    document = f"{day} {visitors} at {home}"
    case = Case(f"{part}/{name}", response, (Source("box score", _box_score(game)),))
    return [Example(case, Judgement(case.id, "human:rotowire", 1.0, verdicts=verdicts), document, group(part=part))]


def _error(row: Row, response: str, words: list[Span]) -> Verdict:
    first, last = (int(row.numeric(f"DOC_TOKEN_{end}", low=1, high=len(words))) for end in ("START", "END"))
    row.choice("TYPE", dict.fromkeys(_TYPES, 1.0))
    if first > last:
        raise row.bad(f"a span from token {first} to token {last}")
    span = Span(words[first - 1].start, words[last - 1].end)
    if span.of(response).split() != row.text("TOKENS").split():
        raise row.bad(f"the tokens are {row.text('TOKENS')!r}, where the text has {span.of(response)!r}")
    return Verdict(span, 1.0, row.text("TYPE"), reason=row.optional("COMMENT"), correction=row.optional("CORRECTION"))


def _box_score(game: Row) -> str:
    """Write the lines of both teams and of all players as text, without cells that are "N/A"."""
    lines = [[(key, str(value)) for key, value in game.row(side).values.items()] for side in ("home_line", "vis_line")]
    columns = game.row("box_score")
    players: dict[str, list[tuple[str, str]]] = {}
    for key in sorted(columns.values, key=lambda key: (key != "PLAYER_NAME", key)):
        for player, value in columns.row(key).values.items():
            players.setdefault(player, []).append((key, str(value)))
    ordered = [players[player] for player in sorted(players, key=lambda player: (len(player), player))]
    return linearise([[cell for cell in line if cell[1] != "N/A"] for line in [*lines, *ordered]]).text
