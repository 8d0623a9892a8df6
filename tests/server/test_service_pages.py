"""Every shell block of the page on the service runs as it is written, against a real service on this machine.

Programs that the blocks call are replaced only where they must be: `veridical serve` and `curl` use a free port, `pip`
checks the names of the extras, and `docker` runs the command of the image without a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.llm.loopback import completion, serving
from tests.processes import LIMIT
from tests.test_container import last_stage

ROOT = Path(__file__).parents[2]

SHIM = r"""#!{python}
import os, re, subprocess, sys, time
from pathlib import Path

name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
folder, port = Path(__file__).parent, os.environ["SERVICE_PORT"]
if name == "curl":
    arguments = [each.replace("127.0.0.1:8000", "127.0.0.1:" + port) for each in arguments]
    os.execv({curl!r}, ["curl", "--fail-with-body", *arguments])
if name == "pip":
    extras = re.fullmatch(r"install veridical\[(.*)\]", " ".join(arguments))[1].split(",")
    sys.exit(None if set(extras) <= set({extras!r}) else f"one of these extras does not exist: {{extras}}")
if name == "docker":
    if arguments[0] == "build":
        sys.exit(not Path({root!r}, arguments[arguments.index("-f") + 1]).is_file())
    image = arguments.index("veridical") if "veridical" in arguments else len(arguments)
    arguments = arguments[image + 1 :] or {command!r}
    arguments = ["keys.txt" if each == "/run/secrets/veridical-keys" else each for each in arguments]
veridical = [sys.executable, "-m", "veridical", *arguments]
if arguments[0] != "serve" or "--new-key" in arguments:
    os.execv(sys.executable, veridical)
addresses = {{"127.0.0.1:8080": os.environ["UPSTREAM"], "0.0.0.0": "127.0.0.1"}}
for written, used in addresses.items():
    veridical = [each.replace(written, used) for each in veridical]
log = folder / "log"
with log.open("w") as errors:
    service = subprocess.Popen([*veridical, "--port", port], stdout=subprocess.DEVNULL, stderr=errors)
(folder / "pid").write_text(str(service.pid))
while "veridical: serving" not in log.read_text():
    if service.poll() is not None:
        sys.exit(log.read_text())
    time.sleep(0.05)
"""


def blocks() -> tuple[list[str], list[str]]:
    """The shell blocks of the page on the service, without those in generated parts: before and in "In a container"."""
    page = (ROOT / "docs" / "serve.md").read_text("utf-8")
    text = re.sub(r"<!-- made by .*?<!-- end: ", "", page, flags=re.DOTALL)
    service, _, container = text.partition("\n## In a container\n")
    found = [re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE) for part in (service, container)]
    return found[0], found[1]


class Shell:
    """Runs blocks in a folder; a service that a block starts runs until another one starts, or to the end."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.folder, self.programs = folder, folder / "bin"
        self.programs.mkdir()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        shim = SHIM.format(
            python=sys.executable,
            curl=shutil.which("curl"),
            root=str(ROOT),
            extras=sorted(project["optional-dependencies"]),
            command=json.loads(last_stage()["CMD"]),
        )
        for name in ("veridical", "curl", "pip", "docker"):
            (self.programs / name).write_text(shim, "utf-8")
            (self.programs / name).chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "SERVICE_PORT": str(port), "UPSTREAM": upstream}

    def run(self, block: str) -> str:
        """Run a block as it is written and return its output; it must succeed."""
        if serves(block):
            self.stop()
        command = ["bash", "-euo", "pipefail", "-c", block]
        options = {"cwd": self.folder, "env": self.environment, "capture_output": True, "text": True, "timeout": LIMIT}
        done = subprocess.run(command, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return str(done.stdout)

    def stop(self) -> None:
        """End the service, if one runs."""
        pid = self.programs / "pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGKILL)
            pid.unlink()


def serves(block: str) -> bool:
    return re.search(r"^veridical serve(?!.*--new-key)|docker compose|docker build", block, re.MULTILINE) is not None


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("needs bash and curl")
    with serving(lambda _: completion("The tower is 300 m tall.")) as server:
        started = Shell(tmp_path, server.url.partition("//")[2].partition("/")[0])
        yield started
        started.stop()


def test_the_page_of_the_service(shell: Shell) -> None:
    plain, outputs = "", []
    for block in blocks()[0]:
        outputs.append(shell.run(block))
        if serves(block) and "--api-keys" in block:  # the blocks that follow send no key
            shell.run(plain)
        elif serves(block):
            plain = block
    text = "\n".join(outputs)
    assert text.count('"outcome": "flagged"') >= 2  # of `POST /v1/check`, and at the end of the stream
    assert "event: result" in text
    assert '"veridical": {"status": "flagged"' in text
    assert len(outputs) >= 6


def test_the_section_on_containers(shell: Shell) -> None:
    case = {"response": "The tower is 330 m tall.", "sources": ["The tower is 330 m tall."]}
    (shell.folder / "cases.jsonl").write_text(json.dumps(case) + "\n", "utf-8")
    outputs = [shell.run(block) for block in blocks()[1]]
    assert '"status":"ok"' in outputs[0]
    assert len(outputs) >= 3
