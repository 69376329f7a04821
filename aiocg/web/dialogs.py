"""Dialogs: copying actions, choosing a program."""

import base64
import html
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nicegui import events, ui

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.scratch import scratch_folder
from aiocg.host.threads import in_thread
from aiocg.web import view
from aiocg.web.limits import Refusal
from aiocg.web.links import link_to
from aiocg.web.programs import named, sent
from aiocg.web.saved import SQLITE, Opening, openings
from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions

LISTED = 2000  # programs to choose from
LANGUAGES = {  # of programs that are pasted, by the kind of worker
    "llvm": {"c": "C", "c++": "C++", "ir": "LLVM IR"},
    "gcc": {"c": "C", "c++": "C++"},
    "loops": {"expression": "tensor expression, such as C[i:512] = sum(k:512) A[i, k] * B[k]"},
}


class Dialogs:
    """The dialogs of one tab.

    Args:
        sessions: where a new program gets its session.
        session: of the tab.
        do: carries something out, and passes the message of its failure on.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: ExplorerSession,
        do: Callable[[Callable[[], Awaitable[Any]], Callable[[str], None]], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._do = do
        self._problem: ui.label | None = None  # in the dialog that is open

    async def copy(self) -> None:
        """Show how the present state is reached elsewhere."""
        session = self._session
        actions = session.tree.path(session.tree.present.number)
        env, spaces = session.env, session.env.action_spaces
        usual = set(map(env.action_space.text, env.action_space.names))
        text = next((name for name in spaces if spaces[name].kind == "text"), "")
        space = "" if usual.issuperset(actions) else text
        texts = view.copies(env.spec.id, str(env.benchmark.uri), actions, spaces.language, space)
        try:
            texts["link"] = str(ui.context.client.request.base_url).rstrip("/") + await in_thread(
                lambda: link_to(session)
            )
        except (Refusal, DatasetError, OSError) as problem:
            texts["link"] = f"# {problem}"
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
            languages = LANGUAGES.get(self._session.env.spec.worker, LANGUAGES["llvm"])
            language = ui.radio(languages, value=next(iter(languages))).props("inline dense")
            source = ui.textarea(label="or paste a program").classes("w-full").props("outlined input-class=diff rows=8")
            limits = self._sessions.limits
            ui.button(
                "compile",
                on_click=lambda: self._open(dialog, lambda: sent(source.value or "", str(language.value), limits)),
            ).props("no-caps")
            ui.separator()
            upload = ui.upload(
                label="or upload a program, a state (.json, .csv) or transitions (.db)",
                auto_upload=True,
                max_file_size=limits.source_bytes,
            )
            upload.classes("w-full").props('flat bordered aria-label="Upload a program or a state"')
            upload.on_upload(lambda event: self._upload(dialog, event))
            upload.on("rejected", lambda: self._tell(f"the file has more than {limits.source_bytes} bytes"))
            self._problem = problem_label()
        dialog.open()

    def _tell(self, message: str) -> None:
        """Show what is wrong in the dialog, which a notification would cover."""
        if self._problem is not None:
            self._problem.text = message
            self._problem.visible = bool(message)

    async def _try(self, what: Callable[[], Awaitable[Any]]) -> None:
        self._tell("")
        await self._do(what, self._tell)

    def _names(self) -> list[str]:
        known = self._sessions.runtime.datasets.datasets(installed_only=True, kind=self._session.env.spec.kind)
        names: list[str] = []
        for dataset in known:
            if 0 < dataset.size <= LISTED - len(names):
                names += [str(uri).removeprefix("benchmark://") for uri in dataset.benchmark_uris()]
        return names

    async def _upload(self, dialog: Any, event: events.UploadEventArguments) -> None:
        content, suffix = await event.file.read(), event.file.name.rpartition(".")[2]
        if suffix in ("json", "jsonl", "csv") or content.startswith(SQLITE):
            await self._try(lambda: self._saved(dialog, content))
            return
        language = {"c": "c", "ll": "ir", "bc": "bitcode"}.get(suffix, "c++")
        text = base64.b64encode(content).decode() if language == "bitcode" else content.decode(errors="replace")
        await self._open(dialog, lambda: sent(text, language, self._sessions.limits))

    async def _saved(self, dialog: Any, content: bytes) -> None:
        """Open what was saved in a file or, if it has several states, let the user choose."""

        def read() -> list[Opening]:
            with scratch_folder() as folder:
                path = Path(folder, "saved")
                path.write_bytes(content)
                return openings(path, self._session.env.spec.id)

        found = await in_thread(read)
        if not found:
            raise Refusal(422, "this file has no states: take one that `aiocg search --state` has written")
        if len(found) == 1:
            await self._go(dialog, found[0])
            return
        dialog.clear()
        names = {place: _title(one) for place, one in enumerate(found[:LISTED])}
        with dialog, ui.card().classes("w-full"):
            picked = ui.select(names, value=0, label="state", with_input=True).classes("w-full").props("dense")
            ui.button("open", on_click=lambda: self._try(lambda: self._go(dialog, found[int(picked.value)])))
            self._problem = problem_label()

    async def _go(self, dialog: Any, opening: Opening) -> None:
        id = await self._sessions.open_saved(opening.visiting())
        dialog.close()
        ui.navigate.to(f"/?session={id}")

    async def _open(self, dialog: Any, find: Callable[[], Benchmark | str]) -> None:
        await self._try(lambda: self._go(dialog, Opening(self._session.env.spec.id, find())))


def problem_label() -> ui.label:
    """Return a place for a message of many lines, which is not seen until there is one."""
    label = ui.label().classes("diff loss w-full").style("max-height: 30vh").props("role=alert")
    label.visible = False
    return label


def _title(opening: Opening) -> str:
    """Return what is said of something that can be opened."""
    earned = "" if opening.reward is None else f", reward {opening.reward:.4f}"
    states = f", {len(opening.paths)} states" if opening.paths else ""
    return f"{opening.program}{earned}{states}"
