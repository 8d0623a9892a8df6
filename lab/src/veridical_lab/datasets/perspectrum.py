"""Claims with perspectives for and against them, grouped into paraphrases (Chen et al. 2019, Perspectrum)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.reading import group, json_rows, read_json_object, refusing
from veridical_lab.datasets.topics import Topic, make_topic, normal_form

INFO = Info(
    name="perspectrum",
    title="Perspectrum",
    licence="CC BY-SA 4.0",
    citation="Chen et al. 2019, Seeing Things from a Different Angle: Discovering Diverse Perspectives about Claims",
    levels=(Level.COVERAGE,),
    splits=("train", "dev", "test"),
    document="the claim (cId)",
    notes=(
        "Each perspective is a group of paraphrases. The first of each group is a source that must be covered; the "
        "response is another one of a group, which covers its own group (omission 0) and no other (1). Groups of one "
        "give no example. Hallucinations are not labelled. `perspectrum.read_questions` gives all claims."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the groups. Each paraphrase of the first perspective in a group makes one example."""
    rows, pool, parts = _open(path, split, on_bad)
    return read_rows(rows, partial(_examples, pool, parts), on_bad)


def read_questions(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Case]:
    """Make a case without a response for each claim. Each group of perspectives is a source (support or undermine)."""
    rows, pool, _ = _open(path, split, on_bad)
    for row in rows:
        yield Case(row.name("cId"), "", _sources(row, pool), question=row.text("text"))


def read_topics(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Topic]:
    """Make a topic for each claim that has perspectives. Paraphrases of a perspective are wordings of one argument.

    If two perspectives of a claim have the same words, the second one is left out and reported to `on_bad`.
    """
    rows, pool, _ = _open(path, split, on_bad)
    for row in rows:
        arguments: dict[str, list[list[str]]] = {}
        seen: set[str] = set()
        with refusing(row, on_bad):
            for entry in row.rows("perspectives"):
                texts = _texts(entry, pool)
                if (words := normal_form(texts[0])) in seen:
                    if on_bad is not None:
                        on_bad(entry.unfit(f"the perspective {texts[0][:40]!r} is there twice"))
                    continue
                seen.add(words)
                arguments.setdefault(entry.text("stance_label_3").lower(), []).append(texts)
            if arguments:
                yield make_topic(row.name("cId"), " ".join(row.text("text").split()), arguments)


def _open(path: Path, split: str | None, on_bad: OnBad) -> tuple[Iterator[Row], dict[int, str], dict[str, str]]:
    check_split(INFO, split)
    if not path.is_dir():
        raise DataError("a folder is expected", path=path, hint="the one with perspectrum_with_answers_v1.0.json")
    pool = {row.get("pId"): row.text("text") for row in json_rows(path / "perspective_pool_v1.0.json", on_bad)}
    parts = {name: str(part) for name, part in read_json_object(path / "dataset_split_v1.0.json").values.items()}
    rows = json_rows(path / "perspectrum_with_answers_v1.0.json", on_bad)
    return (row for row in rows if split in (None, parts.get(row.name("cId")))), pool, parts


def _sources(row: Row, pool: dict[int, str]) -> tuple[Source, ...]:
    return tuple(
        Source(str(i), _texts(entry, pool)[0], entry.text("stance_label_3").lower(), must_cover=True)
        for i, entry in enumerate(row.rows("perspectives"), 1)
    )


def _texts(entry: Row, pool: dict[int, str]) -> list[str]:
    missing = [pid for pid in entry.items("pids") if pid not in pool]
    if missing or not entry.items("pids"):
        raise entry.bad(f"perspectives {missing} are not in the pool" if missing else "a perspective without a text")
    return [pool[pid] for pid in entry.items("pids")]


def _examples(pool: dict[int, str], parts: dict[str, str], row: Row) -> Iterator[Example]:
    claim, question, sources = row.name("cId"), row.text("text"), _sources(row, pool)
    entries = row.rows("perspectives")
    for group_i, entry in enumerate(entries):
        for pid, text in list(zip(entry.items("pids"), _texts(entry, pool), strict=True))[1:]:
            case = Case(f"{claim}/{group_i + 1}/{pid}", text, sources, question)
            omissions = tuple(
                Omission(source.id, Span(0, len(source.text)), float(pid not in other.items("pids")))
                for source, other in zip(sources, entries, strict=True)
            )
            worst = max(o.score for o in omissions)
            notes = ("only coverage is labelled",)
            gold = Judgement(case.id, "human:perspectrum", None, worst, (), omissions, judged=(), notes=notes)
            groups = group(part=parts.get(claim), stance=entry.text("stance_label_3").lower())
            yield Example(case, gold, claim, groups)
