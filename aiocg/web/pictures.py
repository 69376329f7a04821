"""Routes of pictures: what a session shows, as SVG and as text for Graphviz."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aiocg.host.threads import in_thread
from aiocg.pictures.cfg import cfg
from aiocg.pictures.curves import stairs
from aiocg.pictures.graph import Graph
from aiocg.pictures.nested import nested
from aiocg.web.limits import Refusal
from aiocg.web.lookup import session_of

__all__ = ["router"]

router = APIRouter()


class Svg(Response):
    """A picture."""

    media_type = "image/svg+xml"


class Dot(Response):
    """Text for Graphviz."""

    media_type = "text/vnd.graphviz"


@router.get("/sessions/{id}/tree.svg", response_class=Svg)
async def draw_tree(request: Request, id: str) -> Response:
    """Draw the tree: the best children of each node, and the way to the present one."""
    tree = session_of(request, id).tree
    return Svg(await in_thread(lambda: tree.graph().svg()))


@router.get("/sessions/{id}/chart.svg", response_class=Svg)
async def draw_chart(request: Request, id: str) -> Response:
    """Draw the cost on the way to the present state, beside the compiler's levels."""
    session = session_of(request, id)
    cost, tree = session.costs[0], session.tree
    points = [(float(place), tree[one].costs[cost]) for place, one in enumerate(tree.trail)]
    drawn = stairs({cost: points}, session.lines, across="actions", up=cost, title=f"{cost} on the way here")
    return Svg(drawn)


@router.get("/sessions/{id}/cfg.svg", response_class=Svg)
async def draw_cfg(request: Request, id: str, function: str, instructions: bool = False) -> Response:
    """Draw the control flow of a function in the present state."""
    graph = await _cfg(request, id, function, instructions)
    if len(graph.boxes) > (most := session_of(request, id).limits.blocks):
        raise Refusal(413, f"{function} has {len(graph.boxes)} blocks, and up to {most} are drawn: take cfg.dot")
    return Svg(await in_thread(graph.svg))


@router.get("/sessions/{id}/cfg.dot", response_class=Dot)
async def write_cfg(request: Request, id: str, function: str, instructions: bool = False) -> Response:
    """Write the control flow of a function in the present state for Graphviz."""
    graph = await _cfg(request, id, function, instructions)
    return Dot(graph.dot())


@router.get("/sessions/{id}/nest.svg", response_class=Svg)
async def draw_nest(request: Request, id: str) -> Response:
    """Draw the loops of the present state as nested boxes."""
    session = session_of(request, id)
    if "loop_tree" not in session.env.observation_spaces:
        raise Refusal(409, f"{session.env.spec.id} has no loops to draw: take loops-v0")
    return Svg(nested(await session.text(session.tree.present.number), "nest of loops"))


async def _cfg(request: Request, id: str, function: str, instructions: bool) -> Graph:
    session = session_of(request, id)
    if "Ir" not in session.env.observation_spaces:
        raise Refusal(409, f"{session.env.spec.id} has no control flow to draw: take an LLVM environment")
    text = await session.text(session.tree.present.number)
    try:
        return await in_thread(lambda: cfg(text, function, instructions=instructions))
    except KeyError:
        raise Refusal(404, f"there is no function {function!r} with a body in this program") from None
