"""Python within the shell, on its event loop, with top-level await."""

import ast
import codeop
import contextlib
import inspect
import signal
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.pretty import Pretty

from aiocg.cli.output import CommandError


class PythonPrompt:
    """Runs Python code with given variables; values of expressions are printed and kept as `_`."""

    def __init__(self, namespace: Mapping[str, Any], console: Console) -> None:
        self._namespace = dict(namespace)
        self._console = console
        self._compile = codeop.CommandCompiler()
        self._compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    async def run(self, source: str) -> bool:
        """Run code.

        Returns:
            False when there must be more of it, and nothing was done.

        Raises:
            CommandError: when it fails; the message is what Python says.
        """
        before = sys.displayhook
        try:
            code = self._compile(source, "<aiocg shell>", "single")
            if code is None:
                return False
            sys.displayhook = self._display
            with _interruptible():
                result = types.FunctionType(code, self._namespace)()
            if inspect.iscoroutine(result):
                await result
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            frames = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without our own frame
            lines = traceback.format_exception(type(error), error, None if isinstance(error, SyntaxError) else frames)
            raise CommandError("".join(lines).strip()) from error
        finally:
            sys.displayhook = before
        return True

    def _display(self, value: object) -> None:
        if value is not None:
            self._console.print(Pretty(value))
            self._namespace["_"] = value

    async def converse(self) -> None:
        """Read code from the terminal and run it, until Ctrl-D."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.patch_stdout import patch_stdout

        session: PromptSession[str] = PromptSession()
        names = ", ".join(self._namespace)
        self._console.print(f"Python {sys.version.split()[0]} with {names}; await works; Ctrl-D returns", style="dim")
        source = ""
        while True:
            try:
                with patch_stdout(raw=True):
                    line = await session.prompt_async("... " if source else ">>> ", handle_sigint=False)
                source = f"{source}\n{line}" if source else line
                if not source.strip() or await self.run(source):
                    source = ""
            except KeyboardInterrupt:
                source = ""
            except EOFError:
                return
            except CommandError as error:
                self._console.print(str(error), style="red", markup=False)
                source = ""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt code that blocks the event loop, without also notifying the loop."""
    try:
        descriptor = signal.set_wakeup_fd(-1)
    except ValueError:  # not the main thread, which gets the signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(descriptor)
