"""Run the program `veridical`, also as `python -m veridical`.

If you import this module, only the standard library is loaded. `main` imports the rest.
"""

import sys
import traceback
from contextlib import suppress

INTERNAL_ERROR = 70
"""The exit code of an error that is a bug or a broken installation (EX_SOFTWARE of sysexits.h); 1 means "flagged"."""


def main() -> int:
    """Run the command line and return its exit code.

    If an unexpected error occurs, its traceback is printed.
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
