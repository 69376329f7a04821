"""ProGraML's graphs as CompilerGym had them: without nodes for types, and 0 where something is in no function."""

from collections.abc import Mapping
from typing import Any

import networkx

__all__ = ["as_json", "as_networkx"]

TYPE = 3  # the kind of nodes that came later


def as_networkx(graph: "networkx.MultiDiGraph[Any]") -> "networkx.MultiDiGraph[Any]":
    """Return the graph that CompilerGym would have, its nodes numbered from 0 on."""
    kept = [node for node, data in graph.nodes(data=True) if data["type"] != TYPE]
    numbers = {node: number for number, node in enumerate(kept)}
    other: networkx.MultiDiGraph[int] = networkx.MultiDiGraph(**graph.graph)
    other.add_nodes_from((numbers[node], _placed(graph.nodes[node])) for node in kept)
    for source, target, key, data in graph.edges(keys=True, data=True):
        if source in numbers and target in numbers:
            other.add_edge(numbers[source], numbers[target], key, **data)
    return other


def as_json(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same of a graph as JSON."""
    kept = [node for node in graph["nodes"] if node["type"] != TYPE]
    numbers = {node["id"]: number for number, node in enumerate(kept)}
    links = [
        {**link, "source": numbers[link["source"]], "target": numbers[link["target"]]}
        for link in graph["links"]
        if link["source"] in numbers and link["target"] in numbers
    ]
    return {**graph, "nodes": [{**_placed(node), "id": numbers[node["id"]]} for node in kept], "links": links}


def _placed(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, "function": max(node["function"], 0), "block": max(node["block"], 0)}
