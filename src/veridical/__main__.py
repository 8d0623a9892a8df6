"""Run the program `veridical`, which you can also start as `python -m veridical`.

Importing this module loads only the standard library. `main` imports the rest.
"""

import os
import signal
import sys
import traceback
from contextlib import suppress

INTERNAL_ERROR = 70
"""Exit code for a bug or a broken installation (EX_SOFTWARE in sysexits.h). It is not 1, because 1 means "flagged"."""


def main() -> int:
    """Run the command line and return the exit code.

    If an unexpected error occurs, the traceback is printed and the exit code is `INTERNAL_ERROR`. SIGTERM interrupts
    the command in the same way as Ctrl-C, so that it can remove files that it has only written in part.
    """
    is_terminated = False

    def terminate(*_: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    try:
        from veridical.cli import main as run

        code = run()
        _end_at_signals()
    except KeyboardInterrupt:
        _end_at_signals()
        code = 130
    except BaseException as error:  # noqa: BLE001 - extensions written in C or Rust may raise other types than Exception
        if sys.stderr is not None:
            with suppress(OSError):
                traceback.print_exc()
                sys.stderr.write(f"veridical: internal error: {type(error).__name__} (please report the lines above)\n")
                sys.stderr.flush()
        return INTERNAL_ERROR
    return 143 if code == 130 and is_terminated else code


def _end_at_signals() -> None:
    """Let a further signal end the process at once, without a traceback. It may still wait for threads."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os._exit(128 + number))


if __name__ == "__main__":
    sys.exit(main())
