"""The `aiocg` command; one module per group of subcommands."""

import io
import os
import signal
import sys


def main() -> None:
    """Run the command line.

    `aiocg cc` and `aiocg c++` begin here already: they start hundreds of times in a build, and need none of the rest.
    Neither does `aiocg shrink --locked --`, which is to take no longer than the build.
    """
    handler = signal.getsignal(signal.SIGINT)
    searches = sys.argv[1:2] == ["search"]
    if handler is signal.default_int_handler:  # during start-up, end silently, or say that there is no result
        tells = searches or "--json" in sys.argv
        signal.signal(signal.SIGINT, _end_while_starting if tells else signal.SIG_DFL)
    _prepare_streams()
    if searches and sys.stdout.isatty() and not {"--json", "--help"} & set(sys.argv):
        print("starting ...", end="\r", flush=True)  # what comes next overwrites it
    if sys.argv[1:2] in (["cc"], ["c++"]) and sys.argv[2:] != ["--help"]:
        from aiocg.cli import _cc_start as cc_start

        cc_start.start(sys.argv[1], sys.argv[2:])
        from aiocg.cli import _cc as cc

        sys.exit(cc.main(sys.argv[1], sys.argv[2:]))
    if sys.argv[1:2] == ["rustc"] and sys.argv[2:] not in ([], ["--help"]):
        from aiocg.shrink import rustc

        sys.exit(rustc.main(sys.argv[2:]))
    if sys.argv[1:4] == ["shrink", "--locked", "--"] and sys.argv[4:]:
        from aiocg.cli import _shrink_locked as locked

        signal.signal(signal.SIGINT, handler)
        if (done := locked.main(sys.argv[4:])) is not None:
            sys.exit(done)
    if sys.argv[1:2] == ["gcc"] and "--" in sys.argv:  # `aiocg gcc -- make`
        sys.argv[1:2] = ["shrink", "--gcc"]
    from aiocg.cli import app

    if not searches:  # `aiocg.cli.output.run` does it for them
        signal.signal(signal.SIGINT, handler)
    status: object = None
    try:
        app.main()
    except SystemExit as end:
        status = end.code
        raise
    finally:
        _finish_output(failed=bool(status))


def rustc_wrapper() -> None:
    """Run `aiocg rustc`: cargo takes a path for `RUSTC_WORKSPACE_WRAPPER`, and no words."""
    sys.argv[1:1] = ["rustc"]
    main()


def _end_while_starting(number: int, _: object) -> None:
    """Say what has happened, and end as Ctrl-C does."""
    message = "interrupted before anything was evaluated" if sys.argv[1:2] == ["search"] else "interrupted"
    os.write(1, (f'{{"error": "{message}"}}\n' if "--json" in sys.argv else f"{message}\n").encode())
    os._exit(128 + number)


def _prepare_streams() -> None:
    """Ensure that the standard streams exist and take any text."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # closed: the next opened file would get its number, which crashes libuv
            setattr(sys, name, open(os.devnull, "w" if descriptor else "r"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for unencodable text, and names that are not text


def _finish_output(*, failed: bool) -> None:
    """Flush standard output; if that fails, exit with an error, unless the command has reported one already."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter's own flush at exit must not fail again
        if not failed:
            sys.exit(f"error: {error}")
