"""Python within the shell: code runs on the shell's own event loop, and may await at its top level."""

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

from aiocg.shell.line import CommandError

__all__ = ["PythonPrompt"]

NAME = "<aiocg shell>"


class PythonPrompt:
    """Runs Python code.

    Args:
        namespace: its variables.
        console: where the values of expressions go.
    """

    def __init__(self, namespace: Mapping[str, Any], console: Console) -> None:
        self._namespace = dict(namespace)
        self._console = console
        self._compile = codeop.CommandCompiler()
        self._compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    async def run(self, source: str) -> bool:
        """Run code, and print the values of expressions.

        Returns:
            False when there must be more of it, and nothing was done.

        Raises:
            CommandError: when it fails; the message is what Python says.
        """
        try:
            code = self._compile(source, NAME, "single")
            if code is None:
                return False
            with self._displayed():
                with _interruptible():
                    result = types.FunctionType(code, self._namespace)()
                if inspect.iscoroutine(result):
                    await result
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            frames = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without ours
            lines = traceback.format_exception(type(error), error, None if isinstance(error, SyntaxError) else frames)
            raise CommandError("".join(lines).strip()) from error
        return True

    @contextlib.contextmanager
    def _displayed(self) -> Iterator[None]:
        """Have values printed on the console, and remembered as `_`."""

        def display(value: object) -> None:
            if value is not None:
                self._console.print(Pretty(value))
                self._namespace["_"] = value

        before, sys.displayhook = sys.displayhook, display
        try:
            yield
        finally:
            sys.displayhook = before

    async def converse(self) -> None:
        """Ask for code on the terminal, and run it, until Ctrl-D."""
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
            except KeyboardInterrupt:
                source = ""
                continue
            except EOFError:
                return
            source = f"{source}\n{line}" if source else line
            try:
                if not source.strip() or await self.run(source):
                    source = ""
            except CommandError as error:
                self._console.print(str(error), style="red", markup=False)
                source = ""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end code that does not give the event loop a chance to hear of it, and not tell the loop later."""
    try:
        descriptor = signal.set_wakeup_fd(-1)
    except ValueError:  # this is not the main thread, where signals are of no concern
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(descriptor)
