"""Program graphs as users see them: the arrays, networkx's graph, and its JSON."""

import gc
import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import aiocg
from aiocg.llvm._programl import ProgramGraphSpace, to_networkx

pytestmark = pytest.mark.asyncio(loop_scope="session")

WALK = ("mem2reg", "simplifycfg", "instcombine<no-verify-fixpoint>", "inline", "loop-rotate")
FORMS = ("ProgramlArrays", "ProgramlFullText", "Programl", "ProgramlJson")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gcd", "crc32", pytest.param("regex", marks=pytest.mark.slow)])
async def test_forms_of_the_graph_agree_along_a_walk(make, name) -> None:  # type: ignore[no-untyped-def]
    env = await make(name)
    for step in (None, *WALK):
        if step is not None:
            await env.step(step)
        arrays, texts, graph, link = await env.observe(*FORMS)
        for form, value in zip(FORMS, (arrays, texts, graph, link), strict=True):
            assert env.observation_spaces[form].space.contains(value), (form, step)
        assert networkx.utils.graphs_equal(graph, by_public_methods(arrays))
        check_link(link, graph, texts)
        assert int((arrays["node_kind"] == 0).sum()) == 1 + await env.observe("IrInstructionCount") + undefined(arrays)


async def test_forms_of_the_graph_that_llvm_10_gave_agree(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    await env.step("mem2reg")
    forms = [f"{form}Llvm10" for form in FORMS]
    arrays, texts, graph, link = await env.observe(*forms)
    for form, value in zip(forms, (arrays, texts, graph, link), strict=True):
        assert env.observation_spaces[form].space.contains(value), form
    assert networkx.utils.graphs_equal(graph, by_public_methods(arrays))
    check_link(link, graph, texts)
    assert set(arrays["node_kind"].tolist()) == {0, 1, 2} and "ptr" not in arrays["texts"]
    plain = await env.observe("ProgramlFullText")
    assert texts[: arrays["node_kind"].size] == plain[: len(texts)], "gcd has no marker of lifetimes, and one null"


def by_public_methods(arrays: Any) -> "networkx.MultiDiGraph[int]":
    """Make the graph as anyone would."""
    functions = [{"name": name, "module": 0} for name in arrays["functions"]]
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph(function=functions, module=[{"name": arrays["module"]}])
    columns = [arrays[f"node_{name}"].tolist() for name in ("kind", "text", "function", "block")]
    for number, (kind, text, function, block) in enumerate(zip(*columns, strict=True)):
        graph.add_node(number, type=kind, text=arrays["texts"][text], function=function, block=block)
    for source, target, flow, position in zip(
        *arrays["edge_index"].tolist(), arrays["edge_flow"].tolist(), arrays["edge_position"].tolist(), strict=True
    ):
        graph.add_edge(source, target, flow=flow, position=position)
    return graph


def check_link(link: Any, graph: "networkx.MultiDiGraph[int]", texts: list[str]) -> None:
    again = networkx.node_link_graph(json.loads(json.dumps(link)), edges="links")
    assert [again.nodes[number].pop("features") for number in again] == [{"full_text": [text]} for text in texts]
    assert networkx.utils.graphs_equal(again, graph)


def undefined(arrays: Any) -> int:
    text = arrays["texts"].index("; undefined function") if "; undefined function" in arrays["texts"] else -1
    return int((arrays["node_text"] == text).sum())


async def test_graph_has_the_attributes_of_programl(make) -> None:  # type: ignore[no-untyped-def]
    graph = await (await make("gcd")).observe("Programl")
    assert graph.nodes[0] == {"type": 0, "text": "[external]", "function": -1, "block": -1}
    assert {"name": "main", "module": 0} in graph.graph["function"]
    assert graph.graph["module"] == [{"name": "gcd.c"}]
    assert {attributes["flow"] for _, _, attributes in graph.edges(data=True)} == {0, 1, 2, 3}
    assert {attributes["type"] for _, attributes in graph.nodes(data=True)} == {0, 1, 2, 3}
    assert networkx.is_weakly_connected(graph)


async def test_graph_belongs_to_the_receiver(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    graph = await env.observe("Programl")
    graph.nodes[0]["mine"] = True
    graph.remove_node(5)
    again = await env.observe("Programl")
    assert 5 in again and not any("mine" in attributes for _, attributes in again.nodes(data=True))


async def test_defaults_are_graphs_without_nodes(make) -> None:  # type: ignore[no-untyped-def]
    spaces = (await make("gcd")).observation_spaces
    for name in FORMS:
        assert spaces[name].space.contains(spaces[name].default), name
    assert len(spaces["Programl"].default) == 0
    assert spaces["Programl"].default is not spaces["Programl"].default  # so that nobody can spoil it for others
    assert spaces["ProgramlArrays"].default["edge_index"].shape == (2, 0)


async def test_space_of_graphs_refuses_what_is_no_program_graph() -> None:
    space = ProgramGraphSpace()
    assert space == ProgramGraphSpace() and hash(space) == hash(ProgramGraphSpace())
    space.seed(3)
    assert all(space.contains(space.sample()) for _ in range(20))
    graph = space.sample()
    for wrong in (networkx.DiGraph(graph), networkx.MultiDiGraph(), {}, None):
        assert not space.contains(wrong)
    for node in ({"type": 4}, {"text": None}, {"function": 0}, {"block": None}):
        assert not space.contains(with_node(graph, **node)), node
    for edge in ({"flow": 4}, {"flow": None}, {"position": -1}, {"position": 0.5}):
        assert not space.contains(with_edge(graph, **edge)), edge
    assert not space.contains(networkx.relabel_nodes(graph, {0: "first"}))


def with_node(graph: "networkx.MultiDiGraph[int]", **attributes: Any) -> "networkx.MultiDiGraph[int]":
    copy = graph.copy()
    copy.nodes[0].update(attributes)
    return copy


def with_edge(graph: "networkx.MultiDiGraph[int]", **attributes: Any) -> "networkx.MultiDiGraph[int]":
    copy = graph.copy()
    next(iter(copy.edges(data=True)))[2].update(attributes)
    return copy


async def test_example_of_the_documentation_makes_tensors(make) -> None:  # type: ignore[no-untyped-def]
    page = (Path(__file__).parents[2] / "docs/observations.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    arrays = await (await make("crc32")).observe("ProgramlArrays")
    vocabulary = {text: number for number, text in enumerate(arrays["texts"][:-1], 1)}
    x, edge_index, edge_attr = names["tensors"](arrays, vocabulary)
    nodes, edges = len(arrays["node_kind"]), len(arrays["edge_flow"])
    assert (x.shape, edge_index.shape, edge_attr.shape) == ((nodes, 2), (2, edges), (edges, 2))
    assert (x.dtype, edge_index.dtype, edge_attr.dtype) == (np.int64,) * 3
    graph = to_networkx(arrays)
    assert x.tolist() == [[vocabulary.get(one["text"], 0), one["type"]] for _, one in graph.nodes(data=True)]
    assert edge_index.max() < nodes and edge_index.min() == 0
    assert sorted(map(tuple, np.hstack([edge_index.T, edge_attr]).tolist())) == sorted(
        (source, target, one["flow"], one["position"]) for source, target, one in graph.edges(data=True)
    )


async def test_arrays_are_an_observation_of_every_step(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    env.observation_space = "ProgramlArrays"
    before, _ = await env.reset()
    after, *_ = await env.step("mem2reg")
    assert len(after["node_kind"]) < len(before["node_kind"])
    assert "alloca" in before["texts"] and "alloca" not in after["texts"]
    assert isinstance(env, aiocg.Env)


@pytest.mark.parametrize("enabled", [True, False])
async def test_collector_is_left_as_it_was(enabled: bool) -> None:
    empty = {name: np.zeros(0, np.int32) for name in ("node_kind", "node_text", "node_function", "node_block")}
    empty |= {name: np.zeros(0, np.int32) for name in ("edge_flow", "edge_position")}
    arrays: Any = {**empty, "edge_index": np.zeros((2, 0), np.int32), "texts": [], "functions": [], "module": "m"}
    (gc.enable if enabled else gc.disable)()
    try:
        to_networkx(arrays)
        with pytest.raises(KeyError):
            to_networkx({name: value for name, value in arrays.items() if name != "edge_flow"})
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
