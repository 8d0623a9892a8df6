"""`veridical check` as a person runs it: a real process, real files, exit codes."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import LIMIT, python, start_python
from veridical.cli import main
from veridical.io.serialization import decode
from veridical.records.types import Outcome
from veridical.workflows.checking import check

Run = Callable[..., subprocess.CompletedProcess[str]]
OVERLAP = ("--detector", "overlap")  # fast, and its scores are known exactly


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "good.txt").write_text("The tower is 330 m tall.")
    (tmp_path / "bad.txt").write_text("The tower is purple.")
    (tmp_path / "source.txt").write_text("The tower is 330 m tall and grey.")
    (tmp_path / "points.txt").write_text("It was built by Eiffel.")
    return tmp_path


@pytest.fixture
def run(texts: Path) -> Run:
    def call(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return python(
            "-m",
            "veridical",
            *arguments,
            input=stdin,
            cwd=texts,
            text=True,
            encoding="utf-8",
            env={**os.environ, "COLUMNS": "100", **environment},
        )

    return call


def test_bad_input_of_a_process(run: Run) -> None:
    done = run("check", *OVERLAP, "none.txt", "source.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["veridical: none.txt: no such file (check the path)"]


def test_nothing_flagged(run: Run) -> None:
    done = run("check", *OVERLAP, "good.txt", "source.txt")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout


def test_flagged(run: Run) -> None:
    done = run("check", *OVERLAP, "bad.txt", "source.txt")
    assert done.returncode == 1
    assert "purple" in done.stdout


def test_could_not_judge(run: Run) -> None:
    done = run("check", *OVERLAP, "good.txt")
    assert done.returncode == 3
    assert "no sources" in done.stdout.lower() or "no source" in done.stdout.lower()


def test_what_must_be_covered(run: Run) -> None:
    assert run("check", *OVERLAP, "good.txt", "source.txt", "--must-cover", "points.txt").returncode == 1
    done = run(
        "check", *OVERLAP, "good.txt", "--perspective", "pro=source.txt", "--perspective", "con=points.txt", "--json"
    )
    assert done.returncode == 1
    checked = decode(done.stdout)
    assert [(s.id, s.perspective, s.must_cover) for s in checked.case.sources] == [
        ("pro", "pro", True),
        ("con", "con", True),
    ]
    assert checked.judgements[0].omission == 1.0


def test_json_is_what_python_gives(run: Run, tmp_path: Path) -> None:
    done = run(
        "check", "bad.txt", "source.txt", "--question", "How tall?", "--json", "-d", "overlap", "-d", "overlap:values"
    )
    checked = decode(done.stdout, "check")
    texts = [(tmp_path / name).read_text() for name in ("bad.txt", "source.txt")]
    same = check(texts[0], [texts[1]], question="How tall?", detector=["overlap", "overlap:values"])
    assert checked.outcome is same.outcome is Outcome.FLAGGED
    assert [j.by for j in checked.judgements] == ["overlap", "overlap:values"]
    assert [j.hallucination for j in checked.judgements] == [j.hallucination for j in same.judgements]
    assert [j.verdicts[0].span for j in checked.judgements] == [j.verdicts[0].span for j in same.judgements]


def test_response_from_standard_input(run: Run) -> None:
    assert run("check", *OVERLAP, "-", "source.txt", stdin="The tower is purple.").returncode == 1


def test_cases_from_standard_input_and_by_ending(run: Run, tmp_path: Path) -> None:
    lines = '{"response": "red", "sources": ["red"]}\n{"response": "blue", "sources": ["red"]}\n'
    done = run("check", *OVERLAP, "-", "--cases", "--json", stdin=lines)
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["clear", "flagged"]
    (tmp_path / "c.jsonl").write_text(lines)
    assert run("check", *OVERLAP, "c.jsonl", "--json").stdout == done.stdout


def test_a_name_of_a_file_that_is_written_sends_no_escapes_to_the_terminal(run: Run) -> None:
    done = run("check", *OVERLAP, "good.txt", "source.txt", "--html", "a\u202e\x9b[2J.html")
    assert "wrote a⟨U+202E⟩⟨U+009B⟩[2J.html" in done.stderr.splitlines()


def test_threshold_and_flag_over(run: Run) -> None:
    case = '{"response": "red green blue house", "sources": ["red green blue"]}'
    assert run("check", *OVERLAP, "-", "--cases", stdin=case).returncode == 1
    assert run("check", *OVERLAP, "-", "--cases", "--flag-over", "0.3", stdin=case).returncode == 0
    assert run("check", *OVERLAP, "-", "--cases", "--flag-over", "0.2", stdin=case).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.txt", "source.txt"], "none.txt: no such file"),
        (["good.txt", "none.txt"], "none.txt: no such file"),
        (["no\u202e\x9b[2J.txt", "source.txt"], "no⟨U+202E⟩⟨U+009B⟩[2J.txt: no such file"),
        (["good.txt", "scan.html"], "no text in it"),
        (["good.txt", "binary.txt"], "binary data"),
        (["good.txt", "latin.txt"], "--encoding"),
        (["good.txt", "source.txt", "--max-mb", "1", "--must-cover", "huge.txt"], "larger than 1,048,576 bytes"),
        (["good.txt", "source.txt", "-d", "overlpa"], "did you mean overlap"),
        (["good.txt", "source.txt", "-d", "overlap:valeus"], "did you mean values"),
        (["good.txt", "source.txt", "--threshold", "1.5"], "the threshold is 1.5"),
        (["good.txt", "source.txt", "--flag-over", "nan"], "flag_over"),
        (["good.txt", "source.txt", "--fail-over", "nan"], "--fail-over is nan (a share from 0 to below 1"),
        (["good.txt", "source.txt", "--allow-unjudged", "1"], "--allow-unjudged is 1.0"),
        (
            ["good.txt", "source.txt", "--junit", "none/junit.xml"],
            "cannot write none/junit.xml: there is no folder none",
        ),
        (["good.txt", "source.txt", "--sarif", "."], "cannot write"),
        (["good.txt", "source.txt", "--junit", "x", "--sarif", "x"], "the same file"),
        (["good.txt", "source.txt", "--threshold", "high"], "--threshold"),
        (["good.txt", "source.txt", "--perspective", "x"], "NAME=FILE"),
        (["good.txt", "source.txt", "--encoding", "utf-99"], "unknown encoding"),
        (["good.txt", "source.txt", "--html", "none/page.html"], "cannot write none/page.html"),
        (["good.txt", "source.txt", "--html", "."], "cannot write"),
        (["cases.jsonl"], "cases.jsonl:2: not JSON"),
        (["twice.jsonl"], "twice.jsonl:2: the case id 'a' was there before, at 1"),
        (["cases.jsonl", "source.txt"], "put them into the cases"),
        (["-", "-"], "more than once"),
        (["good.txt", "source.txt", "--html"], "--html"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    (texts / "scan.html").write_text("<!-- only a comment -->")
    (texts / "binary.txt").write_bytes(bytes(range(256)))
    (texts / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (texts / "huge.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    (texts / "cases.jsonl").write_text('{"response": "a", "sources": ["a"]}\n{"response\n')
    (texts / "twice.jsonl").write_text('{"id": "a", "response": "a", "sources": ["a"]}\n{"id": "a", "response": "b"}\n')
    before = {p.name for p in texts.iterdir()}
    monkeypatch.chdir(texts)
    detector = () if "-d" in arguments else OVERLAP
    assert main(["check", *detector, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("veridical: ")
    assert says in line
    assert {p.name for p in texts.iterdir()} == before, "nothing half-written is left"


def test_a_page_that_cannot_be_written_leaves_the_old_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "c.jsonl").write_text('{"response": "a", "sources": ["a"]}\nbroken\n')
    assert run("check", *OVERLAP, "c.jsonl", "--html", "page.html").returncode == 2
    assert (tmp_path / "page.html").read_text() == "old"


def test_wrong_encoding_can_be_named(run: Run, tmp_path: Path) -> None:
    for name in ("latin.txt", "source.txt"):
        (tmp_path / name).write_bytes("Grüße aus Köln".encode("latin-1"))
    assert run("check", *OVERLAP, "latin.txt", "source.txt", "--encoding", "latin-1").returncode == 0


def test_a_closed_pipe(tmp_path: Path) -> None:
    line = json.dumps({"response": "red " * 200, "sources": ["blue"]})
    (tmp_path / "c.jsonl").write_text("".join(f"{line}\n" for _ in range(300)))
    for extra in (["--json"], []):
        process = start_python("-m", "veridical", "check", *OVERLAP, "c.jsonl", *extra, cwd=tmp_path, stdin=None)
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        process.stdout = None
        said = process.communicate(timeout=LIMIT)[1].decode()
        assert process.returncode == 141
        assert said == "veridical: the reader of the output went away\n"


def test_ctrl_c(tmp_path: Path) -> None:
    command = ("-m", "veridical", "check", *OVERLAP, "-", "--cases", "--json", "--html", "page.html")
    process = start_python(*command, cwd=tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    line = json.dumps({"response": "red " * 2000, "sources": ["blue"]}).encode() + b"\n"
    process.stdin.write(line * 64)  # a whole batch, so that output begins
    process.stdin.flush()
    process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=LIMIT)[1].decode()
    assert process.returncode == 130
    assert said == "veridical: interrupted; nothing half-written was left\n"
    assert not list(tmp_path.iterdir())


def test_explain_shows_what_the_source_has_instead(run: Run, texts: Path) -> None:
    (texts / "other.txt").write_text("The tower is 300 m tall.")
    command = ("check", "other.txt", "source.txt", "-d", "overlap")
    plain, explained = run(*command), run(*command, "--explain")
    assert (plain.returncode, explained.returncode) == (1, 1)
    assert "instead: 330" not in plain.stdout
    for words in (
        "contradiction",
        "the source has 330 m, not 300 m",
        "instead: 330",
        "The tower is 330 m tall and grey.",
    ):
        assert words in explained.stdout
    verified = run("check", "other.txt", "source.txt", "-d", "verify", "--explain")
    assert "instead: The tower is 330 m tall." in verified.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "bad.txt", "source.txt", "--html", "source.txt"),
        ("check", "bad.txt", "source.txt", "--junit", "bad.txt"),
        ("check", "bad.txt", "--must-cover", "source.txt", "--sarif", "./source.txt"),
        ("check", "bad.txt", "--perspective", "pro=source.txt", "--html", "link.html"),
        ("check", "cases.jsonl", "--html", "cases.jsonl"),
        ("revise", "bad.txt", "source.txt", "--checker", "overlap", "--html", "source.txt"),
    ],
)
def test_no_report_overwrites_an_input(
    texts: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (texts / "cases.jsonl").write_text('{"response": "It is red.", "sources": ["It is grey."]}')
    (texts / "link.html").symlink_to(texts / "source.txt")
    before = {path.name: path.read_bytes() for path in texts.iterdir()}
    monkeypatch.chdir(texts)
    assert main([*arguments, *(OVERLAP if arguments[0] == "check" else ())]) == 2
    assert f"veridical: {Path(arguments[-1])} is an input, which would be overwritten" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in texts.iterdir()} == before


def test_a_response_is_not_its_own_source(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *OVERLAP, str(texts / "bad.txt"), str(texts / "bad.txt")]) == 2
    assert "bad.txt is both the response and a source" in capsys.readouterr().err
    (texts / "rows.csv").write_text("response;sources\nIt is red.;It is grey.\n")
    assert main(["check", *OVERLAP, str(texts / "rows.csv"), "--source", "response"]) == 2
    assert "the column 'response' is both the response and a source" in capsys.readouterr().err


def test_a_source_of_only_a_byte_order_mark_is_empty(texts: Path) -> None:
    (texts / "mark.txt").write_bytes(b"\xef\xbb\xbf")
    assert main(["check", *OVERLAP, str(texts / "bad.txt"), str(texts / "mark.txt")]) == 3


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_delimiter_that_cannot_be(texts: Path, delimiter: str, capsys: pytest.CaptureFixture[str]) -> None:
    (texts / "rows.csv").write_text("response;sources\nIt is red.;It is grey.\n")
    assert main(["check", *OVERLAP, str(texts / "rows.csv"), "--delimiter", delimiter]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"veridical: the delimiter is {delimiter!r} (one character such as ; or |")
    assert said.count("\n") == 1


def test_gzip_data_by_another_name(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (texts / "cases.jsonl").write_bytes(gzip.compress(b"{}"))
    assert main(["check", *OVERLAP, str(texts / "cases.jsonl")]) == 2
    assert "gzip data, not text (give it a name that ends in .gz)" in capsys.readouterr().err


def test_a_report_that_is_a_folder_is_refused_before_anything_is_judged(
    texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", *OVERLAP, str(texts / "bad.txt"), str(texts / "source.txt"), "--html", str(texts)]
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"veridical: cannot write {texts}: it is a folder (name a file in it)\n")
