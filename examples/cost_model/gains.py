"""Learns what each action gains in a state from the counts of its instructions, for searches to begin with.

Run it in examples/: python -m cost_model.gains states.db prior.npz
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from aiocg.search.priors import GainModel
from aiocg.transitions.parquet import split_of
from cost_model.rows import OBSERVATIONS, Rows, read

TEMPERATURE = 0.02  # two per cent more gain make an action e times as likely
FIRST = 32  # actions that are tried of each ranking, to judge it


def fit(actions: list[str], rows: Rows, epochs: int = 60, width: int = 256) -> GainModel:
    """Train a perceptron on the gains, which are scaled up to weigh as much as effects do, and cut off."""
    torch.manual_seed(0)
    logs = np.log1p(rows.counts)
    center, scale = logs.mean(0), logs.std(0) + 0.1
    inputs, gains, effects = map(torch.from_numpy, ((logs - center) / scale, rows.gains, rows.effects))
    inner = [nn.Linear(inputs.shape[1], width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*inner, nn.Dropout(0.2), nn.Linear(width, 2 * len(actions)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for some in torch.randperm(len(inputs)).split(64):
            gain, effect = model(inputs[some]).chunk(2, 1)
            near = nn.functional.smooth_l1_loss(gain, 30 * gains[some].clamp(-0.5, 0.5))
            loss = near + nn.functional.binary_cross_entropy_with_logits(effect, effects[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    layers = [[one.weight.detach().numpy(), one.bias.detach().numpy()] for one in model if isinstance(one, nn.Linear)]
    for array in layers[-1]:  # gains again
        array[: len(actions)] /= 30
    return GainModel(OBSERVATIONS, tuple(actions), TEMPERATURE, center, scale, tuple(map(tuple, layers)))


def means_of(actions: list[str], rows: Rows) -> GainModel:
    """Return the model that says the same in all states: what each action gains on average."""
    inputs, rates = rows.counts.shape[1], rows.effects.mean(0).clip(1e-3, 1 - 1e-3)
    biases = np.concatenate([rows.gains.mean(0), np.log(rates / (1 - rates))])
    layer = (np.zeros((len(biases), inputs), np.float32), biases)
    return GainModel(OBSERVATIONS, tuple(actions), TEMPERATURE, np.zeros(inputs), np.ones(inputs), (layer,))


def judge(model: GainModel, known: Rows, unseen: Rows) -> dict[str, Any]:
    """Return how well gains and effects in unseen states are predicted, beside the means of each action."""
    gains, effects = model.predict(unseen.counts)
    means, rates = known.gains.mean(0), known.effects.mean(0)
    best = np.maximum(unseen.gains.max(1), 0).sum()
    ranked = {"model": effects * np.exp(gains / model.temperature), "means": means, "random": None}
    first = {}
    for name, ranking in ranked.items():
        if ranking is None:
            ranking = np.random.default_rng(0).random(gains.shape)
        order = np.argsort(-np.broadcast_to(ranking, gains.shape), 1)[:, :FIRST]
        found = np.maximum.accumulate(np.take_along_axis(unseen.gains, order, 1), 1)
        first[name] = (np.maximum(found, 0).sum(0) / best).round(4).tolist()
    left = [float(np.square(one - unseen.gains).sum()) for one in (gains, means)]
    right = [float(((one > 0.5) == unseen.effects.astype(bool)).mean()) for one in (effects, rates)]
    return {"variance beyond the means": 1 - left[0] / left[1], "effects": right, "first": first}


def main(path: Path, prior: Path, means: Path | None, epochs: int, output: Path | None) -> None:
    """Train on four programs of five, judge on the fifth, and write what was trained."""
    actions, rows = read(path)
    test = np.array([split_of(program, 0.2) == "test" for program in rows.program])
    known, unseen = rows.of(~test), rows.of(test)
    print(f"{len(actions)} actions, {len(known.counts)} states to train on, {len(unseen.counts)} of other programs")
    model = fit(actions, known, epochs)
    found = judge(model, known, unseen)
    print(f"variance of gains beyond the means: {found['variance beyond the means']:.3f}")
    print("effects right: {:.3f}, by the rates of actions {:.3f}".format(*found["effects"]))
    for name, part in found["first"].items():
        print(
            f"part of the best gain in the first 1, 4, 16 actions, {name}: {part[0]:.3f} {part[3]:.3f} {part[15]:.3f}"
        )
    model.write(prior)
    if means is not None:
        means_of(actions, known).write(means)
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("prior", type=Path)
    parser.add_argument("--means", type=Path, help="write the means of actions as a prior, too, to compare with")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--json", type=Path, dest="output")
    main(**vars(parser.parse_args()))
