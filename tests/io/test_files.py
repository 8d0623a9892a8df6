"""Files come in with one clear line for each way to fail, and go out whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from veridical.inference.fetched import models_folder
from veridical.io.files import expanded, read_bytes, read_text, replacing, write_whole
from veridical.records.errors import DataError, InputError, OutputError


def test_a_text_comes_in_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\r")
    assert read_text(path) == "a\r\nb\r"


def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(DataError, match="larger than 1,000 bytes"):
        read_bytes(Path("/dev/zero"), max_bytes=1000)


def test_a_text_in_place_of_a_file_is_refused_with_a_hint() -> None:
    with pytest.raises(DataError, match="a text has to be in a file"):
        read_text(Path("The tower is 300 m tall."))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(mode=0)
    with pytest.raises(DataError, match="cannot be read"):
        read_text(path)


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "é\r\n")
    assert path.read_bytes() == "é\r\n".encode()
    path.chmod(0o640)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640, "permissions stay"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    write_whole(tmp_path / "a", "x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_umask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", lambda mask: pytest.fail("another thread would create files with this mask"))
            write_whole(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.png", b"\x89PNG\r\n")
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG\r\n"


def test_what_a_block_leaves_behind_takes_the_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with suppress(ZeroDivisionError), replacing(path) as part:
        part.write_text("half")
        1 / 0  # noqa: B018
    assert path.read_text() == "old"
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(OutputError, match="surrogate"):
        write_whole(path, "half \ud800")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_link_that_the_user_did_not_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")
    with pytest.raises(OutputError, match="it is a symbolic link"):
        write_whole(tmp_path / "link", "new", follow_link=False)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_device_is_written_to_directly() -> None:
    write_whole(Path("/dev/null"), "x")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("bad", ["none/a.txt", "."])
def test_what_cannot_be_written(tmp_path: Path, bad: str) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_whole(tmp_path / bad, "x")


def test_a_home_folder_that_the_system_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert expanded("~/model") == tmp_path / "model"

    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    assert expanded("~nobody/model.gguf") == Path("~nobody/model.gguf")
    for name in ("VERIDICAL_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="no home folder for models"):
        models_folder()
