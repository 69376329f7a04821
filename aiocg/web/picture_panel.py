"""The part of the page with a picture of the program: the control flow of a function, or the nest of loops."""

import html
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from aiocg.host.threads import in_thread
from aiocg.pictures.cfg import cfg, functions
from aiocg.pictures.nested import nested
from aiocg.web.session import ExplorerSession

__all__ = ["PicturePanel", "picture_of"]

PICTURES = {"Ir": "CFG", "loop_tree": "Nest"}  # what is drawn of an observation


def picture_of(session: ExplorerSession) -> str:
    """Return what an environment's programs are drawn as, "" if there is nothing."""
    return next((name for observed, name in PICTURES.items() if observed in session.env.observation_spaces), "")


_SHOW_FIRST = """setTimeout(() => {
  const picture = document.querySelector('.picture'), box = picture?.querySelector('rect.box')?.getBBox();
  if (box) picture.scrollLeft = box.x + box.width / 2 - picture.clientWidth / 2;
}, 50)"""


class PicturePanel:
    """Draws the program of the present state, built where it is made.

    Args:
        session: whose program is drawn.
        id: of the session.
        do: carries something out, and tells of its failure.
    """

    def __init__(
        self, session: ExplorerSession, id: str, do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]]
    ) -> None:
        self._session = session
        self._id = id
        self._do = do
        self._drawn: tuple[object, ...] = ()
        with ui.row().classes("items-center w-full"):
            self._function = ui.select([], label="function", on_change=self.show).props("dense options-dense")
            self._function.classes("w-32")
            self._whole = ui.checkbox("instructions", on_change=self.show).props("dense")
            self._svg = ui.link("SVG", "").props("download")
            self._dot = ui.link("dot", "").props("download")
            self._said = ui.label().classes("text-caption")
        for one in (self._function, self._whole, self._dot):
            one.visible = picture_of(session) == "CFG"
        self._picture = ui.html("", sanitize=False).classes("picture")
        self._picture.props('tabindex=0 role=region aria-label="Picture of the program" data-testid="picture"')

    async def show(self) -> None:
        """Draw the present state, if that is not what is drawn."""
        await self._do(self._draw)

    async def _draw(self) -> None:
        session = self._session
        number = session.tree.present.number
        text = await session.text(number)
        if picture_of(session) == "Nest":
            self._picture.content = nested(text, "nest of loops")
            self._link(self._svg, "nest.svg")
            return
        blocks = await in_thread(lambda: {name: len(found) for name, found in functions(text).items()})
        names = sorted(blocks)
        if self._function.options != names:
            value = (
                self._function.value if self._function.value in blocks else max(blocks, key=lambda name: blocks[name])
            )
            self._function.set_options(names, value=value)
        name, whole = str(self._function.value), bool(self._whole.value)
        if self._drawn == (number, name, whole):
            return
        self._drawn = number, name, whole
        query = urllib.parse.urlencode({"function": name, "instructions": whole})
        self._link(self._svg, f"cfg.svg?{query}")
        self._link(self._dot, f"cfg.dot?{query}")
        self._said.text = f"{blocks[name]} blocks"
        if blocks[name] > (most := session.limits.blocks):
            self._picture.content = html.escape(f"{name} has {blocks[name]} blocks; up to {most} are drawn: take dot")
            return
        self._picture.content = await in_thread(lambda: cfg(text, name, instructions=whole).svg())
        self._picture.client.run_javascript(_SHOW_FIRST)

    def _link(self, link: ui.link, picture: str) -> None:
        link.props["href"] = f"/sessions/{self._id}/{picture}"
        link.update()
