"""The dialogs of the page: copying what was done, and choosing a program."""

import base64
import html
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import events, ui

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.host.threads import in_thread
from aiocg.web import view
from aiocg.web.programs import named, sent
from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions

__all__ = ["Dialogs"]

LISTED = 2000  # programs to choose from


class Dialogs:
    """The dialogs of one tab.

    Args:
        sessions: where a new program gets its session.
        session: of the tab.
        do: carries something out, and tells of its failure.
        tell: shows a message.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: ExplorerSession,
        do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._do = do
        self._tell = tell

    def copy(self) -> None:
        """Show how the present state is reached elsewhere."""
        session = self._session
        actions = session.tree.path(session.tree.present.number)
        env, spaces = session.env, session.env.action_spaces
        usual = set(map(env.action_space.text, env.action_space.names))
        text = next((name for name in spaces if spaces[name].kind == "text"), "")
        space = "" if usual.issuperset(actions) else text
        texts = view.copies(env.spec.id, str(env.benchmark.uri), actions, spaces.language, space)
        with ui.dialog() as dialog, ui.card().classes("w-full").props('aria-label="Copy"'):
            for name, text in texts.items():
                with ui.row().classes("items-center w-full"):
                    ui.label(name).classes("text-weight-bold")
                    ui.space()
                    ui.button("copy", on_click=lambda text=text: ui.clipboard.write(text)).props(
                        f'flat dense no-caps aria-label="copy {name}"'
                    )
                ui.html(html.escape(text), sanitize=False).classes("diff w-full").style("max-height: 24vh")
        dialog.open()

    async def choose(self) -> None:
        """Let the user choose another program, for a new session."""
        names = await in_thread(self._names)
        with ui.dialog() as dialog, ui.card().classes("w-full q-gutter-y-sm").props('aria-label="Choose a program"'):
            picked = ui.select(names, label="program of a dataset", with_input=True, new_value_mode="add-unique")
            picked.classes("w-full").props("dense")
            ui.button("open", on_click=lambda: self._open(dialog, lambda: named(str(picked.value)))).props("no-caps")
            ui.separator()
            language = ui.radio({"c": "C", "c++": "C++", "ir": "LLVM IR"}, value="c").props("inline dense")
            source = ui.textarea(label="or paste a program").classes("w-full").props("outlined input-class=diff rows=8")
            limits = self._sessions.limits
            ui.button(
                "compile",
                on_click=lambda: self._open(dialog, lambda: sent(source.value or "", str(language.value), limits)),
            ).props("no-caps")
            ui.separator()
            upload = ui.upload(
                label="or upload .c, .cc, .cpp, .ll or .bc", auto_upload=True, max_file_size=limits.source_bytes
            )
            upload.classes("w-full").props('flat bordered aria-label="Upload a program"')
            upload.on_upload(lambda event: self._upload(dialog, event))
            upload.on("rejected", lambda: self._tell(f"the file has more than {limits.source_bytes} bytes"))
        dialog.open()

    def _names(self) -> list[str]:
        known = self._sessions.runtime.datasets.datasets(installed_only=True, kind=self._session.env.spec.kind)
        names: list[str] = []
        for dataset in known:
            if 0 < dataset.size <= LISTED - len(names):
                names += [str(uri).removeprefix("benchmark://") for uri in dataset.benchmark_uris()]
        return names

    async def _upload(self, dialog: Any, event: events.UploadEventArguments) -> None:
        content, suffix = await event.file.read(), event.file.name.rpartition(".")[2]
        language = {"c": "c", "ll": "ir", "bc": "bitcode"}.get(suffix, "c++")
        text = base64.b64encode(content).decode() if language == "bitcode" else content.decode(errors="replace")
        await self._open(dialog, lambda: sent(text, language, self._sessions.limits))

    async def _open(self, dialog: Any, find: Callable[[], Benchmark | str]) -> None:
        async def open() -> None:
            try:
                id = await self._sessions.open(self._session.env.spec.id, benchmark=find())
            except (AiocgError, DatasetError) as error:
                self._tell(str(error))
                return
            dialog.close()
            ui.navigate.to(f"/?session={id}")

        await self._do(open)
