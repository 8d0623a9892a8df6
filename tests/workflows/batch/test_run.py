"""A batch in its folder: every row once, the same bytes however often it was killed, and nobody else's folder."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import LIMIT, is_running, python, start_python
from tests.server.services import until
from veridical.detectors.overlap.detector import Overlap
from veridical.io.rows import Columns
from veridical.io.serialization import decode
from veridical.records.errors import CannotJudgeError, DataError, InputError, OutputError, UnknownNameError
from veridical.records.types import Case, Judgement, Source
from veridical.workflows.batch import BatchSettings, run_batch
from veridical.workflows.batch import folder as batch_folder
from veridical.workflows.batch.folder import BatchFolder, read_manifest, read_shards
from veridical.workflows.batch.worker import STOP_AFTER, batches

WARM_UP = 1  # the case that each run judges first


class Killed(BaseException):
    """Ends a run as a kill would, without the cost of a process."""


class Killing(Overlap):
    """Word overlap that is killed at its n-th case."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at + WARM_UP

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.left -= len(cases)
        if self.left < 0:
            raise Killed
        return super().judge(cases)


def write_rows(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def good(i: int) -> str:
    return json.dumps(
        {"response": f"The tower is {i} m tall.", "sources": ["The tower is 7 m tall."], "system": "ab"[i % 2]}
    )


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


def job(path: Path, out: Path, **options: Any) -> BatchSettings:
    given: dict[str, Any] = {"detectors": ["overlap"], "columns": Columns(group="system"), "shard_rows": 3}
    return BatchSettings([path], out, **{**given, **options})


def killed_writes(at: int, share: float) -> Any:
    """Let the n-th write of a run be its last: a file that is there or not, or a part of what is added to one."""
    whole, append, left = batch_folder.write_whole, batch_folder._append, [at]

    def write(path: Path, content: str | bytes, **options: Any) -> None:
        left[0] -= 1
        if left[0] >= 0 or share == 1:
            whole(path, content, **options)
        if left[0] < 0:
            raise Killed

    def add(path: Path, data: bytes) -> None:
        left[0] -= 1
        append(path, data if left[0] >= 0 else data[: round(share * len(data))])
        if left[0] < 0:
            raise Killed

    return mock.patch.multiple(batch_folder, write_whole=write, _append=add)


DAMAGED = (
    *("manifest.json", "shards.jsonl", "failed.jsonl", "report.json"),
    *("results-00000.jsonl", "results-00001.jsonl", "scores-00000.jsonl"),
)
LINE = st.one_of(
    st.integers(0, 9).map(good), st.sampled_from(["{", "[1]", '{"response": 3}', '{"sources": ["a"]}', "  "])
)
KILL = st.one_of(st.integers(0, 12), st.tuples(st.integers(0, 12), st.sampled_from([0.0, 0.5, 0.99, 1.0])))


@settings(max_examples=15)
@given(lines=st.lists(LINE, min_size=1, max_size=14), shard_rows=st.integers(1, 6), kills=st.lists(KILL, max_size=4))
def test_every_row_is_there_once_whatever_was_killed(
    lines: list[str], shard_rows: int, kills: list[int | tuple[int, float]]
) -> None:
    lines = [good(1), *lines]
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = write_rows(folder / "rows.jsonl", lines)
        run_batch(job(path, folder / "whole", shard_rows=shard_rows))
        for kill in kills:
            try:
                if isinstance(kill, int):
                    run_batch(job(path, folder / "killed", shard_rows=shard_rows, detectors=[Killing(kill)]))
                else:
                    with killed_writes(*kill):
                        run_batch(job(path, folder / "killed", shard_rows=shard_rows))
            except Killed:
                pass
        run_batch(job(path, folder / "killed", shard_rows=shard_rows))
        whole = files_in(folder / "whole")
        assert files_in(folder / "killed") == whole

        def records(prefix: str) -> list[Any]:
            return [decode(x) for name in sorted(whole) if name.startswith(prefix) for x in whole[name].splitlines()]

        judged, failed = records("scores-"), records("failed")
        assert sorted(row.row for row in (*judged, *failed)) == list(
            range(1, 1 + sum(map(bool, map(str.strip, lines))))
        )
        assert [checked.case.id for checked in records("results-")] == [row.id for row in judged]


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(40)])
    run_batch(job(path, tmp_path / "whole", shard_rows=8))
    code = f"""
import os, signal
from pathlib import Path
from veridical.workflows.batch import BatchSettings, run_batch
from veridical.io.rows import Columns
from veridical.detectors.overlap.detector import Overlap

class Killing(Overlap):
    left = 25
    def judge(self, cases):
        self.left -= len(cases)
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().judge(cases)

run_batch(BatchSettings([Path({str(path)!r})], Path({str(tmp_path / "out")!r}), [Killing()],
                        columns=Columns(group="system"), shard_rows=8))
"""
    assert python("-c", code).returncode == -9
    assert [shard.rows for shard in read_shards(tmp_path / "out")] == [8] * 3
    (tmp_path / "out" / ".results-00003.jsonl.0123456789ab.part").write_text("torn")
    run_batch(job(path, tmp_path / "out", shard_rows=8))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "whole")


def test_a_finished_job_judges_nothing_again_and_a_damaged_shard_is_made_again(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(8)] + ["{"])
    report = run_batch(job(path, tmp_path / "out"))
    whole = files_in(tmp_path / "out")
    assert run_batch(job(path, tmp_path / "out", detectors=[Killing(0)])) == report
    (tmp_path / "out" / "results-00001.jsonl").write_bytes(whole["results-00001.jsonl"][:-1])
    with pytest.raises(Killed):
        run_batch(job(path, tmp_path / "out", detectors=[Killing(0)]))
    run_batch(job(path, tmp_path / "out"))
    assert files_in(tmp_path / "out") == whole


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), name=st.sampled_from(list(DAMAGED)))
def test_a_flipped_bit_in_any_file_is_made_good_or_refused(place: float, bit: int, name: str) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = write_rows(folder / "rows.jsonl", [good(1), "{", good(2), good(3), "[1]", good(4)])
        run_batch(job(path, folder / "out"))
        whole = files_in(folder / "out")
        data = bytearray(whole[name])
        data[int(place * len(data))] ^= 1 << bit
        (folder / "out" / name).write_bytes(data)
        try:
            run_batch(job(path, folder / "out"))
        except InputError:
            assert name == "manifest.json"
        else:
            assert files_in(folder / "out") == whole


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(4000)])
    code = f"""
from pathlib import Path
from veridical.workflows.batch import BatchSettings, run_batch
if __name__ == "__main__":
    out = Path({str(tmp_path / "out")!r})
    run_batch(BatchSettings([Path({str(path)!r})], out, ["overlap"], shard_rows=5, workers=2))
"""
    script = tmp_path / "run.py"
    script.write_text(code)
    parent = start_python(str(script))
    until(lambda: len(read_shards(tmp_path / "out")) > 1)
    workers = [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    assert len(workers) >= 2
    parent.kill()
    parent.communicate(timeout=LIMIT)
    until(lambda: not any(is_running(pid) for pid in workers))


@pytest.mark.parametrize("name", ["manifest.json", "shards.jsonl", "failed.jsonl", "results-00000.jsonl", ".lock"])
def test_no_link_in_the_folder_is_followed(tmp_path: Path, name: str) -> None:
    path, target = write_rows(tmp_path / "in.jsonl", [good(0), "no row"]), tmp_path / "target"
    run_batch(job(path, tmp_path / "out"))
    target.write_bytes((tmp_path / "out" / name).read_bytes())
    (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / name).symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(InputError, match=rf"out holds a symbolic link: {re.escape(name)}"):
        run_batch(job(path, tmp_path / "out"))
    assert target.read_bytes() == before


@pytest.mark.parametrize("name", ["scores-00000.jsonl", "failed.jsonl", "shards.jsonl", "report.json"])
def test_no_link_that_appears_during_the_run_is_followed(tmp_path: Path, name: str) -> None:
    path, target = write_rows(tmp_path / "in.jsonl", [good(0), "no row"]), tmp_path / "target"
    target.write_text("kept")

    class Linking(Killing):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            if (tmp_path / "out").is_dir():  # not for the case that warms the detector up
                (tmp_path / "out" / name).unlink(missing_ok=True)
                (tmp_path / "out" / name).symlink_to(target)
            return super().judge(cases)

    with pytest.raises(OutputError, match="symbolic link"):
        run_batch(job(path, tmp_path / "out", detectors=[Linking(9)]))
    assert target.read_text() == "kept"


def test_a_rerun_deletes_no_file_of_the_user(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(8)])
    run_batch(job(path, tmp_path / "out"))
    own = ["results-by-team.csv", "scores-2026.xlsx", "movie.part", ".results-00001.jsonl.part", "results-00001.csv"]
    for name in own:
        (tmp_path / "out" / name).write_text("mine")
    left = [f".{name}.0123456789ab.part" for name in ("shards.jsonl", "report.html", "scores-00002.jsonl")]
    for name in left:
        (tmp_path / "out" / name).write_text("torn")
    (tmp_path / "out" / "results-00001.jsonl").write_text("damaged")
    run_batch(job(path, tmp_path / "out"))
    files = files_in(tmp_path / "out")
    assert [files[name] for name in own] == [b"mine"] * len(own)
    assert not set(left) & set(files)
    assert b"damaged" not in files["results-00001.jsonl"]


@pytest.mark.parametrize("change", ["rows", "time", "gone"])
@pytest.mark.parametrize("workers", [1, 2])
def test_input_that_changes_during_a_run_ends_it_and_the_rows_are_not_kept(
    tmp_path: Path, change: str, workers: int
) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(9)])

    def note(done: int, total: int) -> None:
        if change == "gone":
            path.unlink(missing_ok=True)
        elif done == 0:
            if change == "rows":
                write_rows(path, [good(10 + i) for i in range(9)])
            os.utime(path, (1, 1))

    with pytest.raises(DataError, match="the input was changed during the run"):
        run_batch(job(path, tmp_path / "out", progress=note, workers=workers))
    assert read_shards(tmp_path / "out") == []
    assert not (tmp_path / "out" / "report.json").exists()


@pytest.mark.parametrize("kept", [0, 1, 60, -1])
def test_a_shard_counts_once_its_line_is_whole(tmp_path: Path, kept: int) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [*(good(i) for i in range(5)), "{"])
    run_batch(job(path, tmp_path / "out"))
    whole = files_in(tmp_path / "out")
    first, second = whole["shards.jsonl"].splitlines(keepends=True)
    (tmp_path / "out" / "shards.jsonl").write_bytes(first + second[:kept])
    assert len(read_shards(tmp_path / "out")) == 1
    run_batch(job(path, tmp_path / "out"))
    assert files_in(tmp_path / "out") == whole


def test_a_further_shard_adds_a_line_and_leaves_the_manifest_as_it_is(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(9)])
    sizes: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        manifest, shards = (tmp_path / "out" / name for name in ("manifest.json", "shards.jsonl"))
        sizes.append((manifest.stat().st_size, shards.stat().st_size))

    with mock.patch.object(batch_folder, "write_whole", wraps=batch_folder.write_whole) as written:
        run_batch(job(path, tmp_path / "out", progress=note))
    names = Counter(call.args[0].name for call in written.call_args_list)
    assert names["manifest.json"] == names["shards.jsonl"] == 1
    assert len({manifest for manifest, _ in sizes}) == 1
    assert sorted({shards for _, shards in sizes}) == [i * sizes[-1][1] // 3 for i in range(4)]


def test_explained_rows_have_corrections(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(3)])
    for explain in (False, True):
        out = tmp_path / f"{explain}"
        run_batch(job(path, out, explain=explain))
        (judgement,) = decode((out / "results-00000.jsonl").read_text()).judgements
        assert [v.correction for v in judgement.verdicts if v.correction] == (["7"] if explain else [])
        assert decode((out / "report.json").read_text()).kinds == ({"value": 1} if explain else {})


def test_rows_with_the_same_id_are_distinguished_by_their_numbers_and_counted(tmp_path: Path) -> None:
    ids = ["a", "b", "a", None, "a", "4"]  # the fourth is called by its number
    rows = [
        json.dumps({"response": f"It is {i}.", "sources": ["It is 1."], **({} if id is None else {"id": id})})
        for i, id in enumerate(ids)
    ]
    report = run_batch(job(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "out"))
    assert report.repeated_ids == 3
    for name in ("00000", "00001"):
        scores, results = (
            [decode(line) for line in (tmp_path / "out" / f"{kind}-{name}.jsonl").read_text().splitlines()]
            for kind in ("scores", "results")
        )
        assert [checked.case.response for checked in results] == [f"It is {row.row - 1}." for row in scores]
        assert [checked.case.id for checked in results] == [row.id for row in scores]


def test_processes_give_the_same_files(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [*map(good, range(9)), "{"])
    run_batch(job(path, tmp_path / "one"))
    run_batch(job(path, tmp_path / "two", workers=2))
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own options
def test_ray_gives_the_same_files(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    path = write_rows(tmp_path / "rows.jsonl", [*map(good, range(9)), "{"])
    run_batch(job(path, tmp_path / "one"))
    run_batch(job(path, tmp_path / "two", workers=2, engine="ray"))
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


@pytest.mark.parametrize(
    "change, says",
    [
        ({"detectors": ["length"]}, "its detector is overlap, not length"),
        ({"columns": Columns()}, "its group column is 'system', not None"),
        ({"threshold": 0.4}, "its option thresholds is None"),
        ({"shard_rows": 2}, "its option shard_rows is 3, not 2"),
        ({"explain": True}, "its option explain is False, not True"),
        ({"encoding": "cp1252"}, "its option encoding is utf-8, not cp1252"),
        ({"input": good(5)}, "its input is another one"),
    ],
)
def test_another_jobs_folder_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(4)])
    run_batch(job(path, tmp_path / "out"))
    before = files_in(tmp_path / "out")
    if "input" in change:
        write_rows(path, [change.pop("input")])
    with pytest.raises(InputError, match="holds the results of another job") as refused:
        run_batch(job(path, tmp_path / "out", **change))
    assert says in str(refused.value)
    assert files_in(tmp_path / "out") == before


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(1)])
    with pytest.raises(InputError, match=r"has no manifest\.json and is not empty"):
        run_batch(job(path, tmp_path))
    with pytest.raises(InputError, match="is not a folder"):
        run_batch(job(path, path))
    (tmp_path / "out").mkdir()
    for version in ("1", "9"):  # of version 1, the manifest named the shards
        (tmp_path / "out" / "manifest.json").write_text(f'{{"veridical": "batch/{version}", "shards": []}}')
        with pytest.raises(InputError, match=f"a batch of version '{version}'") as refused:
            run_batch(job(path, tmp_path / "out"))
        assert str(refused.value).count("\n") == 0
        assert "choose another folder" in str(refused.value)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = write_rows(tmp_path / "rows.jsonl", [good(1)])
    run_batch(job(path, tmp_path / "out"))
    manifest = read_manifest(tmp_path / "out")
    assert manifest is not None
    with BatchFolder.open(tmp_path / "out", manifest), pytest.raises(OutputError, match="another process is at work"):
        run_batch(job(path, tmp_path / "out"))


class Fragile(Overlap):
    """Word overlap that cannot take some responses."""

    def __init__(self, error: Exception, when: Callable[[str], bool]) -> None:
        super().__init__()
        self.error = error
        self.when = when

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        for case in cases:
            if self.when(case.response):
                raise self.error
        return super().judge(cases)


def test_a_row_that_a_detector_cannot_take_fails_alone(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(20)])
    detector = Fragile(IndexError("no such\nword"), lambda text: " 11 m" in text)
    run_batch(job(path, tmp_path / "out", detectors=[detector], shard_rows=100))
    (failed,) = (decode(line) for line in (tmp_path / "out" / "failed.jsonl").read_text().splitlines())
    assert (failed.row, failed.place, failed.id, failed.content) == (12, 12, "12", good(11))
    assert failed.reason == "IndexError: no such word"


@pytest.mark.parametrize("error", [RuntimeError("out of order"), OSError("disk")])
def test_a_detector_that_takes_no_row_ends_the_run(tmp_path: Path, error: Exception) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(STOP_AFTER)])
    detector = Fragile(error, lambda text: "tower" in text)
    with pytest.raises(type(error), match=str(error)):
        run_batch(job(path, tmp_path / "out", detectors=[detector], shard_rows=100))
    run_batch(job(path, tmp_path / "out", shard_rows=100))


def test_settings_that_make_no_sense(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [good(1)])
    for options in ({"shard_rows": 0}, {"workers": 0}, {"address": "auto"}, {"detectors": []}, {"threshold": 2.0}):
        with pytest.raises(InputError):
            job(path, tmp_path / "out", **options)
    for encoding in ("utf-9", "base64"):
        with pytest.raises(InputError, match="unknown encoding"):
            job(path, tmp_path / "out", encoding=encoding)
    with pytest.raises(UnknownNameError, match="unknown engine 'spark'"):
        job(path, tmp_path / "out", engine="spark")
    with pytest.raises(InputError, match="a detector is an object"):
        run_batch(job(path, tmp_path / "out", detectors=[Overlap()], workers=2))
    assert not (tmp_path / "out").exists()


def test_a_spent_budget_keeps_what_was_paid(tmp_path: Path) -> None:
    class Spent:
        refused_requests = 0

        def check_model_used(self, specs: Sequence[str]) -> None:
            pass

    class Paid(Overlap):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            spent.refused_requests = int(any(" 5 m" in case.response for case in cases))
            return super().judge(cases)

    spent = Spent()
    path = write_rows(tmp_path / "rows.jsonl", [good(i) for i in range(9)])
    with pytest.raises(CannotJudgeError, match="the budget is spent"):
        run_batch(job(path, tmp_path / "out", detectors=[Paid()], connection=spent))
    assert [shard.rows for shard in read_shards(tmp_path / "out")] == [3]


def test_batches_hold_cases_of_similar_length_and_all_of_them() -> None:
    cases = [Case(str(i), "x" * size, (Source("a", "y" * size),)) for i, size in enumerate([9, 1, 600_000, 5] * 40)]
    of_sizes = [[len(cases[i].response) for i in batch] for batch in batches(cases)]
    assert sorted(i for batch in batches(cases) for i in batch) == list(range(160))
    assert [size for batch in of_sizes for size in batch] == sorted(len(case.response) for case in cases)
    assert max(map(len, of_sizes)) == 64
    assert [batch for batch in of_sizes if 600_000 in batch] == [[600_000]] * 40
