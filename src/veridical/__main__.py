"""Run the program `veridical`, which you can also start as `python -m veridical`.

Importing this module loads only the standard library. `main` imports the rest.
"""

import sys
import traceback
from contextlib import suppress

INTERNAL_ERROR = 70
"""Exit code for a bug or a broken installation (EX_SOFTWARE in sysexits.h). It is not 1, because 1 means "flagged"."""


def main() -> int:
    """Run the command line and return the exit code.

    If an unexpected error occurs, the traceback is printed and the exit code is `INTERNAL_ERROR`.
    """
    try:
        from veridical.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # noqa: BLE001 - extensions written in C or Rust may raise other types than Exception
        if sys.stderr is not None:
            with suppress(OSError):
                traceback.print_exc()
                sys.stderr.write(f"veridical: internal error: {type(error).__name__} (please report the lines above)\n")
                sys.stderr.flush()
        return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(main())
