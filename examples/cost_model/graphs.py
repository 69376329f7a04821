"""Program graphs out of a file of transitions, as tensors: the states of some programs, in batches."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from aiocg.transitions import Transitions
from aiocg.transitions.parquet import split_of

KINDS = 8  # of edges: four flows, forwards and backwards


class State(NamedTuple):
    """A state: its hash, its program, its instructions, and these over those of the program after -Oz."""

    state: int
    program: str
    count: int
    gap: float


class Batch(NamedTuple):
    """Graphs as one: texts of nodes, the graph of each node, and source, target and kind of each edge."""

    texts: torch.Tensor
    graph: torch.Tensor
    source: torch.Tensor
    target: torch.Tensor
    kind: torch.Tensor
    count: torch.Tensor
    gap: torch.Tensor


def states_of(file: Transitions) -> list[State]:
    """Return the states whose graphs were logged, of programs that -Oz leaves something of."""
    uris = {uri for uri, _ in file.benchmarks()}
    least = {uri: value for uri, _, value in file.observations("IrInstructionCountOz", uris)}
    counts = file.observations("IrInstructionCount", {uri for uri in uris if least.get(uri, 0) >= 10})
    graphs = file.observed_states("ProgramlArrays")
    return [State(state, uri, int(n), n / least[uri]) for uri, state, n in counts if state in graphs]


def split(states: Sequence[State], by_program: bool, share: float = 0.2) -> tuple[list[State], list[State]]:
    """Divide states into those to train and those to test on: whole programs, or states of the same ones at random.

    A state that programs of both parts come to is left out of those to test on.
    """
    parts: dict[str, list[State]] = {"train": [], "test": []}
    for one in states:
        parts[split_of(one.program if by_program else f"{one.state:x}", share)].append(one)
    known = {one.state for one in parts["train"]}
    return parts["train"], [one for one in parts["test"] if one.state not in known]


class Graphs:
    """Makes batches of the graphs in a file; a text that was in no graph of those to train on has the number 0."""

    def __init__(self, path: Path, known: Sequence[State]) -> None:
        self._file = Transitions(path)
        every = max(1, len(known) // 2000)
        texts = {text for one in known[::every] for text in self._read(one)["texts"]}
        self.numbers = {text: number for number, text in enumerate(sorted(texts), 1)}

    def _read(self, one: State) -> Any:
        return self._file.observation(one.state, "ProgramlArrays")

    def instruction_nodes(self, one: State) -> int:
        """Count the nodes that are instructions, which is what a model of the count must find out."""
        graph = self._read(one)
        outside = [
            number for number, text in enumerate(graph["texts"]) if text.startswith(("[external]", "; undefined"))
        ]
        return int(np.sum((graph["node_kind"] == 0) & ~np.isin(graph["node_text"], outside)))

    def batches(self, states: Sequence[State], size: int = 32, seed: int | None = None) -> Iterator[Batch]:
        """Iterate over batches, in an order at random if there is a seed."""
        order = range(len(states)) if seed is None else np.random.default_rng(seed).permutation(len(states))
        for start in range(0, len(states), size):
            yield self._batch([states[index] for index in order[start : start + size]])

    def _batch(self, states: Sequence[State]) -> Batch:
        texts, owner, source, target, kind, nodes = [], [], [], [], [], 0
        for number, one in enumerate(states):
            graph = self._read(one)
            named = np.array([self.numbers.get(text, 0) for text in graph["texts"]], np.int64)
            texts.append(named[graph["node_text"]])
            owner.append(np.full(len(texts[-1]), number))
            (begin, end), flow = graph["edge_index"].astype(np.int64) + nodes, graph["edge_flow"].astype(np.int64)
            source += [begin, end]
            target += [end, begin]
            kind += [flow, flow + KINDS // 2]
            nodes += len(texts[-1])
        columns = [torch.from_numpy(np.concatenate(column)) for column in (texts, owner, source, target, kind)]
        labels = (torch.tensor([one.count for one in states]), torch.tensor([one.gap for one in states]))
        return Batch(*columns, *(label.float() for label in labels))
