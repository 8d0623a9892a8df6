"""Child processes of tests: each has a time limit, and a Ctrl-C ends it even where the tests themselves ignore one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 600  # seconds; a test that waits longer has hung, however slow the machine is
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "transformers", "veridical.cli"])


def default_interrupt() -> None:
    """Take Ctrl-C as a terminal's program does; a background job inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run `python ARGUMENTS` to its end."""
    options = {"capture_output": True, "timeout": LIMIT, "preexec_fn": default_interrupt, **options}
    return subprocess.run([sys.executable, *arguments], **options)


def without_torch(code: str) -> str:
    """What `code` prints in a process that can import neither torch nor transformers; nothing else may be printed."""
    blocked = 'import sys\nsys.modules["torch"] = sys.modules["transformers"] = None\n'
    done = python("-c", blocked + code, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return str(done.stdout)


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """Start `python ARGUMENTS` with its streams piped; the caller reads them with `communicate(timeout=LIMIT)`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, *arguments], **{**pipes, "preexec_fn": default_interrupt, **options})


def is_running(pid: int) -> bool:
    """Return whether a process of Linux exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run_code(code: str, folder: Path) -> tuple[int, str]:
    """Run `code` as a program in `folder`, in a process that has torch imported already; its exit code and errors."""
    errors = folder / ".stderr"
    process = _SERVER.Process(target=_execute, args=(code, str(folder), str(errors)))
    process.start()
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        process.join()
    said = errors.read_text("utf-8") if errors.exists() else ""
    errors.unlink(missing_ok=True)
    return process.exitcode or 0, said


def _execute(code: str, folder: str, errors: str) -> None:
    """Run `code`; what it raises is printed to the file `errors` by multiprocessing, and the process ends with 1."""
    os.chdir(folder)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  both are closed with the process
    sys.stderr = open(errors, "w", encoding="utf-8")  # noqa: SIM115
    exec(compile(code, "example", "exec"), {"__name__": "__main__"})
