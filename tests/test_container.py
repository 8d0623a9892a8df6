"""The container files: not built here, but read as a builder reads them, and linted where hadolint is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from typer.main import get_command

from tests.processes import LIMIT, python
from tests.server.test_running import running
from veridical import cli
from veridical.server.keys import Key
from veridical.server.settings import Limits, ServerSettings

ROOT = Path(__file__).parents[1]
FILE = ROOT / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text("utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [(name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


def last_stage() -> dict[str, str]:
    """The instructions of the image that is run, the last one of each name."""
    last = max(i for i, (name, _) in enumerate(instructions()) if name == "FROM")
    return dict(instructions()[last:])


def test_the_base_is_pinned_and_slim() -> None:
    bases = [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    assert bases
    assert not [base for base in bases if not re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", base)]
    assert len(set(bases)) == 1, "the packages are built for the Python that runs them"


def needs(requirement: Requirement, version: str) -> list[Requirement]:
    """What a package and its extras need."""
    read = [Requirement(line) for line in distribution(requirement.name).requires or ()]
    versions = [{"python_version": version, "extra": extra} for extra in requirement.extras or {""}]
    return [one for one in read if one.marker is None or any(map(one.marker.evaluate, versions))]


def test_versions_are_those_that_are_tested() -> None:
    """Whenever the image is built, it holds the same, also with the parts for a history that its docs add."""
    (install,) = (command for name, command in instructions() if name == "RUN" and "pip install" in command)
    assert "-c constraints.txt" in install
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    (version,) = set(re.findall(r"^FROM python:(\d+\.\d+)", FILE.read_text("utf-8"), flags=re.MULTILINE))
    extras = re.findall(r'"\.\[([\w,]+)\]"', install)[0]
    wanted, seen, tested = [Requirement(f"veridical[{extras},history,postgres]")], set(), {}
    while wanted:
        one = wanted.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if (name, frozenset(one.extras)) not in seen:
            seen.add((name, frozenset(one.extras)))
            tested[name] = distribution(name).version
            wanted += needs(one, version)
    del tested["veridical"]
    assert len(tested) > 50
    assert {name: pins.get(name) for name in tested} == tested


def test_it_does_not_run_as_root() -> None:
    user, group = map(int, last_stage()["USER"].split(":"))
    assert min(user, group) > 0


def test_the_health_check_asks_the_port_that_is_served() -> None:
    stage = last_stage()
    port = stage["EXPOSE"]
    _, _, command = stage["HEALTHCHECK"].partition("CMD ")
    program, option, code = json.loads(command)
    assert (program, option) == ("python", "-c")
    served = json.loads(stage["CMD"])
    assert served[served.index("--port") + 1] == port
    proxied = {**os.environ, "http_proxy": "http://127.0.0.1:1"}  # which Docker sets where its settings have a proxy
    with running(ServerSettings(detectors=("overlap",), keys=(Key("a", "0" * 64),))) as url:
        assert python("-c", code.replace(port, url.rpartition(":")[2]), env=proxied).returncode == 0
    assert python("-c", code.replace(port, url.rpartition(":")[2])).returncode == 1, "the service has ended"


def test_the_command_line_is_a_real_one() -> None:
    stage = last_stage()
    assert json.loads(stage["ENTRYPOINT"]) == ["veridical"]
    name, *arguments = json.loads(stage["CMD"])
    command = get_command(cli.app).commands[name]  # type: ignore[attr-defined]
    values = command.make_context(name, arguments).params
    assert values["host"] == "0.0.0.0"
    assert values["api_keys"] is not None, "an address that others reach needs keys"


def test_all_that_is_copied_exists_and_is_not_ignored() -> None:
    rules = [r for r in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if r and not r.startswith("#")]
    copied = [a.split()[:-1] for name, a in instructions() if name == "COPY" and not a.startswith("--from")]
    assert sorted(f"!{path}" for paths in copied for path in paths) == sorted(r for r in rules if r.startswith("!"))
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists()
        last = [rule for rule in rules if fnmatch(path, rule.removeprefix("!"))][-1]
        assert last == f"!{path}"
    assert rules[0] == "*", "nothing else is sent to the builder, such as a file of keys"


def test_compose_starts_the_same_service() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    service = compose["services"]["veridical"]
    assert (ROOT / service["build"]["dockerfile"]) == FILE
    (secret,) = service["secrets"]
    assert f"/run/secrets/{secret}" in json.loads(last_stage()["CMD"])
    assert secret in compose["secrets"]
    assert [port.split(":")[0] for port in service["ports"]] == ["127.0.0.1"]
    assert service["user"] == f"${{VERIDICAL_USER:-{last_stage()['USER']}}}"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def test_the_service_and_its_readers_of_documents_fit_into_the_memory_of_the_container() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    given, limits = compose["services"]["veridical"]["mem_limit"], Limits()
    assert given == "2g"
    service = 700 * 1024**2  # with the default detector at work
    assert limits.documents * limits.document_memory + limits.memory_bytes + service < 2 * 1024**3


def test_the_threads_of_many_processors_are_not_too_many() -> None:
    """A detector has a pool, and two encoders that each start a thread for each processor."""
    service = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["veridical"]
    assert service["pids_limit"] > 3 * 512


def test_whatever_stops_the_service_waits_for_its_answers() -> None:
    page, compose = ((ROOT / name).read_text("utf-8") for name in ("docs/serve.md", "compose.yaml"))
    waits = re.findall(r"--stop-timeout (\d+)|stop_grace_period: (\d+)s|wait (\d+) seconds", page + compose)
    seconds = {int("".join(each)) for each in waits}
    assert len(waits) == 3
    assert len(seconds) == 1
    assert seconds.pop() > 2 * Limits().grace  # once for requests, once for clients that have left
    assert f"requests have {Limits().grace:.0f} seconds" in " ".join(page.split())


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(["hadolint", str(FILE)], capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "")
