"""Histories for tests, and a server of PostgreSQL that ends with its block."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from veridical.detectors import load_detector
from veridical.records.types import Case, Checked, Source
from veridical.workflows.checking import check_cases

WRONG = "The tower is 300 m tall."
RIGHT = "The tower is 330 m tall."
MUSEUM = "The musée paid 1,200.50 for the tower, which is tall."
SOURCE = Source("guide", f"{RIGHT} {MUSEUM}")


def checked(*responses: str) -> list[Checked]:
    """Results of the detector "overlap"."""
    cases = [Case(str(i), response, (SOURCE,)) for i, response in enumerate(responses, 1)]
    return list(check_cases(cases, [load_detector("overlap")], explain=True))


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database on a socket of this machine; skips the test where there is no PostgreSQL."""
    if not all(shutil.which(name) for name in ("initdb", "pg_ctl")):
        pytest.skip("there is no PostgreSQL on this machine")
    as_user: Sequence[str] = ()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket has to be short
    if os.getuid() == 0:  # the server refuses to run as root
        as_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        os.chown(folder, 65534, 65534)

    def run(*command: str) -> None:
        done = subprocess.run([*as_user, *command], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    try:
        run("initdb", "-D", f"{folder}/data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
        run("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options, "-w", "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
