"""Run the commands of a plan, collect the results, and compare them with the paper's.

You can stop a long reproduction and start it again. A completed command is not run again unless it has changed, and an
interrupted command continues from its own files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from veridical.io.files import write_whole
from veridical_lab.datasets.appending import append_lines
from veridical_lab.reproduce.examples import Shown, examples_of
from veridical_lab.reproduce.plan import Cell, Exhibit, Step, Version

STATUSES = ("measured", "not yet measured", "needs data or models", "failed")
_DONE = "steps.jsonl"
_MODEL = re.compile(r"\{model:([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A value of the paper and ours as (value, low, high), either of which may be None, with our command and date."""

    row: str
    column: str
    printed: float | None
    ours: tuple[float, float | None, float | None] | None
    n: int | None = None
    command: str = ""
    date: str = ""

    @property
    def difference(self) -> float | None:
        """Our value minus the paper's."""
        return None if self.ours is None or self.printed is None else self.ours[0] - self.printed


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table or figure, as far as it could be reproduced.

    Attributes:
        paper: The name of the paper.
        exhibit: The name of the table or figure.
        title: The title of the table or figure.
        metric: The metric of its values.
        data: "published" or "local".
        status: The state of the reproduction, one of `STATUSES`.
        cells: The values.
        examples: The examples, for tables of examples.
        plot: The path of the picture, or None.
        commands: The commands that reproduce the table or figure.
        differs: The differences from the paper's set-up.
        notes: What is missing or failed, and why.
    """

    paper: str
    exhibit: str
    title: str
    metric: str
    data: str
    status: str
    cells: tuple[Reproduced, ...]
    examples: tuple[Shown, ...] = ()
    plot: str | None = None
    commands: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def run_command(arguments: Sequence[str]) -> tuple[int, str]:
    """Run this program in a separate process that shows its progress. Return exit code and standard output."""
    command = [sys.executable, "-m", "veridical", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    return ended.returncode, ended.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The locations of data, models and results, and the way to run commands.

    Attributes:
        data: The folder with the data sets.
        models: The folder with the models. A model that is missing there is loaded from the hub by its name.
        out: The folder for results.
        rows: Folders of earlier results, which are not measured again.
        run: Runs a command, and returns its exit code and standard output.
        progress: Called with a line of text before each command.
    """

    data: Path
    models: Path
    out: Path
    rows: tuple[Path, ...] = ()
    run: Callable[[Sequence[str]], tuple[int, str]] = run_command
    progress: Callable[[str], None] = field(default=lambda line: None)

    def model(self, name: str) -> str | None:
        """Find a model. Return its folder, or its name if the hub may be used, or None if neither is possible."""
        folder = self.models / name.rpartition("/")[2]
        if folder.is_dir():
            return str(folder)
        offline = os.environ.get("HF_HUB_OFFLINE", "0").strip().lower() not in ("", "0", "false", "no")
        return None if offline or "/" not in name else name

    def filled(self, text: str) -> str:
        """Fill in the placeholders of a text. A model that is not on this machine is filled in by its name."""
        text = _MODEL.sub(lambda match: self.model(match[1]) or match[1], text)
        return text.replace("{data}", str(self.data)).replace("{out}", str(self.out))


def missing_needs(version: Version, setting: Setting) -> list[str]:
    """List the needs of a version that this machine lacks."""
    missing = []
    for need in version.needs:
        kind, _, name = need.partition(":")
        if kind == "data" and not (setting.data / name).exists():
            missing.append(f"the data {name} in {setting.data}")
        elif kind == "model" and setting.model(name) is None:
            missing.append(f"the model {name} in {setting.models}")
        elif kind == "chat" and not (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY")):
            missing.append("a server with chat models (OPENAI_BASE_URL or OPENAI_API_KEY)")
    return missing


def commands_of(version: Version, setting: Setting) -> tuple[str, ...]:
    """Format the commands of a version as lines for a shell."""
    return tuple(f"veridical {setting.filled(step.run)}" for step in version.steps)


def reproduce(paper: str, exhibit: Exhibit, data: str, setting: Setting, *, measure: bool = True) -> Reproduction:
    """Reproduce a table or figure: run its commands unless its results already exist, and collect the results.

    Args:
        paper: The name of the paper.
        exhibit: The table or figure.
        data: "published" or "local".
        setting: Where data, models and results are.
        measure: Whether to run commands, or to read only earlier results.
    """
    version = exhibit.versions[data]
    notes = [f"{name}: {why}" for name, why in (version.missing or {}).items()]
    earlier = _figures(version.cells, setting.rows)
    wanted = [cell for cell, figure in zip(version.cells, earlier, strict=True) if figure.ours is None]
    failed = False
    if measure and (wanted or not version.cells):
        missing = missing_needs(version, setting)
        notes += [f"needs {need}" for need in missing]
        for step in () if missing else _needed(version, wanted):
            if not _done(setting, step.run, step.makes):
                line = setting.filled(step.run)
                setting.progress(f"{paper}, {exhibit.name}: veridical {line}")
                setting.out.mkdir(parents=True, exist_ok=True)
                code, output = setting.run(shlex.split(line))
                failed = code != 0 and not (code == 1 and line.startswith("check "))  # 1: a check flagged something
                if failed:
                    notes.append(f"exit code {code}: veridical {line}")
                    break
                if step.capture:
                    write_whole(setting.out / step.makes, output, follow_link=False)
                _record(setting, step.run)
    figures = tuple(_figures(version.cells, (*setting.rows, setting.out)))
    shown: tuple[Shown, ...] = ()
    if measure and version.examples is not None and not missing_needs(version, setting) and not failed:
        shown = tuple(examples_of(setting.filled(version.examples)))
    plot = None if version.plot is None else setting.out / version.plot
    made = any(figure.ours for figure in figures) or shown or (plot is not None and plot.exists())
    if failed:
        status = "failed"
    elif made:
        status = "measured"
    else:
        status = "needs data or models" if missing_needs(version, setting) else "not yet measured"
    return Reproduction(
        paper=paper,
        exhibit=exhibit.name,
        title=exhibit.title,
        metric=exhibit.metric,
        data=data,
        status=status,
        cells=figures,
        examples=shown,
        plot=str(plot) if plot is not None and plot.exists() else None,
        commands=commands_of(version, setting),
        differs=version.differs,
        notes=tuple(notes),
    )


def _needed(version: Version, wanted: Sequence[Cell]) -> list[Step]:
    """Return the steps that make the wanted results and the picture, and the steps on whose results these depend."""
    if not version.cells:
        return list(version.steps)
    files = {pattern for cell in wanted for pattern in cell.file.split("|")}
    needed: list[Step] = []
    for step in reversed(version.steps):
        made = "{out}/" + step.makes.partition("/")[0].partition(".")[0]
        own = step.makes == version.plot or any(fnmatchcase(step.makes, each) for each in files)
        if own or any(made in later.run for later in needed):
            needed.insert(0, step)
    return needed


def _done(setting: Setting, run: str, makes: str) -> bool:
    """Return whether exactly this command was completed, and its output still exists."""
    path = setting.out / _DONE
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    ran = {json.loads(line)["run"] for line in lines if line.endswith("}")}
    return run in ran and (setting.out / makes).exists()


def _record(setting: Setting, run: str) -> None:
    append_lines(
        setting.out / _DONE, [json.dumps({"run": run, "date": datetime.now(UTC).date().isoformat()})], follow_link=False
    )


def _figures(cells: Sequence[Cell], folders: Sequence[Path]) -> list[Reproduced]:
    return [find(cell, folders) for cell in cells]


def find(cell: Cell, folders: Sequence[Path]) -> Reproduced:
    """Find our result for a cell. If several documents have it, the last document of the last folder is used."""
    latest = Reproduced(cell.row, cell.column, cell.printed, None)
    for folder in folders:
        patterns = cell.file.split("|") if folder.is_dir() else ()
        for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
            for document in _documents(path):
                if all(re.fullmatch(p, str(_at(document, name))) for name, p in cell.where.items()):
                    value, n = _measured(_at(document, cell.value), cell.scale)
                    if value is not None:
                        about = [_at(document, name) or _at(document, f"row.{name}") for name in ("command", "date")]
                        command, date = (str(text or "") for text in about)
                        latest = Reproduced(cell.row, cell.column, cell.printed, value, n, command, date)
    return latest


def _documents(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in a file, which contains one object, or one in each line."""
    text = path.read_text("utf-8")
    try:
        whole = json.loads(text)
    except ValueError:
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # an incomplete line
    else:
        yield whole


def _at(document: Any, path: str) -> Any:
    """Look up a path of names, list indices, and name=value for the list item with this value."""
    for part in path.split("."):
        name, equals, value = part.partition("=")
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and equals:
            document = next((each for each in document if str(each.get(name)) == value), None)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def _measured(value: Any, scale: float) -> tuple[tuple[float, float | None, float | None] | None, int | None]:
    """Read a result from a number, from [value, low, high], or from an object with these names and n."""
    n = None
    if isinstance(value, Mapping):
        n = value.get("n")
        value = [value.get(name) for name in ("value", "low", "high")]
    parts = list(value) if isinstance(value, list) else [value, None, None]
    if not isinstance(parts[0], (int, float)) or isinstance(parts[0], bool):
        return None, None
    numbers = [None if part is None else scale * float(part) for part in (*parts, None, None)[:3]]
    return (float(scale * parts[0]), numbers[1], numbers[2]), n
