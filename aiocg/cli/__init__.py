"""The `aiocg` command; one module per group of subcommands."""

import io
import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    `aiocg cc` and `aiocg c++` begin here already: they start hundreds of times in a build, and need none of the rest.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it has only begun, it ends at once and without a word
    _prepare_streams()
    if sys.argv[1:2] in (["cc"], ["c++"]) and sys.argv[2:] != ["--help"]:
        from aiocg.cli import cc

        sys.exit(cc.main(sys.argv[1], sys.argv[2:]))
    from aiocg.cli import app

    signal.signal(signal.SIGINT, handler)
    app.main()


def _prepare_streams() -> None:
    """Have the standard streams be there, and take any text."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed: whatever is opened next would take its place, which libuv dies of
            setattr(sys, name, open(os.devnull, "w" if descriptor else "r"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what an encoding cannot say, and names that are no text
