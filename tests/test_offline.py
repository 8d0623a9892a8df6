"""The commands work without a network and leave nothing behind: what the kernel is asked for, native code included.

Needs strace, which `.ci/run` installs. Python's audit hooks would not see the calls of an inference library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.processes import LIMIT, default_interrupt, python
from tests.server.services import CASE
from veridical.detectors.default.detector import PACKAGED
from veridical.inference.telemetry import SWITCHES

STRACE = shutil.which("strace")
CAN_TRACE = STRACE is not None and not subprocess.run([STRACE, "-qq", "-o", os.devnull, "true"], check=False).returncode
traced = pytest.mark.skipif(
    not (CAN_TRACE and PACKAGED.is_dir()), reason="no strace that may trace, or no default detector in this checkout"
)
OPEN = ("open", "openat", "openat2")
CHANGES = ("creat", "mkdir", "mknod", "rename", "link", "symlink", "unlink", "rmdir", "truncate", "chmod", "chown")
WATCHED = [*OPEN, *CHANGES, *(f"{name}at" for name in CHANGES), "renameat2", "fchownat", "fchmodat", "%network"]
CALL = re.compile(r"^(\d+) +(\w+)\((.*)")
QUOTED = re.compile(r'(?:<([^<>"]*)>, )?"((?:[^"\\]|\\.)*)"')
NAME_SERVICES = ("/etc/resolv.conf", "/etc/hosts", "nscd/socket")
LARGE = "The tower is 330 m tall. " * 50_000  # more than an upload is kept in memory for by default


@dataclass
class Calls:
    """What a process and its children asked the kernel for, as strace wrote it; `folder` is where they began."""

    lines: list[str]
    folder: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The name and arguments of each call."""
        for line in self.lines:
            if call := CALL.match(line):
                yield call[2], call[3]

    def changed(self) -> set[str]:
        """The files and folders that were made, opened for writing, renamed or removed, or that this was tried with."""
        paths: set[str] = set()
        for name, arguments in self:
            if name in OPEN and not re.search("O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE|O_TRUNC", arguments):
                continue
            if name in OPEN or name.removesuffix("2").removesuffix("at").removeprefix("f") in CHANGES:
                given = QUOTED.findall(arguments)
                paths |= {os.path.normpath(self.folder / folder / path) for folder, path in given}
        return {path for path in paths if not path.startswith("/dev/")}

    def contacts(self) -> list[str]:
        """Internet sockets, connections, and files that are read to look up a name."""
        found = []
        for name, arguments in self:
            internet = name == "socket" and not arguments.startswith(("AF_UNIX", "AF_NETLINK"))
            looked_up = name in OPEN and any(path in arguments for path in NAME_SERVICES)
            addressed = name.startswith("send") and "sa_family=" in arguments
            if internet or looked_up or addressed or name == "connect":
                found.append(f"{name}({arguments}")
        return found


@pytest.fixture(params=["ordinary", "empty", "read-only"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment variables of a user who has set no switch, with a home folder of some kind."""
    home = tmp_path / "home"
    home.mkdir()
    if request.param == "ordinary":
        (home / ".cache").mkdir()
        (home / ".config").mkdir()
    elif request.param == "read-only":
        home = Path("/proc")  # nobody can make a file in it, not even root
    switches = {name for name, _ in SWITCHES.values()}
    kept = {name: value for name, value in os.environ.items() if name not in switches and not name.startswith("XDG_")}
    return {**kept, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}  # its cache is the interpreter's, not ours


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE) + "\n", encoding="utf-8")
    (tmp_path / "source.md").write_text("# Towers\n\nThe tower is 330 m tall.", encoding="utf-8")
    (tmp_path / "response.txt").write_text("The tower is 300 m tall.", encoding="utf-8")
    return folder


def start_traced(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start `veridical ARGUMENTS` in `folder` under strace."""
    watched = ",".join(name if name.startswith("%") else f"?{name}" for name in WATCHED)
    trace = ["-f", "-y", "-s", "4096", "--seccomp-bpf", "-o", str(folder.parent / "trace"), "-e", f"trace={watched}"]
    return subprocess.Popen(
        [str(STRACE), *trace, sys.executable, "-m", "veridical", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_interrupt,
    )


def calls_of(folder: Path) -> Calls:
    return Calls((folder.parent / "trace").read_text("utf-8", "replace").splitlines(), folder)


def outside(calls: Calls) -> list[str]:
    """What was changed outside the folder of the outputs."""
    return sorted(path for path in calls.changed() if not Path(path).is_relative_to(calls.folder))


@traced
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "../response.txt", "../source.md", "--html", "page.html", "--junit", "junit.xml"],
        ["batch", "../cases.jsonl", "results", "--workers", "2"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_reaches_nobody_and_writes_its_outputs_only(
    environment: dict[str, str], outputs: Path, arguments: list[str]
) -> None:
    process = start_traced(outputs, environment, *arguments)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, errors
    calls = calls_of(outputs)
    assert calls.contacts() == []
    assert outside(calls) == []
    assert calls.changed()  # the trace does show what is written


@traced
def test_the_service_reaches_nobody_and_writes_nothing(environment: dict[str, str], outputs: Path) -> None:
    process = start_traced(outputs, environment, "serve", "--port", "0")
    assert process.stderr is not None
    url = process.stderr.readline().split()[-1]
    pid = int((outputs.parent / "trace").read_text("utf-8").split(maxsplit=1)[0])
    try:
        with httpx.Client(base_url=url, timeout=LIMIT, trust_env=False) as client:
            checked = client.post("/v1/check", json={"cases": [CASE]})
            assert checked.json()["results"][0]["outcome"] == "flagged"
            assert client.post("/v1/documents", files={"file": ("large.txt", LARGE)}).status_code == 200
            assert client.get("/").status_code == 200
    finally:
        os.kill(pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, errors
    calls = calls_of(outputs)
    (listening,) = calls.contacts()
    assert listening.startswith("socket(AF_INET, SOCK_STREAM")
    bound = [arguments for name, arguments in calls if name == "bind"]
    assert len(bound) == 1
    assert 'inet_addr("127.0.0.1")' in bound[0]
    assert calls.changed() == set()


IMPORTS = """
import json, os, sys
before = dict(os.environ)
import veridical, veridical.cli
assert dict(os.environ) == before, "an import has changed the environment"

from importlib.abc import MetaPathFinder
from types import ModuleType
from veridical.records.errors import MissingExtraError
from veridical.inference.telemetry import SWITCHES

seen = {}

class Watcher(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in SWITCHES:
            seen[name] = os.environ.get(SWITCHES[name][0])
            raise ImportError(name)

sys.meta_path.insert(0, Watcher())
sys.modules["torch"] = ModuleType("torch")

from veridical.workflows.batch.ray_engine import on_ray
from veridical_lab.datasets.hf import _load
from veridical.inference.checkpoint import checkpoint_folder
from veridical.inference.local_model import require_models
from veridical.inference.onnx_runtime import open_session

calls = lambda: list(on_ray([], None, 1)), lambda: _load("x", None), lambda: open_session(b"")
for call in (*calls, lambda: checkpoint_folder("owner/model"), require_models):
    try:
        call()
    except (ImportError, MissingExtraError):
        pass
print(json.dumps(seen))
"""


@pytest.mark.parametrize("given", [None, "their own"])
def test_telemetry_is_off_before_a_library_is_imported_unless_the_user_says_otherwise(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in dict(SWITCHES.values())}
    if given is not None:
        environment |= {name: given for name, _ in SWITCHES.values()}
    done = python("-c", IMPORTS, text=True, check=True, env=environment)
    assert json.loads(done.stdout) == {library: given or off for library, (_, off) in SWITCHES.items()}


MODULES = [path for folder in ("src", "lab/src") for path in (Path(__file__).parents[1] / folder).rglob("*.py")]


def test_libraries_with_telemetry_are_imported_in_one_place() -> None:
    """Of transformers only the first import counts, which `require_models` makes."""
    first = "|".join(library for library in SWITCHES if library != "transformers")
    direct = re.compile(rf"^\s*(import|from) ({first})\b(?!.*TYPE_CHECKING)", re.MULTILINE)
    assert not [path for path in MODULES if direct.search(path.read_text("utf-8"))]
