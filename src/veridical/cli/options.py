"""The options that several commands share: each group is declared once and builds what its options describe.

A key is never an option: it comes from the environment or a file, because everyone on a machine can see arguments.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

if TYPE_CHECKING:
    from veridical.core.errors import DataError
    from veridical.core.types import Case, Example
    from veridical.llm.connection import Connection
    from veridical.models.load import Kind, LocalModel
    from veridical.report.locations import CaseLocations

__all__ = [
    "CaseFiles",
    "ChatOptions",
    "CheckOutputOptions",
    "Criterion",
    "DataOptions",
    "DecisionOptions",
    "Explain",
    "InputOptions",
    "LocalModelOptions",
    "OutFolder",
    "OutJsonl",
    "OutputOptions",
    "ServerOptions",
    "Split",
    "TextOutputOptions",
    "Threshold",
    "ValidationSets",
    "texts_of",
    "this_command",
    "write_counts",
    "write_line",
]

DETECTION = "Detection"
OUTPUT = "Output"
EXIT_CODE = "Exit code"

Threshold = Annotated[
    str | None,
    Option(
        metavar="NUMBER",
        help="Flag what scores at least this (0 to 1); or one number per level: response=0.6,span=0.4,coverage=…,"
        "source=…. Default: the detector's own thresholds, else 0.5.",
        rich_help_panel=DETECTION,
    ),
]
Explain = Annotated[
    bool,
    Option(
        "--explain",
        help="Show the closest passage for what is flagged, and what the sources have instead.",
        rich_help_panel=DETECTION,
    ),
]
JsonFlag = Annotated[bool, Option("--json", help="Print one JSON document per line instead of text.")]
JsonRows = Annotated[
    bool, Option("--json", help="Print one JSON document per line instead of tables.", rich_help_panel=OUTPUT)
]
HtmlFile = Annotated[Path | None, Option(metavar="FILE", help="Also write an HTML report to FILE.")]
LabelledData = Annotated[
    str, Argument(metavar="SET:PATH", help="Labelled data: a data set's name and its path; see: veridical data list.")
]
LabelledSets = Annotated[
    list[str],
    Argument(metavar="SET:PATH…", help="Labelled data: data sets' names and paths; see: veridical data list."),
]
ValidationSets = Annotated[
    list[str] | None,
    Option(
        "--validation",
        metavar="SET:PATH",
        help="Fit on these data what is not learned from the others (regularisation or early stopping, calibration, "
        "thresholds), and train on all of the others. Default: a split by document (70/10/20). Repeatable.",
    ),
]
Split = Annotated[str | None, Option(metavar="NAME", help="Read only this split of the data.")]
ModelFolder = Annotated[str, Option(metavar="FOLDER", help="The language model: a local folder, or a hub name.")]

OutJsonl = Annotated[
    Path, Option(metavar="FILE", help="The file to write (JSON Lines); read it as jsonl:FILE.", rich_help_panel=OUTPUT)
]
Criterion = Annotated[
    str, Option(help="What the thresholds optimise: f1, balanced_accuracy, means (halfway) or precision@P.")
]
OutFolder = Annotated[
    Path, Option(metavar="FOLDER", help="Write the trained detector to FOLDER.", rich_help_panel=OUTPUT)
]


def this_command() -> str:
    """The command line that is running, as it would be typed."""
    return shlex.join(["veridical", *sys.argv[1:]])


def write_line(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(line + "\n")


def write_counts(what: str, counts: Mapping[str, int]) -> None:
    """Write a line to standard error for each count."""
    for reason, count in counts.items():
        write_line(f"{what}: {count:>6}  {reason}")


def texts_of(names: Sequence[str]) -> Iterator[str]:
    """The texts that arguments name: a file, or those of a data set named as SET:PATH, each once."""
    from veridical.core.files import read_text
    from veridical.datasets import DATASETS, load_reader, read

    for name in names:
        kind, _, path = name.partition(":")
        if path and kind in DATASETS:
            reader = load_reader(kind)
            if hasattr(reader, "read_texts") and Path(path).exists():
                yield from reader.read_texts(Path(path))
            else:
                texts = (t for e in read(name) for t in (e.case.response, *(s.text for s in e.case.sources)))
                yield from dict.fromkeys(texts)
        else:
            yield read_text(Path(name))


@dataclass(frozen=True, kw_only=True)
class CaseFiles:
    """One response and what belongs to it, each in a file."""

    PANEL: ClassVar[str] = "Input"

    response: Annotated[Path, Argument(metavar="RESPONSE", help="The response: a text file, or - for standard input.")]
    sources: Annotated[
        list[Path], Argument(metavar="SOURCE…", help="The sources it should rest on: text, .pdf, .html or .md files.")
    ] = field(default_factory=list)
    question: Annotated[
        str | None, Option("--question", "-q", metavar="TEXT", help="The question that the response answers.")
    ] = None
    encoding: Annotated[str, Option(help="Encoding of text files.")] = "utf-8"
    max_mb: Annotated[int, Option(help="Refuse files, and lines of a file of cases, that are larger.", min=1)] = 256

    @property
    def max_bytes(self) -> int:
        """The largest file, or line of a file of cases, that is read."""
        return self.max_mb * 1024 * 1024

    def case(self, must_cover: list[Path] | None = None, perspectives: list[tuple[str, Path]] | None = None) -> Case:
        """The case of the files; sources are called by their file names, or by their perspectives."""
        from veridical.checking import make_case, unique_names
        from veridical.core.errors import InputError
        from veridical.core.files import STDIN, read_text
        from veridical.core.types import Source
        from veridical.documents import read_document

        files = [(path.name, path, None, False) for path in self.sources]
        files += [(path.name, path, None, True) for path in must_cover or ()]
        files += [(name, path, name, True) for name, path in perspectives or ()]  # type: ignore[misc]
        if [self.response, *(path for _, path, _, _ in files)].count(STDIN) > 1:
            raise InputError("standard input (-) is named more than once", hint="read only one of the texts from it")
        text = read_text(self.response, encoding=self.encoding, max_bytes=self.max_bytes)
        names = unique_names([name for name, _, _, _ in files])
        read = partial(read_document, encoding=self.encoding, max_bytes=self.max_bytes, empty_allowed=True)
        sources = [
            Source(name, read(path), perspective, must)
            for name, (_, path, perspective, must) in zip(names, files, strict=True)
        ]
        return make_case(text, sources, question=self.question, id=self.response.name)


@dataclass(frozen=True, kw_only=True)
class InputOptions(CaseFiles):
    """What is checked: one response with its sources, or a file of cases."""

    response: Annotated[
        Path,
        Argument(metavar="RESPONSE", help="The response: a text file, - for standard input, or cases (.json, .jsonl)."),
    ]
    must_cover: Annotated[
        list[Path], Option(metavar="FILE", help="A source that the response has to cover. Repeatable.")
    ] = field(default_factory=list)
    perspective: Annotated[
        list[str],
        Option(
            metavar="NAME=FILE",
            help="A source to cover, one per perspective, such as pro=for.txt. Repeatable; the worst perspective "
            "counts.",
        ),
    ] = field(default_factory=list)
    cases: Annotated[
        bool, Option("--cases", help="RESPONSE holds cases, whatever its file ending (needed with -).")
    ] = False

    @property
    def holds_cases(self) -> bool:
        """Whether the response is a file of cases."""
        from veridical.documents import CASE_ENDINGS

        return self.cases or self.response.suffix.lower() in CASE_ENDINGS

    def read(self) -> Iterator[Case]:
        """The cases, lazily; `InputError` if sources or a question are given beside a file of cases."""
        from veridical.core.errors import InputError
        from veridical.documents import read_cases

        if self.holds_cases:
            if self.sources or self.must_cover or self.perspective or self.question:
                raise InputError(
                    f"{self.response} holds cases, and sources or a question are given too",
                    hint="put them into the cases",
                )
            return read_cases(self.response, max_bytes=self.max_bytes)
        perspectives = []
        for text in self.perspective:
            name, equals, path = text.partition("=")
            if not (name and equals and path):
                raise InputError(f"--perspective {text!r} is not NAME=FILE", hint="such as --perspective pro=for.txt")
            perspectives.append((name, Path(path)))
        return iter([self.case(self.must_cover, perspectives)])

    def locations(self) -> Iterator[CaseLocations]:
        """Where the texts of each case that `read` gives are in the files; none for standard input."""
        from veridical.core.files import STDIN
        from veridical.report.locations import FileLocations, locate_cases

        if not self.holds_cases:
            sources = [*self.sources, *self.must_cover, *(Path(text.partition("=")[2]) for text in self.perspective)]
            yield FileLocations(self.response, tuple(sources))
        elif self.response != STDIN:
            yield from locate_cases(self.response)


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """From which scores something is flagged, and when the command fails."""

    PANEL: ClassVar[str] = DETECTION

    threshold: Threshold = None
    flag_over: Annotated[
        float | None,
        Option(metavar="NUMBER", help="Flag a case only if a response-level score is above this (0 to below 1)."),
    ] = None
    fail_over: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Exit with 1 only if more than this share of the judged cases is flagged (0 to below 1). Cases that "
            "could not be judged count neither as flagged nor as clear.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = 0.0
    allow_unjudged: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Exit with 3 only if more than this share of all cases could not be judged (0 to below 1). By default "
            "one such case is enough, whatever --fail-over is.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = 0.0
    explain: Explain = False

    def __post_init__(self) -> None:
        from veridical.core.errors import InputError

        for option, share in (("--fail-over", self.fail_over), ("--allow-unjudged", self.allow_unjudged)):
            if not 0.0 <= share < 1.0:  # also false for NaN
                raise InputError(f"{option} is {share}", hint="a share from 0 to below 1, such as 0.05")


@dataclass(frozen=True, kw_only=True)
class _ModelName:
    PANEL: ClassVar[str] = "Language model"

    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            metavar="NAME",
            help="A model's name on the server, a local folder, or scripted:FILE (canned replies in JSON, for tests).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How chat models are reached, and what they may cost."""

    PANEL: ClassVar[str] = "Language model"

    base_url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="An OpenAI-compatible server, such as http://127.0.0.1:8000/v1. Default: $OPENAI_BASE_URL, else "
            "OpenAI.",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        Option(
            metavar="VARIABLE",
            help="The environment variable that holds the API key. Default: OPENAI_API_KEY, for OpenAI's server only.",
        ),
    ] = None
    api: Annotated[
        str, Option(help="chat, or completions for base models, which continue a prompt instead of answering it.")
    ] = "chat"
    prices: Annotated[
        str | None, Option(metavar="IN,OUT", help="Prices of a million prompt tokens and a million completion tokens.")
    ] = None
    max_cost: Annotated[float | None, Option(help="Spend at most this in total (needs --prices).")] = None
    max_calls: Annotated[int | None, Option(help="Send at most this many requests.")] = None
    concurrency: Annotated[int, Option(help="Requests in flight at once.", min=1)] = 8
    timeout: Annotated[float, Option(help="Time limit of one request, in seconds.", min=0.1)] = 120.0
    cache: Annotated[
        Path | None, Option(metavar="FILE", help="Store replies in FILE and reuse them, so that none is paid twice.")
    ] = None
    device: Annotated[str, Option(help="Where a local model runs: auto, cpu, cuda, cuda:N or mps.")] = "auto"
    dtype: Annotated[str, Option(help="Precision of a local model: auto, fp32, bf16 or fp16.")] = "auto"
    dry_run: Annotated[bool, Option("--dry-run", help="Count the calls and tokens this would take; send nothing.")] = (
        False
    )

    def connection(self, model: str | None = None, *, cache: Path | None = None) -> Connection:
        """How every chat model of one command is reached; `cache` is used where `--cache` is not given."""
        from veridical.llm.connection import Connection, read_prices

        given = {option.name: getattr(self, option.name) for option in fields(ServerOptions)}
        given["prices"] = None if self.prices is None else read_prices(self.prices)
        return Connection(model=model, **{**given, "cache": self.cache or cache})


@dataclass(frozen=True, kw_only=True)
class ChatOptions(ServerOptions, _ModelName):
    """The chat model of a command, how it is reached, and what it may cost."""

    def connection(self, model: str | None = None, *, cache: Path | None = None) -> Connection:
        """How every chat model of the command is reached; `--model` is used where no other model is named."""
        return super().connection(model or self.model, cache=cache)


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """In which form results are written."""

    PANEL: ClassVar[str] = OUTPUT

    html: HtmlFile = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class CheckOutputOptions(OutputOptions):
    """The same, for commands that check cases."""

    PANEL: ClassVar[str] = OUTPUT

    junit: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write JUnit XML to FILE: a test per case, which fails if it is flagged and is an error if it "
            "could not be judged.",
        ),
    ] = None
    sarif: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also write SARIF 2.1.0 to FILE: what is flagged, with its place in the input."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TextOutputOptions(OutputOptions):
    """The same, for commands that make a new text."""

    PANEL: ClassVar[str] = OUTPUT

    text: Annotated[bool, Option("--text", help="Print only the resulting text.")] = False


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which rows of labelled data are read."""

    PANEL: ClassVar[str] = "Data"

    split: Split = None
    skip_bad: Annotated[bool, Option("--skip-bad", help="Skip and count rows that cannot be read.")] = False

    @contextmanager
    def read(self, spec: str) -> Iterator[Iterator[Example]]:
        """The examples of SET:PATH; in the end standard error says how many rows were skipped, and the first one."""
        from veridical.datasets import read

        skipped: list[DataError] = []
        yield read(spec, self.split, on_bad=skipped.append if self.skip_bad else None)
        if skipped:
            write_line(f"veridical: {len(skipped)} rows were skipped; the first: {skipped[0]}")


@dataclass(frozen=True, kw_only=True)
class LocalModelOptions:
    """Where and in which precision a local model runs."""

    PANEL: ClassVar[str] = "Local model"

    device: Annotated[str, Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto"
    dtype: Annotated[str, Option(help="Precision of the model: auto, fp32, bf16 or fp16.")] = "auto"

    def load(self, name: str, kinds: tuple[Kind, ...] = ("causal",)) -> LocalModel:
        """The model called `name`: a local folder, or a hub name."""
        from veridical.models.load import load

        return load(name, device=self.device, dtype=self.dtype, kinds=kinds)
