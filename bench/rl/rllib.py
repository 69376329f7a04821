"""IMPALA (Espeholt et al., 2018), and DQN with prioritised replay in place of APEX (Horgan et al., 2018), by RLlib.

RLlib of today has no APEX any more: DQN is what remains of it on one machine, double, duelling, and of three steps.
Both are in the episodes of the paper.

Needs an environment of its own, or not to mind other versions: pip install 'ray[rllib]'
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from aiocg.policies import Features, Policy, PolicyFacts
from aiocg.rl import PhaseOrdering, Plan, Program, SyncRuntime
from bench.rl.variants import STEPS, Variant

ENVS = 8
HIDDEN = (256, 256)
NEVER = -1e4  # preference for stopping, which these agents cannot


class Given(NamedTuple):
    """What environments are made of. They are made in this process: RLlib copies their configuration, not this."""

    runtime: SyncRuntime
    programs: Sequence[Program]
    variant: Variant


class Episodes(gymnasium.Env[Any, Any]):
    """Episodes of programs drawn at random, one at a time."""

    given: ClassVar[Given]

    def __init__(self, config: Any = None) -> None:
        runtime, self._programs, variant = self.given
        self._envs = PhaseOrdering(
            runtime, variant.actions, num_envs=1, steps=STEPS, step_cost=variant.step_cost, episode=variant.episode
        )
        self._features = Features(len(variant.actions), variant.parts)
        self.observation_space = gymnasium.spaces.Box(0, 1, (self._features.size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(variant.actions))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with another program."""
        super().reset(seed=seed)
        self._envs.begin([0], [Plan(self._programs[self.np_random.integers(len(self._programs))])])
        self._envs.recv()
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        self._envs.send([0], [int(action)])
        ready = self._envs.recv()
        return self._seen(), float(ready.rewards[0]), bool(ready.ended[0]), False, {}

    def close(self) -> None:
        """Free the environment."""
        self._envs.close()

    def _seen(self) -> Any:
        (episode,) = self._envs.episodes
        assert episode is not None
        return self._features([episode])[0]


def impala_config() -> Any:
    """Return what IMPALA is trained by."""
    from ray.rllib.algorithms.impala import IMPALAConfig

    return IMPALAConfig().rl_module(model_config=_model())


def dqn_config(steps: int) -> Any:
    """Return what DQN is trained by; it explores less and less during the first fifth of its steps."""
    from ray.rllib.algorithms.dqn import DQNConfig

    epsilon = [(0, 1.0), (steps // 5, 0.02)]
    return (
        DQNConfig()
        .training(n_step=3, epsilon=epsilon, target_network_update_freq=10_000)
        .rl_module(model_config=_model())
    )


def _model() -> Any:
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return DefaultModelConfig(fcnet_hiddens=list(HIDDEN), fcnet_activation="relu", vf_share_layers=False)


def train(given: Given, facts: PolicyFacts, algorithm: str, episodes: int, seed: int) -> tuple[Policy, int]:
    """Return what an algorithm, "impala" or "dqn", has learned in so many episodes, and the steps that it took."""
    import ray

    Episodes.given = given
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
    wanted, steps = episodes * STEPS, 0
    config = (
        (impala_config() if algorithm == "impala" else dqn_config(wanted))
        .environment(Episodes)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS)
        .learners(num_learners=0)  # in this process, too
        .reporting(min_time_s_per_iteration=0)  # else an iteration goes on for ten seconds
        .debugging(seed=seed, log_level="ERROR")
    )
    trained = config.build_algo()
    try:
        while steps < wanted:
            steps = int(trained.train()["env_runners"]["num_env_steps_sampled_lifetime"])
        return Policy(facts, layers_of(trained.get_module().state_dict())), steps
    finally:
        trained.stop()
        ray.shutdown()


def layers_of(state: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return weights and biases of the actor among those of RLlib's module, with an output more: to stop."""
    own = (
        "encoder.actor_encoder.",
        "pi.",
        "encoder.net.",
        "af.",
    )  # of IMPALA, and of DQN; other arrays of theirs bound the deviations of continuous actions
    names = [name for name in state if name.startswith(own) and name.endswith((".weight", ".bias"))]
    arrays = [state[name].detach().cpu().numpy() for name in names]
    layers = [(arrays[place].T, arrays[place + 1]) for place in range(0, len(arrays), 2)]
    weights, biases = layers[-1]
    layers[-1] = np.pad(weights, ((0, 0), (0, 1))), np.append(biases, NEVER)
    return layers
