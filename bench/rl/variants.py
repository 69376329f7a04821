"""What is trained: the agents of the paper, ours, and ours without one lever each."""

from typing import Any, NamedTuple

import numpy.typing as npt

from aiocg.gym.wrappers import AUTOPHASE_FLAGS
from aiocg.policies import Episode
from aiocg.policies.features import PARTS, worth
from aiocg.rl.programs import default_actions

STEPS = 45
OZ, OZ_MINSIZE = "oz", "oz_minsize"
LEAK = 0.001  # of rewards beyond 1 or below -1

_RENAMED = {
    "functionattrs": "function-attrs", "loop-unswitch": "simple-loop-unswitch", "loweratomic": "lower-atomic",
    "lowerinvoke": "lower-invoke", "lowerswitch": "lower-switch",
    "prune-eh": "cgscc(function-attrs),function(simplifycfg)",
}  # fmt: skip

AUTOPHASE = tuple(dict.fromkeys(_RENAMED.get(flag[1:], flag[1:]) for flag in AUTOPHASE_FLAGS))
"""The paper's 42 actions as this LLVM names them; one is twice in its list, and once here."""


class Unmasked(Episode):
    """An episode in which an action without effect may be taken again and again."""

    __slots__ = ()

    def advance(self, action: int, counts: npt.NDArray[Any], state: int, *, no_effect: bool) -> float:
        """Advance, with the mask that was there before."""
        mask = self.mask.copy()
        gain = super().advance(action, counts, state, no_effect=no_effect)
        self.mask = mask
        return gain


class Paper(Unmasked):
    """An episode as of the paper: 45 steps, and a reward for each by what -Oz saves of the program, mostly clamped."""

    __slots__ = ()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.mask[-1] = False

    def advance(self, action: int, counts: npt.NDArray[Any], state: int, *, no_effect: bool) -> float:
        """Advance, and return what the step has earned."""
        before = self.cost
        super().advance(action, counts, state, no_effect=no_effect)
        reward = (before - self.cost) / max(self.unoptimised - self.baseline, 1)
        clamped = min(max(reward, -1.0), 1.0)
        return clamped + LEAK * (reward - clamped)


class Endless(Episode):
    """An episode that ends after its steps only."""

    __slots__ = ()

    def advance(self, action: int, counts: npt.NDArray[Any], state: int, *, no_effect: bool) -> float:
        """Advance, and see to it that nobody stops."""
        gain = super().advance(action, counts, state, no_effect=no_effect)
        self.mask[-1] = False
        return gain


class Last(Episode):
    """An episode that earns what its last program is worth, in place of the best on the way."""

    __slots__ = ()

    def advance(self, action: int, counts: npt.NDArray[Any], state: int, *, no_effect: bool) -> float:
        """Advance, and return what the step has changed."""
        before = self.cost
        super().advance(action, counts, state, no_effect=no_effect)
        return worth(self.cost, self.baseline) - worth(before, self.baseline)


class Variant(NamedTuple):
    """An agent to train.

    Attributes:
        what: what it is, for tables.
        actions: texts.
        parts: of the features.
        starts: of episodes.
        episode: what keeps them.
        baseline: what rewards are relative to, `OZ` or `OZ_MINSIZE`.
        step_cost: see `PhaseOrdering`.
        activation: between the layers.
        settings: of the learner.
        temperature: of choices when it is judged; the paper's agents draw them as they do while they learn.
        counts: what it is judged by, "best" or "last" of an episode's programs.
    """

    what: str
    actions: tuple[str, ...]
    parts: tuple[str, ...] = PARTS
    starts: tuple[str, ...] = ("O0", "OzMinsize")
    episode: type[Episode] = Episode
    baseline: str = OZ_MINSIZE
    step_cost: float = 0.0002
    activation: str = "tanh"
    settings: dict[str, Any] = {}
    temperature: float = 0.5
    counts: str = "best"


# What RLlib 1.9 takes unless it is told otherwise, where our learner has it: no penalty of the KL divergence, but a
# rate that falls; and values are not clipped.
_PPO = {
    "batch": 89, "epochs": 30, "minibatch": 128, "rate": 5e-5, "discount": 0.99, "trace": 1.0, "clip": 0.3,
    "entropy": 0.0, "gradient": 1e9, "scale": 1.0,
}  # fmt: skip
# With one epoch of one part nothing is clipped, and PPO is A2C (Huang et al., 2022).
_A2C = {**_PPO, "batch": 5, "epochs": 1, "minibatch": 1 << 30, "rate": 1e-4, "entropy": 0.01, "gradient": 40.0}
PAPER = Variant(
    "PPO", AUTOPHASE, ("autophase", "histogram"), ("O0",), Paper, OZ, 0.0, "relu", _PPO, temperature=1.0, counts="last"
)
OURS = Variant("all levers", default_actions())

VARIANTS = {
    "ppo": PAPER,
    "a2c": PAPER._replace(what="A2C", settings=_A2C),
    "impala": PAPER._replace(what="IMPALA, by RLlib", settings={}),
    "dqn": PAPER._replace(what="DQN with prioritised replay, by RLlib", settings={}, temperature=0.01),
    "ppo-autophase": PAPER._replace(what="Autophase", parts=("autophase",)),
    "ppo-instcount": PAPER._replace(what="InstCount", parts=("instcount",)),
    "ppo-instcount-histogram": PAPER._replace(what="InstCount, histogram", parts=("instcount", "histogram")),
    "ours": OURS,
    "no-masks": OURS._replace(what="no masks", episode=Unmasked),
    "no-stop": OURS._replace(what="no action that stops", episode=Endless),
    "last-state": OURS._replace(what="scored by the last state", episode=Last),
    "no-costs": OURS._replace(what="sizes beside -O0 and -Oz not seen", parts=PARTS[:-1]),
    "from-O0": OURS._replace(what="begins at O0 only", starts=("O0",)),
    "no-sequences": OURS._replace(
        what="single passes only", actions=tuple(text for text in OURS.actions if not text.startswith("function("))
    ),
}

RLLIB = ("impala", "dqn")
LEVERS = ("ours", "no-masks", "no-stop", "last-state", "no-costs", "from-O0", "no-sequences")
FIGURE_9 = ("ppo", "ppo-autophase", "ppo-instcount-histogram", "ppo-instcount")
