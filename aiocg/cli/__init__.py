"""The `aiocg` command; one module per group of subcommands."""

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
    if sys.argv[1:2] in (["cc"], ["c++"]) and sys.argv[2:] != ["--help"]:
        from aiocg.cli import cc

        sys.exit(cc.main(sys.argv[1], sys.argv[2:]))
    from aiocg.cli import app

    signal.signal(signal.SIGINT, handler)
    app.main()
