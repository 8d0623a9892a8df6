"""Declare the options that several commands share. Each group of options builds the object that they describe.

An API key is never an option, because everyone on a machine can see the arguments of a process. Veridical reads keys
from the environment or from a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.settings import PREFIX, read_settings, use_settings
from veridical.records.strings import visible_line

if TYPE_CHECKING:
    from veridical.io.rows import RowForm
    from veridical.llm.connection import Connection
    from veridical.records.errors import DataError
    from veridical.records.types import Case, Example
    from veridical.report.locations import CaseLocations

DETECTION = "Detection"
COLUMNS = "Columns"
OUTPUT = "Output"
EXIT_CODE = "Exit code"

Threshold = Annotated[
    list[str] | None,
    Option(
        metavar="NUMBER",
        help="Flag everything with this score or a higher one (0 to 1). Give one number for all levels, or one for "
        "each level: response=0.6,span=0.4,coverage=…,source=…. Repeatable. Default: the detector's own "
        "thresholds, or else 0.5.",
        rich_help_panel=DETECTION,
    ),
]
Explain = Annotated[
    bool,
    Option(
        "--explain",
        help="For each flagged span, show the closest passage of the sources and the correction it suggests.",
        rich_help_panel=DETECTION,
    ),
]
Causes = Annotated[
    bool,
    Option(
        "--causes",
        help="Say why each case failed. The causes are: not retrieved, misread, added, stitched, conflicting "
        "sources, wrong or right refusal, question not answered.",
        rich_help_panel=DETECTION,
    ),
]
JsonFlag = Annotated[bool, Option("--json", help="Print one JSON document per line instead of text.")]
HtmlFile = Annotated[Path | None, Option(metavar="FILE", help="Also write an HTML report to FILE.")]
Split = Annotated[str | None, Option(metavar="NAME", help="Read only this split of the data.")]

Criterion = Annotated[
    str,
    Option(
        help="How to choose the thresholds. f1 and balanced_accuracy maximise this metric, means takes the value "
        "halfway between the mean scores of the two classes, and precision@P requires a precision of P."
    ),
]
OutFolder = Annotated[
    Path,
    Option(
        metavar="FOLDER",
        help="The folder to which the trained or calibrated detector is written.",
        rich_help_panel=OUTPUT,
    ),
]


def write_line(line: str) -> None:
    """Write a message as one line to standard error. Control characters, such as line feeds, are made visible."""
    sys.stderr.write(visible_line(line) + "\n")


def check_share(option: str, share: float) -> None:
    """Check that the value of `option` is a proportion from 0 to below 1.

    Raises:
        InputError: The value lies outside this range.
    """
    from veridical.records.errors import InputError

    if not 0.0 <= share < 1.0:  # also false for NaN
        raise InputError(f"{option} is {share}", hint="a share from 0 to below 1, such as 0.05")


@dataclass(frozen=True, kw_only=True)
class CaseFiles:
    """Arguments and options of commands that read one response and its sources, each from a file."""

    PANEL: ClassVar[str] = "Input"

    response: Annotated[Path, Argument(metavar="RESPONSE", help="The response: a text file, or - for standard input.")]
    sources: Annotated[
        list[Path],
        Argument(
            metavar="SOURCE…",
            help="The sources that should support the response: text, .pdf, .docx, .xlsx, .html or .md files.",
        ),
    ] = field(default_factory=list)
    question: Annotated[
        str | None, Option("--question", "-q", metavar="TEXT", help="The question that the response answers.")
    ] = None
    encoding: Annotated[str, Option(help="Encoding of text files, such as cp1252.")] = "utf-8"
    max_mb: Annotated[
        int, Option(help="Refuse files, and lines of a file of cases, that have more than this many megabytes.", min=1)
    ] = 256

    @property
    def max_bytes(self) -> int:
        """The limit of --max-mb in bytes, for a file, or for a line in a file of cases."""
        return self.max_mb * 1024 * 1024

    def case(self, must_cover: list[Path] | None = None, perspectives: list[tuple[str, Path]] | None = None) -> Case:
        """Load the files as one case.

        The id of a source is the name of its perspective, or otherwise the name of its file.

        Args:
            must_cover: The files of further sources, which the response has to cover.
            perspectives: Further such sources with perspectives, as pairs (name of the perspective, file).
        """
        from veridical.io.documents import load_document
        from veridical.io.files import STDIN, is_one_of, read_text
        from veridical.records.errors import InputError
        from veridical.records.strings import unique_names
        from veridical.records.types import Source
        from veridical.workflows.checking import make_case

        files = [(path.name, path, None, False) for path in self.sources]
        files += [(path.name, path, None, True) for path in must_cover or ()]
        files += [(name, path, name, True) for name, path in perspectives or ()]  # type: ignore[misc]
        if [self.response, *(path for _, path, _, _ in files)].count(STDIN) > 1:
            raise InputError("standard input (-) is named more than once", hint="read only one of the texts from it")
        if is_one_of(self.response, (path for _, path, _, _ in files)):
            raise InputError(
                f"{self.response} is both the response and a source", hint="name the response first, then its sources"
            )
        text = read_text(self.response, encoding=self.encoding, max_bytes=self.max_bytes)
        names = unique_names([name for name, _, _, _ in files])
        sources = []
        for name, (_, path, perspective, must) in zip(names, files, strict=True):
            document = load_document(path, encoding=self.encoding, max_bytes=self.max_bytes, empty_allowed=True)
            sources.append(Source(name, document.text, perspective, must, pages=document.pages))
            for note in document.notes:
                write_line(f"veridical: {note}")
        return make_case(text, sources, question=self.question, id=self.response.name)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options that name the columns with response and sources in a file of rows."""

    PANEL: ClassVar[str] = COLUMNS

    response_column: Annotated[
        str | None,
        Option(
            "--response",
            metavar="COLUMN",
            help="The column with the response. Default: response, or the column of a tool that Veridical knows. "
            "The command then says which tool it is.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    source_column: Annotated[
        list[str],
        Option(
            "--source",
            metavar="COLUMN",
            help="A column with sources, each as one text or a list of texts. Repeatable. Default: sources, or the "
            "column of a tool that Veridical knows.",
            rich_help_panel=COLUMNS,
        ),
    ] = field(default_factory=list)
    delimiter: Annotated[
        str | None,
        Option(
            metavar="CHARACTER",
            help="The character between two cells of a text table. By default, it is detected.",
            rich_help_panel=COLUMNS,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputOptions(CaseFiles, ColumnOptions):
    """Arguments and options for the input of a command: one response with its sources, or a file of cases."""

    response: Annotated[
        Path,
        Argument(
            metavar="RESPONSE",
            help="The response, as a text file, or - for standard input. This can also be a file of cases (.json, "
            ".jsonl, .csv, .tsv, .xlsx, .parquet), each with its response and sources.",
        ),
    ]
    question: Annotated[
        str | None,
        Option(
            "--question",
            "-q",
            metavar="TEXT",
            help="The question that the response answers. For a file of cases, the column with the question.",
        ),
    ] = None
    must_cover: Annotated[
        list[Path],
        Option(
            metavar="FILE",
            help="A source that the response has to cover. If it leaves something out, this is an omission. "
            "Repeatable.",
        ),
    ] = field(default_factory=list)
    perspective: Annotated[
        list[str],
        Option(
            metavar="NAME=FILE",
            help="A source that the response has to cover, with the name of its perspective, such as pro=for.txt. "
            "The score is that of the perspective that is covered worst. Repeatable.",
        ),
    ] = field(default_factory=list)
    cases: Annotated[
        bool,
        Option(
            "--cases", help="Read RESPONSE as a file of cases even if its name says otherwise. You need this with -."
        ),
    ] = False

    @property
    def holds_cases(self) -> bool:
        """True if the argument RESPONSE is a file of cases, and not a single response."""
        from veridical.io.files import ROW_ENDINGS, ending_of

        return self.cases or ending_of(self.response) in ROW_ENDINGS

    def check_outputs(self, *outputs: Path | None) -> None:
        """Check that no output file would overwrite an input file. An output may be None.

        Raises:
            InputError: An output is the response, the file of cases or a source.
        """
        from veridical.io.files import is_one_of
        from veridical.records.errors import InputError

        of_perspectives = [Path(text.partition("=")[2]) for text in self.perspective]
        inputs = [self.response, *self.sources, *self.must_cover, *of_perspectives]
        for path in outputs:
            if path is not None and is_one_of(path, inputs):
                raise InputError(f"{path} is an input, which would be overwritten", hint="name another file")

    def form(self) -> RowForm:
        """Return the options for parsing a file of cases: columns, encoding, delimiter and size limit."""
        from veridical.io.rows import Columns, RowForm

        columns = Columns(self.response_column, tuple(self.source_column), question=self.question)
        return RowForm(columns, self.encoding, self.delimiter, self.max_bytes)

    def read(self) -> Iterator[Case]:
        """Return an iterator over the cases of the input. A file of cases is read lazily.

        Raises:
            InputError: The user passed sources together with a file of cases, or named columns without such a file.
        """
        from veridical.records.errors import InputError

        if self.holds_cases:
            from veridical.io.rows import read_cases

            if self.sources or self.must_cover or self.perspective:
                raise InputError(
                    f"{self.response} holds cases, so it takes no sources beside it", hint="put them into the cases"
                )
            return read_cases(self.response, self.form(), remark=write_line)
        if self.response_column or self.source_column or self.delimiter:
            raise InputError(
                f"{self.response} holds no cases, so it has no columns", hint="--cases reads it as cases in JSON"
            )
        perspectives = []
        for text in self.perspective:
            name, equals, path = text.partition("=")
            if not (name and equals and path):
                raise InputError(f"--perspective {text!r} is not NAME=FILE", hint="such as --perspective pro=for.txt")
            perspectives.append((name, Path(path)))
        return iter([self.case(self.must_cover, perspectives)])

    def total(self) -> int | None:
        """Return the number of cases, or None if the cases can be read only once or not completely."""
        if not self.holds_cases:
            return 1
        from veridical.io.rows import RowReader
        from veridical.records.errors import InputError

        if not self.response.is_file():
            return None
        reader = RowReader(self.response, self.form())
        try:
            return sum(len(reader.cases(row, "")) for row in reader.rows())
        except InputError:  # `read` says what is wrong when it comes to it
            return None

    def locations(self) -> Iterator[CaseLocations]:
        """Yield an object for each case that finds positions of its texts in the files, in the order of `read`.

        If the input can be read only once, such as standard input, nothing is yielded for a file of cases.
        """
        from veridical.report.locations import FileLocations, locate_cases

        if not self.holds_cases:
            sources = [*self.sources, *self.must_cover, *(Path(text.partition("=")[2]) for text in self.perspective)]
            yield FileLocations(self.response, tuple(sources))
        elif self.response.is_file():
            yield from locate_cases(self.response, self.form())


@dataclass(frozen=True, kw_only=True)
class ExitOptions:
    """Options that set the exit code: the proportions of flagged and of unjudged cases above which a command fails."""

    PANEL: ClassVar[str] = EXIT_CODE

    fail_over: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Exit with 1 only if more than this proportion of the judged cases is flagged (0 to below 1).",
        ),
    ] = 0.0
    allow_unjudged: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Exit with 3 only if more than this proportion of all cases could not be judged (0 to below 1). By "
            "default, one such case is enough.",
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        check_share("--fail-over", self.fail_over)
        check_share("--allow-unjudged", self.allow_unjudged)


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """Options that decide which findings are flagged, and whether they are explained."""

    PANEL: ClassVar[str] = DETECTION

    threshold: Threshold = None
    flag_over: Annotated[
        float | None,
        Option(
            metavar="NUMBER",
            help="Flag a case only if one of its response-level scores is above this number (0 to below 1).",
        ),
    ] = None
    explain: Explain = False
    causes: Causes = False


@dataclass(frozen=True, kw_only=True)
class _ModelName:
    PANEL: ClassVar[str] = "Language model"

    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            metavar="NAME",
            help="The language model. This is its name on the server, a local folder, or scripted:FILE (replies in "
            "JSON, for tests).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServedChatOptions:
    """Options of all commands that call chat models: how to reach them, and what they may cost."""

    PANEL: ClassVar[str] = "Language model"

    base_url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="The base URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1. Default: "
            "$OPENAI_BASE_URL, or else OpenAI.",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        Option(
            metavar="VARIABLE",
            help="The name of the environment variable that holds the API key. Default: OPENAI_API_KEY, which is sent "
            "to OpenAI's server only.",
        ),
    ] = None
    api: Annotated[
        str,
        Option(
            help="The API to call: chat, or completions for base models, which continue a prompt instead of "
            "answering it."
        ),
    ] = "chat"
    prices: Annotated[
        str | None,
        Option(
            metavar="IN,OUT",
            help="The price of a million prompt tokens and of a million completion tokens, such as 0.15,0.60.",
        ),
    ] = None
    max_cost: Annotated[
        float | None, Option(help="Stop before the total cost exceeds this amount (needs --prices).")
    ] = None
    max_calls: Annotated[int | None, Option(help="Send at most this many requests.")] = None
    concurrency: Annotated[int, Option(help="Send at most this many requests at the same time.", min=1)] = 8
    timeout: Annotated[float, Option(help="Time limit of one request, in seconds.", min=0.1)] = 120.0
    max_tokens: Annotated[
        int | None,
        Option(
            help="The largest number of tokens in a reply. Set this for reasoning models. By default, it depends on "
            "the question, and the model is asked once more with more room if it was still reasoning.",
            min=1,
        ),
    ] = None
    cache: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Store replies in FILE and use them again, so that you pay for each of them only once."
        ),
    ] = None
    device: Annotated[str, Option(help="The device of a local model: auto, cpu, cuda, cuda:N or mps.")] = "auto"
    dtype: Annotated[str, Option(help="The precision of a local model: auto, fp32, bf16 or fp16.")] = "auto"
    settings: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Read further options from FILE. Default: $VERIDICAL_SETTINGS, or else veridical.toml or "
            "pyproject.toml in this folder. A file that you do not name yourself must not set a key, an "
            "address or a file.",
            envvar=f"{PREFIX}SETTINGS",
            show_envvar=False,
            is_eager=True,
            callback=use_settings,
            rich_help_panel="Settings",
        ),
    ] = field(default=None, compare=False)

    def connection(self, *, cache: Path | None = None) -> Connection:
        """Make the connection that all chat models of the command share, with its budget and cache.

        Further settings come from the table `[chat]` of the settings file.

        Args:
            cache: The file for replies if `--cache` is not given.
        """
        from veridical.llm.connection import Connection, read_prices

        values = {option.name: getattr(self, option.name) for option in fields(self) if option.compare}
        values["prices"] = None if self.prices is None else read_prices(self.prices)
        return Connection(**{**values, **read_settings(self.settings).chat(), "cache": self.cache or cache})

    def chosen(self) -> Connection | None:
        """Make the connection to chat models, or return None if neither options nor settings file configure one.

        With None, detectors that ask a chat model make their own connection.
        """
        return self.connection() if self != type(self)() or read_settings(self.settings).chat() else None


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ServedChatOptions):
    """The options of `ServedChatOptions` and --dry-run, which only counts the calls."""

    dry_run: Annotated[
        bool, Option("--dry-run", help="Send nothing, and count the calls and tokens that the command would need.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ServedModelOptions(ServedChatOptions, _ModelName):
    """Options of `veridical serve` for its chat model: its name, how to reach it, and what it may cost."""


@dataclass(frozen=True, kw_only=True)
class ChatOptions(ServerOptions, _ModelName):
    """Options for the chat model of a command: its name, how to reach it, what it may cost, and --dry-run."""


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options for the output format of results: text (the default), JSON or an HTML page."""

    PANEL: ClassVar[str] = OUTPUT

    html: HtmlFile = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class CheckOutputOptions(OutputOptions):
    """Options for the output format of commands that check cases: as in `OutputOptions`, and JUnit and SARIF files."""

    PANEL: ClassVar[str] = OUTPUT

    junit: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write JUnit XML to FILE, with one test per case. A flagged case is a failure, and a case "
            "that could not be judged is an error.",
        ),
    ] = None
    sarif: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write SARIF 2.1.0 to FILE, with everything that was flagged and its place in the input files.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TextOutputOptions(OutputOptions):
    """Options for the output format of commands that make a new text: as in `OutputOptions`, or the text alone."""

    PANEL: ClassVar[str] = OUTPUT

    text: Annotated[bool, Option("--text", help="Print only the resulting text.")] = False


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Options of commands that read labelled data: the split to read, and whether to skip rows with errors."""

    PANEL: ClassVar[str] = "Data"

    split: Split = None
    skip_bad: Annotated[bool, Option("--skip-bad", help="Skip and count rows that cannot be read.")] = False

    @contextmanager
    def read(self, spec: str, *, unlabelled: bool = False) -> Iterator[Iterator[Example]]:
        """Provide, as a context manager, an iterator over the labelled examples of a data spec such as "SET:PATH".

        When the block ends, the number of skipped rows and the error of the first are written to standard error. Set
        `unlabelled` to accept rows without a gold label.
        """
        from veridical.datasets import read

        skipped: list[DataError] = []
        on_bad = skipped.append if self.skip_bad else None
        yield read(spec, self.split, on_bad=on_bad, unlabelled=unlabelled, remark=write_line)
        if skipped:
            write_line(f"veridical: {len(skipped)} rows were skipped; the first: {skipped[0]}")
