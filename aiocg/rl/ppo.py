"""Proximal policy optimisation (Schulman et al., 2017) with masked actions, and its training, after CleanRL's manner.

It knows nothing of compilers: whatever returns trajectories for a policy can be learned from. All random numbers follow
from the seed and the number of the update, so a run that goes on from a checkpoint is the run that was not interrupted.
"""

import io
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from aiocg.policies import Policy, PolicyError, PolicyFacts
from aiocg.rl.programs import Program, hash_of
from aiocg.rl.vector import PhaseOrdering, Plan, Trajectory, collect

__all__ = ["Learner", "Settings", "advantages", "draw_curve", "plans_of", "pytorch", "train"]

FORMAT = "aiocg ppo 1"
_DAMAGE = (AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a training depends on, beside its programs.

    Attributes:
        episodes: in all; the learning rate falls to 0 over them.
        batch: episodes of an update.
        epochs: how often an update goes over them.
        minibatch: steps of a gradient.
        hidden: widths of the hidden layers.
        rate: the learning rate at first.
        discount, trace: gamma and lambda of the advantages (Schulman et al., 2016).
        clip: how far the probability of an action may move in an update.
        entropy: weight of the entropy.
        gradient: the greatest norm of a gradient.
        scale: rewards are multiplied by it.
        seed: of all random choices.
    """

    episodes: int = 20_000
    batch: int = 64
    epochs: int = 4
    minibatch: int = 256
    hidden: tuple[int, ...] = (256, 256)
    rate: float = 5e-4
    discount: float = 0.995
    trace: float = 0.95
    clip: float = 0.2
    entropy: float = 0.002
    gradient: float = 0.5
    scale: float = 30.0
    seed: int = 0

    @property
    def updates(self) -> int:
        """How many updates there are in all."""
        return math.ceil(self.episodes / self.batch)


def pytorch() -> Any:
    """Return the module `torch`.

    Raises:
        ImportError: when it is not installed; `pip install 'aiocg[rl]'` does that.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("training needs PyTorch: pip install 'aiocg[rl]'") from error
    return torch


def _network(torch: Any, sizes: Sequence[int], activation: str, last: float) -> Any:
    """Make a perceptron, with small weights in the last layer."""
    between = torch.nn.ReLU if activation == "relu" else torch.nn.Tanh
    layers: list[Any] = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        layer = torch.nn.Linear(inputs, outputs)
        torch.nn.init.orthogonal_(layer.weight, last if number == len(sizes) - 2 else math.sqrt(2))
        torch.nn.init.zeros_(layer.bias)
        layers += [layer, between()]
    return torch.nn.Sequential(*layers[:-1])


class Learner:
    """An actor, a critic, and how they learn from episodes. It sets PyTorch to one thread.

    Args:
        facts: what the policy is to say of itself.
        settings: see `Settings`.
        size: features of a state.

    Raises:
        ImportError: when PyTorch is not installed; `pip install 'aiocg[rl]'` does that.

    Attributes:
        update: updates made so far.
        curve: what each of them has told.
    """

    def __init__(self, facts: PolicyFacts, settings: Settings, size: int) -> None:
        self.facts, self.settings, self.size = facts, settings, size
        self.update = 0
        self.curve: list[dict[str, float]] = []
        self._torch = torch = pytorch()
        torch.set_num_threads(1)  # more gain little, and lose much where workers need the processors
        torch.manual_seed(settings.seed)
        outputs = len(facts.actions) + 1
        self.actor = _network(torch, [size, *settings.hidden, outputs], facts.activation, 0.01)
        self.critic = _network(torch, [size, *settings.hidden, 1], facts.activation, 1.0)
        self._parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self._optimizer = torch.optim.Adam(self._parameters, lr=settings.rate, eps=1e-5, foreach=True)

    @property
    def part(self) -> float:
        """The part of the training that is done."""
        return self.update / self.settings.updates

    @property
    def finished(self) -> bool:
        """Whether all of it is."""
        return self.part >= 1

    def know(self, uris: Iterable[str]) -> None:
        """Take note of the programs to train on, in the facts.

        Raises:
            PolicyError: when it was trained on others before.
        """
        names = tuple(sorted(uris))
        found = hash_of(names)
        if self.facts.programs_hash not in ("", found):
            raise PolicyError("the programs are not those of the checkpoint: some load here that did not there, or not")
        self.facts = msgspec.structs.replace(self.facts, programs=len(names), uris=names, programs_hash=found)

    def layers(self) -> list[tuple[Any, Any]]:
        """Return weights, shape (inputs, outputs), and biases of the actor, for a `Policy`."""
        linear = list(self.actor)[::2]
        return [(one.weight.detach().numpy().T, one.bias.detach().numpy()) for one in linear]

    def policy(self) -> Policy:
        """Return the policy so far."""
        done = min(self.update * self.settings.batch, self.settings.episodes)
        return Policy(msgspec.structs.replace(self.facts, episodes=done), self.layers())

    # ----------------------------------------------------------------------------------------- learning

    def learn(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Make one update by episodes of the present policy, and return what can be told of it."""
        settings, torch = self.settings, self._torch
        features, masks, actions = self._stacked(trajectories)
        with torch.no_grad():
            values = self.critic(features).squeeze(1)
            before = _of(self._log_probabilities(features, masks), actions)
        gains, returns = advantages(
            [one.rewards * settings.scale for one in trajectories], values.numpy(), settings.discount, settings.trace
        )
        advantage, target = torch.from_numpy(gains), torch.from_numpy(returns)
        for group in self._optimizer.param_groups:
            group["lr"] = settings.rate * (1 - self.part)
        rng = np.random.default_rng((settings.seed, self.update))
        told: list[tuple[float, ...]] = []
        for _ in range(settings.epochs):
            for part in self._parts(rng, len(actions)):
                arrays = (features, masks, actions, before, advantage, target)
                told.append(self._descend(*[one[part] for one in arrays]))
        self.update += 1
        entropy, distance, loss = np.mean(told, axis=0).tolist()
        spread = float(np.var(returns))
        explained = 1 - float(np.var(returns - values.numpy())) / spread if spread else 0.0
        return {"entropy": entropy, "kl": distance, "value_loss": loss, "explained": explained}

    def _descend(
        self, features: Any, masks: Any, actions: Any, before: Any, gains: Any, target: Any
    ) -> tuple[float, ...]:
        settings, torch = self.settings, self._torch
        log_probabilities = self._log_probabilities(features, masks)
        difference = _of(log_probabilities, actions) - before
        ratio = difference.exp()
        gains = (gains - gains.mean()) / (gains.std(unbiased=False) + 1e-8)
        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        surrogate = -torch.min(ratio * gains, clipped * gains).mean()
        value_loss = 0.5 * (self.critic(features).squeeze(1) - target).square().mean()
        entropy = -(log_probabilities.exp() * log_probabilities).sum(1).mean()
        self._step(surrogate - settings.entropy * entropy + 0.5 * value_loss)
        with torch.no_grad():
            distance = (ratio - 1 - difference).mean()
        return entropy.item(), distance.item(), value_loss.item()

    def imitate(self, trajectories: Sequence[Trajectory], epochs: int = 20) -> float:
        """Learn to do what was done in some episodes; return the cross entropy at the end.

        Args:
            trajectories: the demonstrations.
            epochs: how often to go over them.
        """
        features, masks, actions = self._stacked(trajectories)
        rng, loss = np.random.default_rng((self.settings.seed, 1 << 32)), math.nan
        for _ in range(epochs):
            losses = []
            for part in self._parts(rng, len(actions)):
                wrong = -_of(self._log_probabilities(features[part], masks[part]), actions[part]).mean()
                self._step(wrong)
                losses.append(wrong.item())
            loss = float(np.mean(losses))
        return loss

    def _parts(self, rng: np.random.Generator, count: int) -> Iterator[Any]:
        """Return the places of steps in random order, as many at a time as a minibatch has."""
        order, size = self._torch.from_numpy(rng.permutation(count)), self.settings.minibatch
        return (order[start : start + size] for start in range(0, count, size))

    def _stacked(self, trajectories: Sequence[Trajectory]) -> tuple[Any, Any, Any]:
        parts = ([one.features for one in trajectories], [one.masks for one in trajectories])
        arrays = [np.concatenate(part) for part in (*parts, [one.actions for one in trajectories])]
        features, masks, actions = map(self._torch.from_numpy, arrays)
        return features, masks, actions

    def _log_probabilities(self, features: Any, masks: Any) -> Any:
        return self._torch.log_softmax(self.actor(features).masked_fill(~masks, -1e9), 1)

    def _step(self, loss: Any) -> None:
        self._optimizer.zero_grad()
        loss.backward()
        self._torch.nn.utils.clip_grad_norm_(self._parameters, self.settings.gradient, foreach=True)
        self._optimizer.step()

    # ---------------------------------------------------------------------------------------- checkpoint

    def save(self, path: str | os.PathLike[str], more: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint, which takes the place of an earlier one when it is whole.

        Args:
            path: the file, an `.npz` archive without pickled objects.
            more: what else to keep, as JSON can say it.
        """
        write_checkpoint(path, self.checkpoint(more))

    def checkpoint(self, more: Mapping[str, Any] | None = None) -> bytes:
        """Return the content of a checkpoint; see `save`."""
        header = {
            "format": FORMAT, "facts": self.facts, "settings": self.settings, "size": self.size,
            "update": self.update, "curve": self.curve, "more": dict(more or {}),
        }  # fmt: skip
        arrays: dict[str, Any] = {"header": np.frombuffer(msgspec.json.encode(header), np.uint8)}
        for number, parameter in enumerate(self._parameters):
            arrays[f"parameter{number}"] = parameter.detach().numpy()
            for name, value in self._optimizer.state.get(parameter, {}).items():
                arrays[f"{name}{number}"] = np.asarray(value)
        content = io.BytesIO()
        np.savez(content, **arrays)
        return content.getvalue()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple["Learner", dict[str, Any]]:
        """Read a checkpoint; return the learner, and what else was kept.

        Raises:
            PolicyError: when it is damaged or something else.
        """
        try:
            with open(path, "rb") as opened:
                if not zipfile.is_zipfile(opened):  # NumPy would offer to unpickle it
                    raise ValueError("it is damaged or something else")
            with np.load(path, allow_pickle=False) as arrays:
                header = msgspec.json.decode(arrays["header"].tobytes())
                if header["format"] != FORMAT:
                    raise PolicyError(f"{path} has the format {header['format']!r}, not {FORMAT!r}")
                facts = msgspec.convert(header["facts"], PolicyFacts)
                learner = cls(facts, msgspec.convert(header["settings"], Settings), header["size"])
                learner.update, learner.curve = header["update"], header["curve"]
                learner._restore(arrays)
        except _DAMAGE as error:
            raise PolicyError(f"{path} is no checkpoint that can be used: {error}") from error
        return learner, header["more"]

    def _restore(self, arrays: Any) -> None:
        names, torch = ("step", "exp_avg", "exp_avg_sq"), self._torch
        with torch.no_grad():
            for number, parameter in enumerate(self._parameters):
                parameter.copy_(torch.from_numpy(arrays[f"parameter{number}"]))
                if f"step{number}" in arrays:
                    self._optimizer.state[parameter] = {
                        name: torch.from_numpy(np.array(arrays[f"{name}{number}"])) for name in names
                    }


def _of(log_probabilities: Any, actions: Any) -> Any:
    return log_probabilities.gather(1, actions[:, None]).squeeze(1)


def advantages(
    rewards: Sequence[npt.NDArray[Any]], values: npt.NDArray[Any], discount: float, trace: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return generalised advantages and returns of steps, of episodes that are worth nothing behind their end.

    Args:
        rewards: of each episode, shape (steps,).
        values: what the critic says of all of their states, one behind the other, float32, shape (all steps,).
        discount, trace: gamma and lambda.

    Returns:
        Two arrays, float32, shape (all steps,).
    """
    lengths = np.array([len(one) for one in rewards])
    longest = int(lengths.max())
    there = np.arange(longest) < lengths[:, None]
    reward, value = np.zeros((2, len(rewards), longest), np.float32)
    reward[there], value[there] = np.concatenate(rewards), values
    gains = np.zeros_like(reward)
    gain: Any = np.zeros(len(rewards), np.float32)
    following = gain
    for step in reversed(range(longest)):
        gain = there[:, step] * (reward[:, step] + discount * following - value[:, step] + discount * trace * gain)
        gains[:, step], following = gain, value[:, step]
    return gains[there], (gains + value)[there]


def write_checkpoint(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a checkpoint, which takes the place of an earlier one when it is whole."""
    beside = Path(f"{path}.part")
    beside.write_bytes(content)
    beside.replace(path)


_SMOOTHED = 9  # updates before each that its point in the picture is a mean of, too


def plans_of(programs: Sequence[Program], starts: Sequence[str], count: int, seed: int, update: int) -> list[Plan]:
    """Return the episodes of an update, which its number and the seed decide; large programs come first.

    Args:
        programs: to draw from, each at most once more often than any other.
        starts: names of the starts to draw from.
        count: how many episodes.
        seed: of the training.
        update: its number.
    """
    rng = np.random.default_rng((seed, update, 1))
    rounds = -(-count // len(programs))
    places = np.concatenate([rng.permutation(len(programs)) for _ in range(rounds)])[:count].tolist()
    begun = rng.integers(len(starts), size=count).tolist()
    plans = [
        Plan(programs[place], starts[start], (seed, update, number))
        for number, (place, start) in enumerate(zip(places, begun, strict=True))
    ]
    return sorted(plans, key=lambda plan: -plan.program.unoptimised)


def train(
    envs: PhaseOrdering,
    learner: Learner,
    programs: Sequence[Program],
    *,
    checkpoint: Path | None = None,
    more: dict[str, Any] | None = None,
    every: int = 5,
    progress: Callable[[dict[str, float]], None] = lambda told: None,
) -> None:
    """Train until all episodes are done; a learner that was trained before goes on.

    Args:
        envs: where episodes are run.
        learner: what learns.
        programs: prepared for the starts of the learner's facts.
        checkpoint: a file to write now and then, and at the end, also when that comes early.
        more: what the checkpoint is to have beside the learner.
        every: updates between two checkpoints.
        progress: told of each update.
    """
    settings, facts = learner.settings, learner.facts
    consistent = learner.checkpoint(more)  # an interruption may come in the middle of an update
    try:
        while not learner.finished:
            began = time.perf_counter()
            plans = plans_of(programs, facts.starts, settings.batch, settings.seed, learner.update)
            trajectories = collect(envs, learner.policy(), plans, min_ready=16)
            collected = time.perf_counter()
            told = learner.learn(trajectories) | _summary(trajectories)
            done, ended = min(learner.update * settings.batch, settings.episodes), time.perf_counter()
            told |= {"update": learner.update, "episodes": done}
            told |= {"seconds": ended - began, "learning": ended - collected}
            told |= {"episodes_per_second": len(trajectories) / told["seconds"]}
            learner.curve.append(told)
            consistent = learner.checkpoint(more)
            if checkpoint is not None and learner.update % every == 0:
                write_checkpoint(checkpoint, consistent)
            progress(told)
    finally:
        if checkpoint is not None:
            write_checkpoint(checkpoint, consistent)


def _summary(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the steps of some episodes, and how many times smaller than -Oz their best programs are, by start."""
    told = {"steps": float(sum(len(one.actions) for one in trajectories))}
    for start in sorted({one.plan.start for one in trajectories}):
        own = [one for one in trajectories if one.plan.start == start]
        logs = [np.log(one.plan.program.oz_minsize / max(one.best, 1)) for one in own]
        told[f"ratio_{start}"] = float(np.exp(np.mean(logs)))
    return told


def draw_curve(curve: Sequence[dict[str, float]], path: Path) -> None:
    """Draw a learning curve: how many times smaller than -Oz programs become, over episodes, by running means of ten.

    Args:
        curve: `Learner.curve`.
        path: the picture: .png or .svg.

    Raises:
        ImportError: when Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need Matplotlib: pip install 'aiocg[rl]'") from error
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name in sorted({key for told in curve for key in told if key.startswith("ratio_")}):
        episodes = [told["episodes"] for told in curve if name in told]
        ratios = np.array([told[name] for told in curve if name in told])
        means = [ratios[max(0, place - _SMOOTHED) : place + 1].mean() for place in range(len(ratios))]
        (line,) = axes.plot(episodes, means, label=f"from {name.removeprefix('ratio_')}")
        axes.plot(episodes, ratios, linewidth=0.5, alpha=0.4, color=line.get_color())
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xlabel="episodes", ylabel="times smaller than -Oz (minsize)")
    axes.legend()
    figure.savefig(path)
