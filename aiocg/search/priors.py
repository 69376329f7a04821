"""Priors over actions for searches.

A model is a file that NumPy reads, and it names its actions by their texts: with another version of the compiler it
says nothing of actions that it does not know, and nothing wrong of the others."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from aiocg.env.env import Env
from aiocg.errors import InvalidAction, UnknownName
from aiocg.policies import Episode, Policy, PolicyError
from aiocg.policies.features import COUNTS, FUNCTION, OBSERVED
from aiocg.search.tuner import Outcome

__all__ = [
    "DEFAULT",
    "GainModel",
    "PolicyPrior",
    "Prior",
    "actions_of",
    "counts_of",
    "policy_prior",
    "prior_for",
    "usable_actions",
]

DEFAULT = "instructions"  # the policy that comes along

Path = str | os.PathLike[str]
Vector = NDArray[np.floating[Any]]


class Prior(Protocol):
    """Says which actions are promising in a state.

    Attributes:
        observations: names of the observation spaces that it looks at.
    """

    @property
    def observations(self) -> Sequence[str]:
        """Return them."""

    def weights(self, state: Outcome, texts: Sequence[str]) -> Vector:
        """Return how likely each action is to be the right one.

        Args:
            state: its `costs` are all numbers of the observations, one by one; its `actions` have led to it.
            texts: the actions.

        Returns:
            Numbers of at least 0 whose sum is 1, shape (texts,).
        """


async def prior_for(env: Env, prior: "Prior | Policy | Path") -> Prior:
    """Return a prior that can be used with an environment: itself, or what a policy or a file says.

    Args:
        env: is reset where the prior is a policy, which compares the program with its baselines.
        prior: a prior, a policy, the file of a `GainModel` or of a policy, or the name of a policy that comes along.

    Raises:
        PolicyError: if there is no such file or policy.
        ValueError: if the file is not of a prior, or the environment has no such observations.
        OSError: if the file cannot be read.
        ServiceError: if the program cannot be observed.
    """
    found = _read(prior) if isinstance(prior, str | os.PathLike) else prior
    looks = OBSERVED if isinstance(found, Policy) else found.observations
    missing = [name for name in looks if name not in env.observation_spaces]
    if missing:
        raise ValueError(f"the prior looks at {', '.join(missing)}, which {env.spec.id} does not observe")
    return await policy_prior(env, found) if isinstance(found, Policy) else found


def actions_of(prior: "Path") -> tuple[str, ...]:
    """Return the actions of a policy, given by its name or file; those of another prior's file are any."""
    found = _read(prior)
    return found.facts.actions if isinstance(found, Policy) else ()


def _read(path: "Path") -> "Policy | GainModel":
    try:
        return Policy.load(path)
    except PolicyError:
        if not os.path.exists(path):
            raise
        return GainModel.read(path)


class GainModel(NamedTuple):
    """A multilayer perceptron that predicts what each action gains in a state, and whether it does anything at all.

    Its inputs are the logarithms of counts, centred and scaled. Layers but the last are followed by a ReLU. Outputs are
    the gain of each action, and then for each the logit of the probability that it changes the program.

    Attributes:
        observations: names of the observation spaces whose numbers it takes.
        actions: their texts.
        temperature: by how much an action must gain more than another one to be e times as likely.
        center, scale: of the inputs, float32, shape (inputs,).
        layers: weights, shape (outputs, inputs), and biases, shape (outputs,), of each layer, float32.
    """

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    temperature: float
    center: Vector
    scale: Vector
    layers: tuple[tuple[Vector, Vector], ...]

    def predict(self, counts: Sequence[float] | Vector) -> tuple[Vector, Vector]:
        """Return the gain of each action, and the probability that it changes the program, shape (..., actions) each.

        Args:
            counts: of a state, or of several, shape (..., inputs).
        """
        values = (np.log1p(np.maximum(np.asarray(counts, np.float32), 0)) - self.center) / self.scale
        for number, (weights, biases) in enumerate(self.layers):
            values = (np.maximum(values, 0) if number else values) @ weights.T + biases
        gains, logits = np.split(values, 2, axis=-1)
        return gains, 1 / (1 + np.exp(-np.clip(logits, -30, 30)))

    def weights(self, state: Outcome, texts: Sequence[str]) -> Vector:
        """Weigh actions by their gains and by whether they do anything; unknown ones are as the mean of the others."""
        gains, effects = self.predict(state.costs)
        likely = effects * np.exp((gains - gains.max()) / self.temperature)
        known = dict(zip(self.actions, likely.tolist(), strict=True))
        mean = float(likely.mean())
        found: Vector = np.array([known.get(text, mean) for text in texts]) + 1e-12
        found /= found.sum()
        return found

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that `write` has written; nothing in it is executed.

        Raises:
            ValueError: if it is another file, or a damaged one.
            OSError: if it cannot be read.
        """
        try:
            with open(path, "rb") as opened:
                if not zipfile.is_zipfile(opened):  # NumPy would offer to unpickle it
                    raise ValueError("it is damaged or something else")
            with np.load(path, allow_pickle=False) as file:
                return cls._of({name: file[name] for name in file.files})
        except (KeyError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{os.fspath(path)} is not the file of a prior: {error}") from error

    @classmethod
    def _of(cls, arrays: Mapping[str, Any]) -> Self:
        layers: list[tuple[Vector, Vector]] = []
        while f"weights{len(layers)}" in arrays:
            layers.append((arrays[f"weights{len(layers)}"], arrays[f"biases{len(layers)}"]))
        observations, actions = (tuple(arrays[name].tolist()) for name in ("observations", "actions"))
        numbers = float(arrays["temperature"]), arrays["center"], arrays["scale"]
        made = cls(observations, actions, *numbers, tuple(layers))
        sizes = [len(made.center), *[len(biases) for _, biases in layers]]
        shapes = [weights.shape for weights, _ in layers]
        wanted = [(after, before) for before, after in pairwise(sizes)]
        if not layers or shapes != wanted or sizes[-1] != 2 * len(made.actions) or len(made.scale) != sizes[0]:
            raise ValueError(f"layers of {shapes} do not fit {len(made.center)} inputs and {len(made.actions)} actions")
        return made

    def write(self, path: Path) -> None:
        """Write a file of NumPy's arrays."""
        arrays: dict[str, Any] = {name: np.array(getattr(self, name), str) for name in ("observations", "actions")}
        arrays |= {"temperature": np.array(self.temperature), "center": self.center, "scale": self.scale}
        for number, (weights, biases) in enumerate(self.layers):
            arrays |= {f"weights{number}": weights, f"biases{number}": biases}
        with open(path, "wb") as file:
            np.savez_compressed(file, **arrays)


def counts_of(outcome: Outcome) -> Any:
    """Return `InstCount` and `Autophase` of a state, int64, of an outcome that has them among its costs."""
    return np.array(outcome.costs[:COUNTS], np.int64)


async def usable_actions(env: Env, texts: Sequence[str]) -> list[bool]:
    """Return which texts are actions of the compiler at hand."""
    try:
        await env.check_actions(texts)
        return [True] * len(texts)
    except (UnknownName, InvalidAction):
        if len(texts) == 1:
            return [False]
    half = len(texts) // 2
    return await usable_actions(env, texts[:half]) + await usable_actions(env, texts[half:])


class PolicyPrior:
    """A policy as the prior of `mcts` or `beam`: how likely it would take each action; see `policy_prior`.

    Actions that it does not know are as likely as the mean of the others.

    Args:
        policy: the policy.
        unoptimised, baseline: instructions of the program as it came, and after -Oz of the program marked `minsize`.
    """

    def __init__(self, policy: Policy, unoptimised: float, baseline: float) -> None:
        self._policy, self._unoptimised, self._baseline = policy, unoptimised, baseline
        self._places = {text: place for place, text in enumerate(policy.facts.actions)}

    @property
    def observations(self) -> Sequence[str]:
        """Return the observation spaces that it looks at."""
        return OBSERVED

    def weights(self, state: Outcome, texts: Sequence[str]) -> Any:
        """Return probabilities of actions, float64, shape (texts,), whose sum is 1."""
        facts, sizes = self._policy.facts, (self._unoptimised, self._baseline)
        episode = Episode(len(facts.actions), facts.steps, *sizes, counts_of(state), state.state)
        for text in state.actions[: facts.steps]:
            if text in self._places:
                episode.taken.append(self._places[text])
                episode.histogram[self._places[text]] += 1
        logits = self._policy.logits(self._policy.features([episode]))[0, :-1]
        likely = np.exp(logits.astype(float) - float(logits.max()))
        mean = float(likely.mean())
        found = np.array([likely[self._places[text]] if text in self._places else mean for text in texts]) + 1e-12
        return found / found.sum()


async def policy_prior(env: Env, policy: Path | Policy = DEFAULT) -> PolicyPrior:
    """Return a policy as a prior for the program of an environment, as in `mcts(env, prior=await policy_prior(env))`.

    Args:
        env: an LLVM environment; it is reset.
        policy: a policy, its file, or the name of one that comes along.

    Raises:
        PolicyError: when the file is damaged.
        ServiceError: when the program cannot be observed.
    """
    chosen = policy if isinstance(policy, Policy) else Policy.load(policy)
    if chosen.facts.parts == FUNCTION:
        raise PolicyError("a policy for single functions says nothing of whole programs, so it is no prior")
    await env.reset()
    unoptimised, baseline = await env.observe("IrInstructionCountO0", "IrInstructionCountOzMinsize")
    return PolicyPrior(chosen, float(unoptimised), float(baseline))
