"""Trains the graph network on a file of transitions, once for each way of splitting it, and says how far it is off.

Run it in examples/: python -m cost_model.train states.db --seconds 300 --json errors.json
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aiocg.transitions import Transitions
from cost_model.ggnn import Ggnn, loss_of
from cost_model.graphs import Graphs, State, split, states_of


def train(graphs: Graphs, states: Sequence[State], seconds: float, epochs: int) -> Ggnn:
    """Train until the epochs or the time are over; the learning rate falls to nothing until then."""
    torch.manual_seed(0)
    model, started = Ggnn(len(graphs.numbers) + 1), time.process_time()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        losses: list[float] = []
        for batch in graphs.batches(states, seed=epoch):
            used = max((time.process_time() - started) / seconds, (epoch + 32 * len(losses) / len(states)) / epochs)
            if used >= 1:
                return model
            optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, 2 * (1 - used))
            loss = loss_of(model(batch), batch)
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if len(losses) % 100 == 0:
                at = f"epoch {epoch}, {len(losses) * 32} of {len(states)} states"
                print(f"{time.process_time() - started:5.0f} s  {at}  loss {np.mean(losses[-100:]):.4f}", flush=True)
    return model


def off(predicted: Any, true: Any) -> float:
    """Return the mean relative error."""
    return float(np.mean(np.abs(np.asarray(predicted) - true) / true))


@torch.no_grad()
def judge(graphs: Graphs, model: Ggnn, known: Sequence[State], unseen: Sequence[State]) -> dict[str, float]:
    """Return relative errors on unseen states: of the model, the mean, and counting the nodes that are instructions."""
    outputs = [model(batch) for batch in graphs.batches(unseen, 64)]
    count, gap = (torch.cat(some).exp().numpy() for some in zip(*outputs, strict=True))
    counts, gaps = np.array([(one.count, one.gap) for one in known]).T
    true_counts, true_gaps = np.array([(one.count, one.gap) for one in unseen]).T
    counted = [graphs.instruction_nodes(one) for one in unseen[:1000]]
    return {
        "count, model": off(count, true_counts),
        "count, mean": off(counts.mean(), true_counts),
        "count, nodes counted": off(counted, true_counts[:1000]),
        "gap, model": off(gap, true_gaps),
        "gap, mean": off(gaps.mean(), true_gaps),
        "gap, median": off(np.median(gaps), true_gaps),
    }


def main(path: Path, seconds: float, epochs: int, output: Path | None) -> None:
    """Train and judge, on states at random and on programs that are not seen."""
    with Transitions(path) as file:
        states = states_of(file)
    found = {}
    for name, by_program in (("by state", False), ("by program", True)):
        known, unseen = split(states, by_program)
        programs = [len({one.program for one in some}) for some in (known, unseen)]
        print(f"split {name}: {len(known)} states of {programs[0]} programs, {len(unseen)} of {programs[1]}")
        graphs = Graphs(path, known)
        model = train(graphs, known, seconds, epochs)
        found[name] = judge(graphs, model, known, unseen[:: max(1, len(unseen) // 5000)])
        print("\n".join(f"  {what:22} {error:.3f}" for what, error in found[name].items()))
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0, help="of processor time, to train for each split")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--json", type=Path, dest="output")
    main(**vars(parser.parse_args()))
