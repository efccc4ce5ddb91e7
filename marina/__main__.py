"""The command `marina`, also as `python -m marina`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command, or say which packages it lacks: a client alone installs none of them."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # until the command is imported, Ctrl-C ends the program in silence
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from marina.cli import main as command
    except ModuleNotFoundError as error:
        sys.exit(
            f"error: the command marina needs {error.name}, which is not installed; install Marina with its extra [all]"
        )
    command()


if __name__ == "__main__":
    main()
