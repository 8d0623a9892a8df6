"""The OpenAPI document against the service: requests that fit it, one by one and in sequences."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.harness import Found, fault, served


@fault("requests made from the OpenAPI document, alone and in sequences")
def generated(rng: Random, folder: Path) -> Found:
    found = Found()
    if find_spec("schemathesis") is None:
        return Found(notes=["not tried: schemathesis is not installed"])
    with served("-d", "overlap:values", "-d", "overlap", "--history", str(folder / "history.db")) as service:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
        options = [
            *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "25"),
            *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance"),
            *("--checks", "response_schema_conformance,response_headers_conformance"),
            *("--seed", str(rng.randrange(10**6)), "--workers", "2", "--continue-on-failure", "--no-color"),
        ]
        run = subprocess.run([*command, *options], capture_output=True, text=True, cwd=folder, check=False, timeout=600)
        found.tried = _cases_in(run.stdout)
        found.check(found.tried > 0, f"schemathesis made no request: {run.stdout[-200:]}{run.stderr[-200:]}")
        failures = re.findall(r"❌ (.*: \d+)", run.stdout)  # its errors are about lines of JSON, which it cannot make
        found.check(not failures, f"schemathesis: {failures}")
        found.check(not service.failures(), f"failures: {service.failures()[:1]}")
    return found


def _cases_in(output: str) -> int:
    numbers: list[Any] = re.findall(r"(\d[\d,]*) generated", output)
    return sum(int(number.replace(",", "")) for number in numbers)
