"""The panel with the program's text and its changes."""

import html
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from nicegui import ui

from aiocg.web import view
from aiocg.web.session import ExplorerSession
from aiocg.web.templates import colored

__all__ = ["ChangesPanel"]

LONGEST = 200_000  # characters of a program that are shown
BEFORE, FIRST, ALONE = "before", "as it came", "nothing"  # what the program is compared with


class ChangesPanel:
    """Shows what the last action changed in the program, built where it is made.

    Args:
        session: whose program is shown.
        do: carries something out, and tells of its failure.
    """

    def __init__(
        self, session: ExplorerSession, do: Callable[[Callable[[], Awaitable[Any]]], Coroutine[Any, Any, None]]
    ) -> None:
        self._session = session
        self._do = do
        self._round = 0  # of what is shown; what belongs to an older one is not shown any more
        self._lines: list[str] | None = None  # of the difference that is shown
        texts = list(session.texts)
        with ui.row().classes("items-center w-full q-gutter-x-sm"):
            self._text = ui.select(texts, value=texts[0] if texts else None, label="text", on_change=self.show)
            self._text.props("dense options-dense borderless").classes("w-32").visible = len(texts) > 1
            self._against = ui.select(
                [BEFORE, FIRST, ALONE], value=BEFORE, label="compared with", on_change=self.show
            ).props("dense options-dense borderless").classes("w-32")  # fmt: skip
            self._beside = ui.checkbox("side by side", on_change=self._color).props("dense")
        self._said = ui.label().classes("text-caption ellipsis w-full")
        self._diff = ui.html("", sanitize=False).classes("diff w-full")
        self._diff.props('tabindex=0 role=region aria-label="Difference of the program" data-testid="diff"')

    @property
    def text(self) -> str:
        """The observation that is shown, "" if there is none."""
        return self._session.texts.get(str(self._text.value), "")

    async def show(self) -> None:
        """Show the present state."""
        await self._do(self._show)

    def show_lines(self, said: str, lines: list[str]) -> None:
        """Show another difference, until the session moves.

        Args:
            said: what it is.
            lines: in unified format.
        """
        self._round += 1
        self._said.text, self._lines = said, lines
        self._color()

    async def _show(self) -> None:
        self._round += 1
        round, session, tree = self._round, self._session, self._session.tree
        node, name = tree.present, self.text
        before = {BEFORE: tree.trail[-2] if len(tree.trail) > 1 else 0, FIRST: 0}.get(str(self._against.value))
        if before is None or before == node.number:
            text = await session.text(node.number, name)
            if round == self._round:
                self._said.text, self._lines = "the program" if node.number else "the program as it came", None
                self._diff.content = html.escape(text[:LONGEST])
            return
        lines = await session.difference(before, node.number, name)
        if round == self._round:
            of_one = before == node.parent and node.action
            changed = f"what {view.label(node.action)} changed" if of_one else "what changed"
            self.show_lines(f"{changed} (node {before} to {node.number})", lines)

    def _color(self) -> None:
        if self._lines is not None:
            self._diff.content = colored(self._lines, beside=bool(self._beside.value))
