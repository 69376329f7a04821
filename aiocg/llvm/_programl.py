"""ProGraML graphs for networkx and JSON; see `docs/observations.md`.

The client makes both on its event loop, which each holds up for about 10 microseconds per instruction of the program,
100 times longer than the worker took for the arrays.
"""

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.spaces import Json, Keyed, ObservationSpace

if TYPE_CHECKING:
    import networkx

KINDS = 4  # of nodes, and flows of edges

Arrays = Mapping[str, Any]


class ProgramGraphSpace(Keyed["networkx.MultiDiGraph[int]"]):
    """Program graphs as `networkx.MultiDiGraph`, of any size; see `to_networkx`."""

    def contains(self, x: Any) -> bool:
        """Is `x` a graph whose nodes, edges and itself have what ProGraML says?"""
        import networkx

        if not isinstance(x, networkx.MultiDiGraph) or set(x) != set(range(len(x))):
            return False
        functions = x.graph.get("function")
        return (
            isinstance(functions, list)
            and isinstance(x.graph.get("module"), list)
            and all(_is_node(node, len(functions)) for _, node in x.nodes(data=True))
            and all(_is_edge(edge) for _, _, edge in x.edges(data=True))
        )

    def sample(self, mask: Any = None, probability: Any = None) -> "networkx.MultiDiGraph[int]":
        """Draw up to eight instructions that follow each other somehow."""
        import networkx

        count = int(self.np_random.integers(1, 9))
        graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph(function=[], module=[])
        graph.add_nodes_from(range(count), type=0, text="br", function=-1, block=-1)
        ends = self.np_random.integers(0, count, size=(count, 2)).tolist()
        graph.add_edges_from(ends, flow=0, position=0)
        return graph


def _is_node(node: Mapping[str, Any], functions: int) -> bool:
    return (
        node.get("type") in range(KINDS)
        and isinstance(node.get("text"), str)
        and node.get("function") in range(-1, functions)
        and isinstance(node.get("block"), int)
    )


def _is_edge(edge: Mapping[str, Any]) -> bool:
    return edge.get("flow") in range(KINDS) and isinstance(edge.get("position"), int) and edge["position"] >= 0


def to_networkx(arrays: Arrays) -> "networkx.MultiDiGraph[int]":
    """Make a `networkx.MultiDiGraph` of a value of `ProgramlArrays`, with ProGraML's names.

    Nodes are numbered as in the arrays and have `type`, `text`, `function` and `block`; edges have `flow` and
    `position`. `graph.graph["function"]` is a list of dicts with `name` and `module`, `graph.graph["module"]` one of
    dicts with `name`.
    """
    import networkx

    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph(**_graph_attributes(arrays))
    with _collector_paused():
        _fill(graph, arrays)
    return graph


def _fill(graph: Any, arrays: Arrays) -> None:
    """Do what `add_nodes_from` and `add_edges_from` would do, in a third of their time."""
    successors: list[dict[int, dict[int, dict[str, int]]]] = [{} for _ in arrays["node_kind"]]
    predecessors: list[dict[int, dict[int, dict[str, int]]]] = [{} for _ in arrays["node_kind"]]
    for source, target, flow, position in _edges(arrays):
        parallel = successors[source].get(target)
        if parallel is None:
            parallel = successors[source][target] = predecessors[target][source] = {}
        parallel[len(parallel)] = {"flow": flow, "position": position}
    graph._node.update(enumerate(_nodes(arrays)))
    graph._succ.update(enumerate(successors))
    graph._pred.update(enumerate(predecessors))


def _to_node_link(arrays: Arrays, full_texts: Sequence[str]) -> dict[str, Any]:
    """Make networkx's node-link form of values of `ProgramlArrays` and `ProgramlFullText`: a dict of what JSON has.

    `networkx.node_link_graph(value, edges="links")` makes of it what `to_networkx` makes, with one attribute of nodes
    more: `features`, a dict in which `full_text` is a list of one text.
    """
    with _collector_paused():
        return {
            "directed": True,
            "multigraph": True,
            "graph": _graph_attributes(arrays),
            "nodes": [
                {"id": number, **node, "features": {"full_text": [text]}}
                for number, (node, text) in enumerate(zip(_nodes(arrays), full_texts, strict=True))
            ],
            "links": _links(arrays),
        }


def _links(arrays: Arrays) -> list[dict[str, int]]:
    seen: dict[tuple[int, int], int] = {}
    links = []
    for source, target, flow, position in _edges(arrays):
        key = seen.get((source, target), 0)
        seen[source, target] = key + 1
        links.append({"flow": flow, "position": position, "source": source, "target": target, "key": key})
    return links


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from going through all new dicts again and again, which takes most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Graphs(ObservationSpace):
    """An observation space whose default is made when it is asked for.

    Importing networkx takes a tenth of the time in which the first environment is ready; most never need it.
    """

    __slots__ = ()

    @property
    def default(self) -> Any:
        """A graph without nodes."""
        import networkx

        return networkx.MultiDiGraph(function=[], module=[])

    @default.setter
    def default(self, value: Any) -> None:
        """Take what a dataclass sets."""


def spaces() -> list[ObservationSpace]:
    """Return the observation spaces that are made of `ProgramlArrays` and `ProgramlArraysLlvm10`."""
    return [*_spaces("", ""), *_spaces("Llvm10", ", as CompilerGym has it")]


def _spaces(suffix: str, how: str) -> list[ObservationSpace]:
    nothing = {"directed": True, "multigraph": True, "graph": {"function": [], "module": []}, "nodes": [], "links": []}
    return [
        _Graphs(
            f"Programl{suffix}",
            ProgramGraphSpace(),
            deterministic=True,
            platform_dependent=False,
            default=None,
            description=f"The ProGraML graph of the program, for networkx{how}.",
            sources=(f"ProgramlArrays{suffix}",),
            translate=to_networkx,
            prepare=_import_networkx,
        ),
        ObservationSpace(
            f"ProgramlJson{suffix}",
            Json(),
            deterministic=True,
            platform_dependent=False,
            default=nothing,
            description=f"The ProGraML graph of the program, as JSON in networkx's node-link form{how}.",
            sources=(f"ProgramlArrays{suffix}", f"ProgramlFullText{suffix}"),
            translate=_to_node_link,
        ),
    ]


def _import_networkx() -> None:
    """Import networkx off the event loop: it takes some 60 ms."""
    import networkx  # noqa: F401


def _graph_attributes(arrays: Arrays) -> dict[str, Any]:
    functions = [{"name": name, "module": 0} for name in arrays["functions"]]
    return {"function": functions, "module": [{"name": arrays["module"]}]}


def _nodes(arrays: Arrays) -> list[dict[str, Any]]:
    texts = arrays["texts"]
    columns = (arrays[name].tolist() for name in ("node_kind", "node_text", "node_function", "node_block"))
    return [
        {"type": kind, "text": texts[text], "function": function, "block": block}
        for kind, text, function, block in zip(*columns, strict=True)
    ]


def _edges(arrays: Arrays) -> "zip[tuple[int, int, int, int]]":
    """Return source, target, flow and position of each edge, as Python's own numbers."""
    sources, targets = arrays["edge_index"].tolist()
    return zip(sources, targets, arrays["edge_flow"].tolist(), arrays["edge_position"].tolist(), strict=True)
