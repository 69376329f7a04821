"""`python -P -m aiocg.workers.gcc._pull IMAGE`: pull an image from its registry, with progress on standard error.

It is a separate program, because pulling takes longer than a worker's start timeout, and the client knows nothing about
engines. It prints the image's id, or an error, on standard output.
"""

import argparse
import sys
import time

from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._engine import connect, find_image, pull
from aiocg.workers.limits import die_with_parent

INTERVAL = {True: 0.1, False: 10.0}  # seconds between two lines, on a terminal and elsewhere


def main() -> None:
    """Pull the image named by the arguments, and print its id.

    Raises:
        SystemExit: with 1 if that fails.
    """
    parser = argparse.ArgumentParser(prog="aiocg gcc pull", description="Get an image with a GCC from its registry.")
    parser.add_argument("image", help="such as gcc:13")
    parser.add_argument("--if-missing", action="store_true", help="only if the engine does not have it")
    parser.add_argument("--parent", type=int, help="process id whose death ends this process")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    try:
        client = connect()
        if arguments.if_missing:
            try:
                print(find_image(client, arguments.image).id)
                return
            except CompilationError as error:
                if error.fields.get("reason") != "image":
                    raise
        line = _Line(f"pulling {arguments.image}: ")
        pull(client, arguments.image, line.show)
        line.end()
        print(find_image(client, arguments.image).id)
    except CompilationError as error:
        print(error.message)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


class _Line:
    """A progress line on standard error: rewritten on a terminal, printed at intervals elsewhere."""

    def __init__(self, head: str) -> None:
        self._head = head
        self._terminal = sys.stderr.isatty()
        self._last = -INTERVAL[False]
        self._text = ""

    def show(self, text: str) -> None:
        """Show a text, unless the last one is very recent."""
        self._text = text
        if time.monotonic() - self._last >= INTERVAL[self._terminal]:
            self._write()

    def end(self) -> None:
        """Show the last text permanently."""
        self._write()
        if self._terminal:
            print(file=sys.stderr)

    def _write(self) -> None:
        self._last = time.monotonic()
        if self._terminal:
            print(f"\r\033[K{self._head}{self._text}", end="", file=sys.stderr, flush=True)
        else:
            print(f"{self._head}{self._text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
