"""The routes of the Explorer's API, and what requests and replies have in them."""

import asyncio
from itertools import islice
from typing import Annotated, Any, Self

from fastapi import APIRouter, Body, Depends, Query, WebSocket, WebSocketDisconnect
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import HTTPConnection

from aiocg.host.threads import in_thread
from aiocg.pictures import Graph, cfg, nested, stairs
from aiocg.registry import environments
from aiocg.web._links import link_to
from aiocg.web._programs import named, plain, sent
from aiocg.web._searching import Run, watchable
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Refusal
from aiocg.web.saved import at_state, state_of
from aiocg.web.sessions import Sessions
from aiocg.web.tree import Node

Fingerprint = Annotated[str, BeforeValidator(lambda state: f"{state:016x}")]


class ErrorReply(BaseModel):
    """What was wrong."""

    class Error(BaseModel):
        """An error."""

        type: str = Field(description="name of the kind of error, such as UnknownName")
        message: str = Field(description="what was wrong, what was expected, and what to do")

    error: Error


class NodeReply(BaseModel, from_attributes=True):
    """A state in the tree of a session."""

    node: int = Field(validation_alias="number", description="its number; 0 is the program as it came")
    state: Fingerprint = Field(description="fingerprint of the program, in hexadecimal digits")
    parent: int | None = Field(description="the node from which it was first reached")
    action: str = Field(description="by which it was first reached")
    depth: int = Field(description="number of actions that first led to it")
    costs: dict[str, float]
    edges: dict[str, int] = Field(description="where actions lead from here")


class SessionReply(BaseModel):
    """Where a session stands."""

    id: str
    env: str
    benchmark: str
    compiler: str
    costs: list[str] = Field(description="names of the costs of nodes, the main one first")
    lines: dict[str, float] = Field(description="the main cost after the compiler's own levels")
    nodes: int = Field(description="how many there are")
    present: NodeReply
    actions: list[str] = Field(description="which first led to the present node")
    trail: list[int] = Field(description="the nodes on the way that was taken")

    @classmethod
    def of(cls, id: str, session: ExplorerSession) -> Self:
        """Describe a session."""
        tree = session.tree
        return cls(
            id=id,
            env=session.env.spec.id,
            benchmark=str(session.env.benchmark.uri),
            compiler=session.env.compiler_version,
            costs=list(session.costs),
            lines=dict(session.lines),
            nodes=len(tree),
            present=NodeReply.model_validate(tree.present),
            actions=list(tree.path(tree.present.number)),
            trail=list(tree.trail),
        )


class TreeReply(BaseModel):
    """Nodes of a tree."""

    nodes: list[NodeReply]
    next: int | None = Field(description="`start` of those that follow")


class StepReply(BaseModel):
    """What actions led to."""

    nodes: list[NodeReply] = Field(description="one for each action")
    present: NodeReply


class GainReply(BaseModel):
    """What an action would do."""

    action: str
    gain: float = Field(description="by how much it lowers the main cost")
    costs: dict[str, float]
    state: Fingerprint | None = Field(description="fingerprint of the program afterwards")
    effect: bool = Field(description="whether that is another program")
    error: str | None


class GainsReply(BaseModel):
    """What actions would do, the best first."""

    gains: list[GainReply]


class ObservationReply(BaseModel):
    """An observation."""

    name: str
    value: Any = Field(description='as JSON; bytes are {"base64": …}')


class DiffReply(BaseModel):
    """A difference."""

    lines: list[str] = Field(description="in unified format")


class FeaturesReply(BaseModel):
    """Counts of what is in a program."""

    features: dict[str, int | float]
    deltas: dict[str, int | float]


class LinkReply(BaseModel):
    """A link."""

    link: str


class EnvironmentsReply(BaseModel):
    """Environments."""

    class Environment(BaseModel):
        """An environment."""

        id: str
        description: str

    envs: list[Environment]


class DatasetsReply(BaseModel):
    """Datasets or programs."""

    class Item(BaseModel):
        """A dataset, or a program, which has its name only."""

        name: str
        description: str = ""
        size: int = Field(default=0, description="number of programs; 0 for any number")

    items: list[Item]
    next: int | None = Field(description="`cursor` of those that follow")


class SearchReply(BaseModel):
    """The searches of a session."""

    search: Run | None = Field(description="the one that runs, or else the last one")
    runs: list[Run]
    resumable: bool = Field(description="whether the last one can go on")
    searches: list[str] = Field(description="which there are for the session")


class NewSession(BaseModel, extra="forbid"):
    """What a session is of: a program of a dataset, or one that is sent."""

    env: str = Field("llvm-ic-v0", description="id of an environment; see /envs")
    benchmark: str | None = Field(None, description="a program of a dataset, such as programs-v0/qsort")
    source: str | None = Field(None, description="a program: C, C++, textual IR, or bitcode in base64")
    language: str = Field("c", description="of the source: c, c++, ir, bitcode, or expression for loops")
    state: str | None = Field(None, description="a saved state as JSON or CSV, in place of all others")
    reward_space: str | None = None
    action_space: str | None = None


class Actions(BaseModel, extra="forbid"):
    """A list of actions, by their texts."""

    actions: list[str]


class MoreTime(BaseModel, extra="forbid"):
    """How long a search may go on."""

    seconds: float = Field(10.0, strict=True)


class NewSearch(MoreTime):
    """A search, and how long it may take."""

    name: str = Field("greedy", description="one of those that GET lists as `searches`")
    here: bool = Field(False, description="begin at the present node, not at the program as it came")


PAGE = 100  # names of one reply of /datasets
TREE_PAGE = 1000  # nodes of one reply

router = APIRouter()

Place = Annotated[int, Query(ge=0, lt=1 << 53)]  # in a list; larger numbers are not exact in JavaScript


# ------------------------------------------------------------------------------------------------------- routes


def _sessions_of(connection: HTTPConnection) -> Sessions:
    """Return the sessions of the application."""
    found: Sessions = connection.app.state.sessions
    return found


def _session_of(connection: HTTPConnection, id: str) -> ExplorerSession:
    """Return a session.

    Raises:
        Refusal: when there is none of this id.
    """
    return _sessions_of(connection).find(id)


TheSessions = Annotated[Sessions, Depends(_sessions_of)]
TheSession = Annotated[ExplorerSession, Depends(_session_of)]


@router.post("/sessions", status_code=201)
async def open_session(sessions: TheSessions, body: NewSession) -> SessionReply:
    """Open a session of a program, named or sent."""
    if sum(one is not None for one in (body.benchmark, body.source, body.state)) > 1:
        raise Refusal(422, "there are several of benchmark, source and state: send one of them")
    if body.state is not None:
        id = await sessions.open_saved(at_state(state_of(body.state), body.env).visiting())
        return SessionReply.of(id, sessions.find(id))
    given = None if body.source is None else sent(body.source, body.language, sessions.limits)
    benchmark = given if body.benchmark is None else named(body.benchmark)
    spaces = {"reward_space": body.reward_space, "action_space": body.action_space}
    id = await sessions.open(body.env, benchmark=benchmark, **spaces)
    return SessionReply.of(id, sessions.find(id))


@router.get("/sessions/{id}")
async def show_session(session: TheSession, id: str) -> SessionReply:
    """Say where a session stands."""
    return SessionReply.of(id, session)


@router.delete("/sessions/{id}", status_code=204)
async def close_session(sessions: TheSessions, id: str) -> None:
    """Close a session."""
    await sessions.close(id)


@router.get("/sessions/{id}/tree", response_model=TreeReply)
async def show_tree(session: TheSession, start: Place = 0) -> dict[str, Any]:
    """Return a thousand nodes, from `start` on; `next` is where to go on, null at the end."""
    end = start + TREE_PAGE
    return {"nodes": list(islice(session.tree, start, end)), "next": end if end < len(session.tree) else None}


@router.post("/sessions/{id}/step", response_model=StepReply)
async def step(session: TheSession, body: Actions) -> dict[str, Any]:
    """Apply actions; what fails leaves the session where those before it led."""
    return {"nodes": await session.step(body.actions), "present": session.tree.present}


@router.post("/sessions/{id}/expand", response_model=GainsReply)
async def expand(session: TheSession, body: Annotated[Actions | None, Body()] = None) -> dict[str, Any]:
    """Say what each action would gain, the best first: of all actions, or of those given. Nothing is changed."""
    return {"gains": await session.expand(None if body is None else body.actions)}


@router.post("/sessions/{id}/undo", response_model=NodeReply)
async def undo(session: TheSession) -> Node:
    """Go back the way that was taken."""
    return await session.undo()


@router.post("/sessions/{id}/goto/{node}", response_model=NodeReply)
async def goto(session: TheSession, node: int) -> Node:
    """Go to a node."""
    return await session.goto(node)


@router.post("/sessions/{id}/fork", status_code=201)
async def fork(sessions: TheSessions, id: str) -> SessionReply:
    """Open another session at the same node, with the same tree."""
    new = await sessions.fork(id)
    return SessionReply.of(new, sessions.find(new))


@router.get("/sessions/{id}/observations/{name}")
async def observe(session: TheSession, name: str) -> ObservationReply:
    """Observe the present state."""
    value = await session.observe(name)
    size = len(value) if isinstance(value, str | bytes) else getattr(value, "nbytes", 0)
    if size > (most := session.limits.shown_bytes):
        raise Refusal(413, f"{name} has {size} bytes here, and the most is {most}: use the Python API for it")
    return ObservationReply(name=name, value=plain(value))


@router.get("/sessions/{id}/diff")
async def diff(session: TheSession, before: int, after: int, text: str = "") -> DiffReply:
    """Say how the program's text, such as `Ir` or `Assembly`, differs between two nodes, in unified format."""
    return DiffReply(lines=await session.difference(before, after, text))


@router.get("/sessions/{id}/features")
async def features(session: TheSession, node: int, before: int = 0) -> FeaturesReply:
    """Count what is in the program at a node, by name; `deltas` are those counts that were others at `before`."""
    then, now = await session.features(before), await session.features(node)
    changed = {name: now.get(name, 0) - then.get(name, 0) for name in dict.fromkeys([*then, *now])}
    return FeaturesReply(features=plain(now), deltas=plain({name: by for name, by in changed.items() if by}))


@router.get("/sessions/{id}/link")
async def link(session: TheSession) -> LinkReply:
    """Return a link to the page that is the present state, whether or not this session still exists then."""
    return LinkReply(link=link_to(session))


@router.get("/envs", response_model=EnvironmentsReply)
async def list_environments() -> dict[str, Any]:
    """List the environments."""
    return {"envs": list(environments().values())}


@router.get("/datasets", response_model_exclude_unset=True)
async def list_datasets(sessions: TheSessions, prefix: str = "", cursor: Place = 0) -> DatasetsReply:
    """List datasets or, for a prefix such as `programs-v0/q`, programs; `next` is the cursor of more, or null."""
    known = sessions.runtime.datasets
    name, slash, rest = prefix.partition("://")[2].partition("/") if "://" in prefix else prefix.partition("/")

    def look() -> list[DatasetsReply.Item]:
        if not slash:
            chosen = (one for one in known.datasets() if one.name.startswith(name))
            wanted = islice(chosen, cursor, cursor + PAGE + 1)
            return [DatasetsReply.Item(name=one.name, description=one.description, size=one.size) for one in wanted]
        dataset = known[name]
        if not dataset.installed:
            raise Refusal(409, f"{name} is not installed here: install it with `aiocg dataset install {name}`")
        names = (str(uri).removeprefix("benchmark://") for uri in islice(dataset.benchmark_uris(), 100_000))
        found = (one for one in names if one.partition("/")[2].startswith(rest))
        return [DatasetsReply.Item(name=one) for one in islice(found, cursor, cursor + PAGE + 1)]

    found = await in_thread(look)
    return DatasetsReply(items=found[:PAGE], next=cursor + PAGE if len(found) > PAGE else None)


@router.websocket("/sessions/{id}/events")
async def events(socket: WebSocket, id: str) -> None:
    """Tell what happens in a session: `moved`, `failed`, `search`, `death` of a worker, `closed`."""
    await socket.accept()
    try:
        session = _session_of(socket, id)
    except Refusal as refusal:
        await socket.close(1008, refusal.message[:120])
        return
    with session.events() as queue:
        telling = asyncio.create_task(_tell(socket, queue))
        try:
            while not telling.done():
                await socket.receive_text()  # nothing is expected; it is how we learn that the visitor left
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            telling.cancel()


async def _tell(socket: WebSocket, queue: "asyncio.Queue[Any]") -> None:
    while True:
        event = await queue.get()
        await socket.send_json(event)
        if event["event"] == "closed":
            await socket.close()
            return


# ----------------------------------------------------------------------------------------------------- searches


@router.post("/sessions/{id}/search", status_code=202)
async def start_search(sessions: TheSessions, id: str, body: NewSearch) -> SearchReply:
    """Start a search; its candidates become nodes, and its end is at the best one."""
    sessions.search_of(id).start(body.name, body.seconds, here=body.here)
    return _reply(sessions, id)


@router.get("/sessions/{id}/search")
async def show_search(sessions: TheSessions, id: str) -> SearchReply:
    """Say where the last search of a session stands, those before it, and which searches there are for it."""
    return _reply(sessions, id)


@router.delete("/sessions/{id}/search")
async def pause_search(sessions: TheSessions, id: str) -> SearchReply:
    """Pause the search, and go to the best state that it found."""
    await sessions.search_of(id).pause()
    return _reply(sessions, id)


@router.post("/sessions/{id}/search/resume", status_code=202)
async def resume_search(sessions: TheSessions, id: str, body: MoreTime) -> SearchReply:
    """Let the last search go on where it was, whatever was done by hand meanwhile."""
    sessions.search_of(id).resume(body.seconds)
    return _reply(sessions, id)


def _reply(sessions: Sessions, id: str) -> SearchReply:
    search, known = sessions.search_of(id), watchable(sessions.find(id))
    return SearchReply(search=search.last, runs=search.runs, resumable=search.resumable, searches=list(known))


# ----------------------------------------------------------------------------------------------------- pictures


class _Svg(Response):
    """A picture."""

    media_type = "image/svg+xml"


class _Dot(Response):
    """Text for Graphviz."""

    media_type = "text/vnd.graphviz"


@router.get("/sessions/{id}/tree.svg", response_class=_Svg)
async def draw_tree(session: TheSession) -> Response:
    """Draw the tree: the best children of each node, and the way to the present one."""
    return _Svg(await in_thread(lambda: session.tree.graph().svg()))


@router.get("/sessions/{id}/chart.svg", response_class=_Svg)
async def draw_chart(session: TheSession) -> Response:
    """Draw the cost on the way to the present state, beside the compiler's levels."""
    cost = session.costs[0]
    way, title = {cost: session.tree.way(cost)}, f"{cost} on the way here"
    return _Svg(stairs(way, session.lines, across="actions", up=cost, title=title))


@router.get("/sessions/{id}/cfg.svg", response_class=_Svg)
async def draw_cfg(session: TheSession, function: str, instructions: bool = False) -> Response:
    """Draw the control flow of a function in the present state."""
    graph = await _cfg(session, function, instructions)
    if len(graph.boxes) > (most := session.limits.blocks):
        raise Refusal(413, f"{function} has {len(graph.boxes)} blocks, and up to {most} are drawn: take cfg.dot")
    return _Svg(await in_thread(graph.svg))


@router.get("/sessions/{id}/cfg.dot", response_class=_Dot)
async def write_cfg(session: TheSession, function: str, instructions: bool = False) -> Response:
    """Write the control flow of a function in the present state for Graphviz."""
    return _Dot((await _cfg(session, function, instructions)).dot())


@router.get("/sessions/{id}/nest.svg", response_class=_Svg)
async def draw_nest(session: TheSession) -> Response:
    """Draw the loops of the present state as nested boxes."""
    if "loop_tree" not in session.env.observation_spaces:
        raise Refusal(409, f"{session.env.spec.id} has no loops to draw: take loops-v0")
    return _Svg(nested(await session.text(session.tree.present.number), "nest of loops"))


async def _cfg(session: ExplorerSession, function: str, instructions: bool) -> Graph:
    if "Ir" not in session.env.observation_spaces:
        raise Refusal(409, f"{session.env.spec.id} has no control flow to draw: take an LLVM environment")
    text = await session.text(session.tree.present.number)
    try:
        return await in_thread(lambda: cfg(text, function, instructions=instructions))
    except KeyError:
        raise Refusal(404, f"there is no function {function!r} with a body in this program") from None
