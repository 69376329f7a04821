"""The synchronous environment: Gymnasium's interface to an asynchronous one."""

import asyncio
import copy
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

import gymnasium
import numpy as np

from aiocg import __version__
from aiocg.datasets import resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.env.base import STEP_TIMEOUT
from aiocg.env.env import Env
from aiocg.env.episode import Snapshot
from aiocg.env.plan import Spaces, StepSettings, check_known
from aiocg.env.preparation import BenchmarkLike
from aiocg.env.step import Candidate, StepResult
from aiocg.errors import UnknownName
from aiocg.fleet.requests import Receiver
from aiocg.gym._portal import RuntimeThread, default_thread
from aiocg.gym._recipe import Recipe, collection, configured
from aiocg.host.threads import in_thread
from aiocg.spaces import ActionSpace, NoObservation, ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike
from aiocg.spaces.rewards import Reward
from aiocg.states.state import CompilerEnvState

if TYPE_CHECKING:
    from aiocg.env.env import Env
    from aiocg.validation import ValidationResult

Space = TypeVar("Space")


# -------------------------------------------------- Rendering an environment: a status line and the default observation

_LONGEST = 100  # characters of an action

RENDER_MODES = ("human", "ansi")


class UnknownRenderMode(UnknownName, TypeError):
    """A render mode that there is not.

    A TypeError, too, as after that Stable-Baselines3's `make_vec_env`, which tries "rgb_array", goes on without one.
    """

    def __init__(self, mode: str) -> None:
        again = re.match(r"unknown render mode '(.*?)'; ", mode)  # `gymnasium.make` makes errors anew from their text
        super().__init__("render mode", again[1] if again else mode, RENDER_MODES)


def check_render_mode(mode: str | None) -> None:
    """Raise UnknownRenderMode for an unknown render mode; None is allowed."""
    if mode is not None and mode not in RENDER_MODES:
        raise UnknownRenderMode(mode)


def describe(env: "Env", last: StepResult | None) -> str:
    """Return text on the program, the actions so far, the rewards, and the last default observation.

    Args:
        last: result of its last reset or step, None before the first.
    """
    if last is None:
        return f"{env.spec.id}  {env.benchmark.uri}  not reset yet"
    observation, reward, terminated, _, info = last
    texts = env.action_texts
    parts = [env.spec.id, str(env.benchmark.uri), f"{len(texts)} action{'' if len(texts) == 1 else 's'}"]
    if texts:
        last_text = texts[-1] if len(texts[-1]) <= _LONGEST else f"{texts[-1][:_LONGEST]}…"
        parts.append(f"last {last_text}")
    if env.reward_space is not None:
        total = env.episode_reward or 0.0
        earned = f"{reward:+.4f}" if isinstance(reward, float) else str(reward)  # a list, if one was asked for
        parts.append(f"{env.reward_space} {earned}, in all {total:.4f}")
    if terminated:
        parts.append(f"ended: {info.get('error_details', 'no more actions')}")
    line = "  ".join(parts)
    return line if observation is None else f"{line}\n{observation}"


# -------------------------------------------- The synchronous environment: Gymnasium's interface to an asynchronous one


class _View(Generic[Space]):
    """Values by name, as `view["Name"]` or `view.Name()`, computed on access."""

    kind = ""

    def __init__(self, env: "CompilerEnv") -> None:
        self._env = env

    @property
    def spaces(self) -> Mapping[str, Space]:
        """All spaces of this kind, by name."""
        found: Mapping[str, Space] = getattr(self._env, f"{self.kind.replace(' ', '_')}s")
        return found

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name.startswith("_"):  # of a copy under construction, or a question whether there is a special method
            raise AttributeError(name)
        try:
            check_known(self.kind, name, self.spaces)
        except Exception as error:
            raise AttributeError(str(error)) from None
        return lambda: self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.spaces

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.spaces)} {self.kind}s>"


class ObservationView(_View[ObservationSpace]):
    """Observations of the present state: `env.observation["Ir"]`, or `env.observation.Ir()`."""

    kind = "observation space"

    def __getitem__(self, name: str) -> Any:
        """Compute an observation.

        Raises:
            UnknownName: when there is no such space.
            ServiceError: when it cannot be computed.
        """
        return self._env.observe(name)

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: gymnasium.Space[Any] | None = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one; see `CompilerEnv.add_derived_space`."""
        self._env.add_derived_space(id, base_id, translate, space, default=default)


class RewardView(_View[Reward]):
    """What the episode has earned so far, in any reward space: `env.reward["IrInstructionCountOz"]`.

    It is the reward of a single step from the start of the episode to the present state. For rewards that are
    differences of costs, as all built-in ones are, it is the sum of the rewards of the steps.
    """

    kind = "reward space"

    def __getitem__(self, name: str) -> float:
        """Compute what the episode has earned.

        Raises:
            UnknownName: when there is no such space.
            ResetNeeded: when there is no episode.
            ServiceError: when what the reward needs cannot be observed.
        """
        return self._env.earned(name)

    def add_space(self, reward: Reward) -> None:
        """Add a reward of your own; see `CompilerEnv.add_reward_space`."""
        self._env.add_reward_space(reward)


def _derived(
    base: ObservationSpace, id: str, translate: Callable[[Any], Any], space: gymnasium.Space[Any] | None, default: Any
) -> ObservationSpace:
    """Return a space of observations that are a function of others; see `CompilerEnv.add_derived_space`."""
    if default is None:
        try:
            default = translate(base.default)
        except Exception as error:
            error.add_note(f"translate was called with the default of {base.name}: give default=... to do without")
            raise
    return ObservationSpace(
        id,
        base.space if space is None else space,
        base.deterministic,
        base.platform_dependent,
        default,
        f"derived from {base.name}",
        sources=(base.name,),
        translate=translate,
    )


async def _earned(env: Env, reward: Reward) -> float:
    """Compute the reward of a single step from the start of the episode to the present state."""
    names = reward.needs
    after = await env.observe(*names[: len(reward.observation_spaces)], *names[:1])  # at least two, so a list
    async with await env.fork() as start:
        start.observation_space = start.reward_space = None
        await start.reset(benchmark=env.benchmark)
        before = dict(zip(names, await start.observe(*names, *names[:1]), strict=False))
    return reward.reward(before, dict(zip(names, after, strict=False)), before)


T = TypeVar("T")


def _inner(read: Callable[[Env], T], doc: str) -> T:
    """Return a property of a `CompilerEnv` that is one of the asynchronous environment behind it."""
    return property(lambda env: read(env.asynchronous), doc=doc)  # type: ignore[return-value]


def observed(name: str, convert: Callable[[Any], T], doc: str) -> Any:
    """Return a property of a `CompilerEnv` that is an observation of the present state.

    Args:
        name: of the observation space.
        convert: makes the property's value of that of the observation.
        doc: its docstring.
    """
    return property(lambda env: convert(env.observe(name)), doc=doc)


def repeated(name: str, what: str, least: int) -> Any:
    """Return a property of a `CompilerEnv` that is how often something is done, a parameter of its session.

    Args:
        name: such as `llvm.NAME`: `llvm.get_NAME` asks for it, and `llvm.set_NAME` sets it.
        what: is done to the program, for the docstring.
        least: the number that it is at least.
    """
    asking, setting = (name.replace(".", f".{verb}_") for verb in ("get", "set"))
    return property(
        lambda env: int(env.send_param(asking, "")),
        lambda env, count: env.send_param(setting, str(count)),
        doc=f"How often the program is {what}; set it to {least} to 10,000.",
    )


SETTINGS = ("benchmark", "action_space", "observation_space", "reward_space", "timeout")  # that a reset may change

_REBUILT = ("asynchronous", "runtime", "_datasets", "_next_benchmark", "_last", "_own")  # not copied as they are
_NOTHING = NoObservation()


class CompilerEnv(gymnasium.Env[Any, Any]):
    """A compiler environment for blocking code, after Gymnasium's interface::

        env = gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/qsort")
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    It is thread-safe; concurrent calls are executed in the order of arrival. `fork` and `copy.deepcopy` copy it.
    Unpickling it, or using it in a fork of the process, replays its actions on the workers of that process.

    Args:
        environment: id, such as `"llvm-v0"`.
        benchmark: a URI, the path of a source or bitcode file, or a `Benchmark`; the environment's own if None.
        observation_space, reward_space: names of the defaults, the environment's own if None; or a `Reward`.
        action_space: the name of one that the compiler declares, or a list of the texts of actions.
        extra_actions: texts of actions to add to a discrete space.
        rewards: your own, in addition to the environment's.
        datasets: where benchmarks come from, the runtime's if None; a list is added to the runtime's.
        derived_observation_spaces: your own, derived from others.
        render_mode: "human" prints after each reset and step, "ansi" lets `render` return text.
        timeout: seconds that the compiler may take for a step, unless it says otherwise.
        runtime: where it lives, `default_runtime()` if None.
        settings: specific to the environment, such as `gcc_bin="gcc-12"`.

    Attributes:
        render_mode: "human", "ansi" or None.
        runtime: the runtime, and the portal to its event loop.
        asynchronous: the asynchronous environment, which belongs to that event loop.
        action_spaces: all action spaces of the compiler, by name.
        observation_spaces: all observation spaces, by name.
        reward_spaces: all rewards, by name.
        parameters: the parameters that were sent and accepted, by key.
        compiler_version: name and version of the compiler.
        in_episode: has the environment been reset, and has the episode not ended?
        episode_reward: sum of the rewards since the reset, None without a reward space.
        actions: the actions since the reset, in the form of the action space.
        action_texts: the actions since the reset as texts, whatever the action space.
        state: the current state as a value, for `apply`, for `SyncRuntime.replay`, and for files.
        state_hash: a 64-bit hash of the current state; equal states have equal hashes.
        episode_walltime: seconds since the reset, 0 before the first.
        version: the version of this package.
        reward_range: the range of a step's reward; always infinite.

    Raises:
        UnknownName, InvalidAction, DatasetError, WorkerStartError: as `aiocg.Runtime.make`.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # as Gymnasium declares it

    action_spaces = _inner(lambda env: env.action_spaces, "All action spaces of the compiler, by name.")
    observation_spaces = _inner(lambda env: env.observation_spaces, "All observation spaces, by name.")
    reward_spaces = _inner(lambda env: env.reward_spaces, "All rewards, by name.")
    parameters = _inner(lambda env: env.parameters, "The parameters that were sent and accepted, by key.")
    compiler_version = _inner(lambda env: env.compiler_version, "Name and version of the compiler.")
    in_episode = _inner(lambda env: env.in_episode, "Has the environment been reset, and has the episode not ended?")
    episode_reward = _inner(lambda env: env.episode_reward, "Sum of rewards since the reset, None without a space.")
    actions = _inner(lambda env: env.actions, "The actions since the reset, in the form of the action space.")
    action_texts = _inner(lambda env: env.action_texts, "The actions since the reset as texts, whatever the space.")
    state = _inner(lambda env: env.state, "The current state as a value, for `apply` and for files.")
    state_hash = _inner(lambda env: env.state_hash, "A 64-bit hash of the state; equal states have equal hashes.")
    episode_walltime = _inner(lambda env: env.state.walltime, "Seconds since the reset, 0 before the first.")
    version = __version__
    reward_range: tuple[float, float] = (-np.inf, np.inf)  # of a step

    def __init__(
        self,
        environment: str,
        *,
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = None,
        reward_space: str | Reward | None = None,
        action_space: ActionSpaceLike | None = None,
        extra_actions: Sequence[str] = (),
        rewards: Iterable[Reward] = (),
        datasets: Datasets | Iterable[Dataset] | None = None,
        derived_observation_spaces: Iterable[ObservationSpace] = (),
        render_mode: str | None = None,
        timeout: float = STEP_TIMEOUT,
        runtime: RuntimeThread | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self.environment = configured(environment, settings)
        recipe = Recipe(
            benchmark=benchmark,
            observation_space=observation_space,
            reward_space=reward_space,
            action_space=action_space,
            extra_actions=extra_actions,
            timeout=timeout,
            rewards=rewards,
            derived_observation_spaces=derived_observation_spaces,
            datasets=datasets,
        )
        if not isinstance(runtime, RuntimeThread | None):
            raise TypeError(f"the runtime of blocking code is an aiocg.gym.SyncRuntime, not {runtime!r}")
        self._build(recipe, runtime if runtime is not None else default_thread())

    # ------------------------------------------------------------------------------------- made, copied

    def _build(self, recipe: Recipe, runtime: RuntimeThread) -> None:
        """Make the asynchronous environment described by a recipe."""
        self.runtime = runtime
        runtime.run(runtime.runtime.start_workers, self.environment)
        self._datasets = collection(recipe.datasets, runtime.datasets)
        self._next_benchmark: Benchmark | None = None
        self._last: StepResult | None = None
        self._own: dict[tuple[str, str], Reward | ObservationSpace] = {}  # what the user has added
        self._own |= {("observation", space.name): space for space in recipe.derived_observation_spaces}
        self._own |= {("reward", reward.name): reward for reward in recipe.rewards}
        self.asynchronous = runtime.run(recipe.make, runtime.runtime, self.environment, self._resolved)

    def _recipe(self) -> Recipe:
        """Return how to make this environment, including its state, without asking the runtime."""
        return Recipe.of(
            self.asynchronous,
            benchmark=self._next_benchmark,
            own=tuple(self._own.values()),
            datasets=None if self._datasets is self.runtime.datasets else self._datasets,
        )

    def _extras(self) -> dict[str, Any]:
        """Return the attributes to copy: Gymnasium's and those of subclasses."""
        return {name: value for name, value in self.__dict__.items() if name not in _REBUILT}

    def __reduce__(self) -> tuple[Any, ...]:
        # The attributes are passed as state, not as arguments, so that they may refer to the environment itself.
        recipe = self._recipe().portable(self.asynchronous.spec.form)
        return _rebuild, (type(self), self.environment, recipe), self._extras()

    def fork(self) -> Self:
        """Return an independent environment in the same state; the cost does not depend on the size of the program."""
        return self._fork({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._fork(memo)

    def _fork(self, memo: dict[int, Any]) -> Self:
        child = self._run(lambda env: env.fork())
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._own = dict(self._own)
        other.asynchronous = child
        extras = {name: value for name, value in self._extras().items() if name != "spec"}
        memo[id(self)] = other  # the attributes may refer to it
        other.__dict__.update(copy.deepcopy(extras, memo))
        return other

    def __copy__(self) -> Self:
        raise TypeError("an environment has no shallow copy: use fork(), or copy.deepcopy(), which does the same")

    def __repr__(self) -> str:
        if "asynchronous" not in self.__dict__:  # the constructor failed or was not called
            return object.__repr__(self)
        return repr(self.asynchronous).replace("<Env", f"<{type(self).__name__}", 1)

    # ------------------------------------------------------------------------------------------- settings

    @property
    def benchmark(self) -> Benchmark:
        """The program of the current episode or, before the first, of the next; setting it takes effect at a reset."""
        env = self.asynchronous
        return self._next_benchmark if self._next_benchmark and not env.in_episode else env.benchmark

    @benchmark.setter
    def benchmark(self, target: BenchmarkLike) -> None:
        self._next_benchmark = self._run(lambda env: self._resolved(target))
        if self.asynchronous.in_episode:
            warnings.warn("another benchmark has no effect before the next reset()", UserWarning, stacklevel=2)

    @property
    def datasets(self) -> Datasets:
        """Where benchmarks are looked up by name; set it to what the constructor accepts."""
        return self._datasets

    @datasets.setter
    def datasets(self, datasets: Datasets | Iterable[Dataset]) -> None:
        self._datasets = collection(datasets, self.runtime.datasets)

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` takes; set it to the name of one of `action_spaces`, or to a space."""
        return self.asynchronous.action_space

    @action_space.setter  # type: ignore[override]  # accepts more types than Gymnasium's attribute
    def action_space(self, choice: ActionSpaceLike) -> None:
        self._run(lambda env: env.choose_actions(choice))

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """The space of default observations, `NoObservation` without one; set it to a name, or to None."""
        space = self.observation_space_spec
        return _NOTHING if space is None else space.space

    @observation_space.setter  # type: ignore[override]
    def observation_space(self, name: str | None) -> None:
        self._do(lambda env: setattr(env, "observation_space", name))

    @property
    def observation_space_spec(self) -> ObservationSpace | None:
        """The default observation space, None without one."""
        name = self.asynchronous.observation_space
        return None if name is None else self.asynchronous.observation_spaces[name]

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward; set it to a name, to a `Reward`, or to None."""
        return self.asynchronous.reward_space

    @reward_space.setter
    def reward_space(self, reward: str | Reward | None) -> None:
        if isinstance(reward, Reward):
            self.add_reward_space(reward)
            reward = reward.name
        self._do(lambda env: setattr(env, "reward_space", reward))

    @property
    def reward_space_spec(self) -> Reward | None:
        """The default reward, None without one."""
        name = self.reward_space
        return None if name is None else self.asynchronous.reward_spaces[name]

    def add_observation_space(self, space: ObservationSpace) -> None:
        """Add an observation of your own, derived from others; see `aiocg.Env.add_observation_space`."""
        self._do(lambda env: env.add_observation_space(space))
        self._own["observation", space.name] = space

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: "gymnasium.Space[Any] | None" = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one.

        Args:
            id: its name.
            base_id: name of the other observation.
            translate: computes its value from the other's.
            space: its Gymnasium space, the other's if None.
            default: its value after an error; `translate` of the other's default if None.

        Raises:
            UnknownName: if there is no observation `base_id`.
        """
        if base_id not in self.observation_spaces:
            raise UnknownName("observation space", base_id, self.observation_spaces)
        base = self.observation_spaces[base_id]
        self.add_observation_space(_derived(base, id, translate, space, default))

    def add_reward_space(self, reward: Reward) -> None:
        """Add a reward of your own, replacing one of the same name; see `aiocg.Env.add_reward_space`."""
        self._do(lambda env: env.add_reward_space(reward))
        self._own["reward", reward.name] = reward

    @property
    def timeout(self) -> float:
        """Default timeout of a step, in seconds of execution."""
        return self.asynchronous.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.asynchronous.timeout = seconds

    # -------------------------------------------------------------------------------------------- episode

    def commandline(self, *, exact: bool = False) -> str:
        """Return the actions since the reset as a command line for the compiler's own tool, `opt` for LLVM."""
        return self.asynchronous.commandline(exact=exact)

    @property
    def observation(self) -> ObservationView:
        """A view of any observation: `env.observation["Ir"]`."""
        return ObservationView(self)

    @property
    def reward(self) -> RewardView:
        """A view of what the episode has earned, in any reward space: `env.reward["IrInstructionCount"]`."""
        return RewardView(self)

    # --------------------------------------------------------------------------------- observing, rewards

    def observe(self, *names: str, timeout: float | None = None) -> Any:
        """Compute observations of the current state: one, or a list of several; see `aiocg.Env.observe`."""
        return self._run(lambda env: env.observe(*names, timeout=timeout))

    def earned(self, name: str) -> float:
        """Return what the episode has earned in a reward space; see `RewardView`."""
        check_known("reward space", name, self.reward_spaces)
        return self._run(lambda env: _earned(env, env.reward_spaces[name]))

    # ------------------------------------------------------------------------------------ Gymnasium's own

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the environment's random generator, and of the action space.
            options: settings for this episode and those that follow: `benchmark`, `action_space`,
                `observation_space`, `reward_space` (None for a space switches it off) and `timeout` (seconds, for this
                reset only).
            settings: the same as keywords, which override `options`.

        Returns:
            The default observation of the unoptimised program, None without one; and info: the URI of the benchmark
            and the state's hash.

        Raises:
            DatasetError: when the benchmark does not exist or the compiler does not accept it.
            UnknownName, InvalidAction: for a setting or a space that does not exist; the episode goes on.
            ServiceError: when there is no worker to be had, or it dies over this benchmark.
        """
        if not (options is None or isinstance(options, Mapping)):
            raise TypeError(f"options of a reset are a dictionary with keys {', '.join(SETTINGS)}, not {options!r}")
        chosen = {**(options or {}), **settings}
        for name in chosen:
            if name not in SETTINGS:
                raise UnknownName("setting of a reset", str(name), SETTINGS)
        super().reset(seed=seed)
        if isinstance(chosen.get("reward_space"), Reward):
            self.add_reward_space(reward := chosen["reward_space"])
            chosen["reward_space"] = reward.name
        observation, info = self._run(lambda env: self._reset(env, seed, chosen))
        info["state"] = np.uint64(info["state"])
        self._last = (observation, 0.0, False, False, info)
        if self.render_mode == "human":
            self.render()
        return observation, info

    async def _reset(self, env: Env, seed: int | None, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        target = self._next_benchmark
        if chosen.get("benchmark") is not None:
            target = await self._resolved(chosen["benchmark"])
        if chosen.get("action_space") is not None:
            await env.choose_actions(chosen["action_space"])
        if "observation_space" in chosen:
            env.observation_space = chosen["observation_space"]
        if "reward_space" in chosen:
            env.reward_space = chosen["reward_space"]
        timeout = {} if chosen.get("timeout") is None else {"timeout": chosen["timeout"]}
        result = await env.reset(benchmark=target, seed=seed, **timeout)
        self._next_benchmark = None
        return result

    def step(
        self,
        action: Any,
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Apply an action, or several in one round trip.

        Args:
            action: one of the action space, which for a discrete one is an index or a name, or a list of such. An empty
                list only observes.
            observation_spaces: what to observe in place of the default; a list gives a list.
            reward_spaces: what to reward in place of the default; a list gives a list.
            timeout: seconds that the compiler may take, `self.timeout` if None.

        Returns:
            Observation, reward (0.0 without a reward space), terminated, truncated (always False), and info as for
            `aiocg.Env.step`. After an error of the compiler or the program, `terminated` is True,
            `info["error_type"]` and `info["error_details"]` say what happened, and a reset is due.

        Raises:
            UnknownName, InvalidAction: for a bad argument; nothing was done.
            ResetNeeded: when there is no episode.
            EnvClosed: when the environment was closed.
        """
        observation, reward, terminated, truncated, info = self._step(
            action, observation_spaces, reward_spaces, timeout
        )
        if "state" in info:
            info["state"] = np.uint64(info["state"])  # what NumPy can collect in an array, for Gymnasium's vectors
        self._last = result = (observation, 0.0 if reward is None else reward, terminated, truncated, info)
        if self.render_mode == "human":
            self.render()
        return result

    def _step(
        self, action: Any, observation_spaces: Spaces, reward_spaces: Spaces, timeout: float | None
    ) -> StepResult:
        env = self.asynchronous
        if env.has_to_prepare(observation_spaces, reward_spaces):
            return self._run(
                lambda env: env.step(
                    action, observation_spaces=observation_spaces, reward_spaces=reward_spaces, timeout=timeout
                )
            )
        actions = env.action_space.encode(action)
        result: StepResult = self._deliver(
            lambda env, receiver: env.deliver(actions, receiver, observation_spaces, reward_spaces, timeout)
        )
        return result

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions in one round trip; observation and reward are computed once, at the end.

        Takes, returns and raises what `step` does.
        """
        return self.step(list(actions), **settings)

    def render(self) -> str | None:
        """Show the present state: print it ("human"), or return it as text ("ansi").

        Raises:
            ValueError: when the environment was made without a render mode.
        """
        if self.render_mode is None:
            raise ValueError(f"make the environment with render_mode=..., one of {', '.join(RENDER_MODES)}")
        text = describe(self.asynchronous, self._last)
        if self.render_mode == "ansi":
            return text
        print(text, flush=True)
        return None

    def close(self) -> None:
        """Free the environment's state on its worker. Idempotent. Workers keep running for other environments."""
        if not (self.runtime.closed or self.runtime.forked):
            self._run(lambda env: env.close())

    # ------------------------------------------------------------------------- snapshots, expand, states

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the present state, in constant time."""
        return self._run(lambda env: env.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, taken here or in a fork; see `aiocg.Env.restore`."""
        self._run(lambda env: env.restore(snapshot))

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates from the present state, in one message, without changing it.

        Takes, returns and raises what `aiocg.Env.expand` does.
        """
        return self._run(lambda env: env.expand(candidates, **settings))

    def apply(self, state: CompilerEnvState) -> None:
        """Reset to the benchmark of a state and take its actions, whatever action space they came from.

        Raises:
            DatasetError: when the benchmark does not exist.
            UnknownName, InvalidAction: when an action does not exist in the compiler at hand; nothing was done.
            ServiceError: when an action fails.
        """
        self._run(lambda env: self._apply(env, state))

    async def _apply(self, env: Env, state: CompilerEnvState) -> None:
        benchmark = await self._resolved(state.benchmark)
        await env.check_actions(state.actions)
        await env.reset(benchmark=benchmark)
        self._next_benchmark = None
        if state.actions:
            await env.apply(state.actions)

    def validate(self, state: CompilerEnvState | None = None, **options: Any) -> "ValidationResult":
        """Validate a state, the present one if None, without changing the environment; see `aiocg.validation`."""
        return self._run(lambda env: env.validate(state, **options))

    # ----------------------------------------------------------------------------------------- parameters

    def send_param(self, key: str, value: str, resend_on_reset: bool = True) -> str:
        """Send a parameter to the compiler session and return its answer; parameters survive resets and forks.

        Args:
            key, value: texts. An empty value only asks.
            resend_on_reset: must be True, since parameters always survive resets.

        Raises:
            ParameterFailed: when the compiler does not know the key or take the value.
        """
        return self.send_params((key, value), resend_on_reset=resend_on_reset)[0]

    def send_params(self, *params: tuple[str, str], resend_on_reset: bool = True) -> list[str]:
        """Send several parameters, each a key and a value, and return the answers; see `send_param`."""

        async def send(env: Env) -> list[str]:
            return [await env.send_parameter(key, value) for key, value in params]

        return self._run(send)

    # ---------------------------------------------------------------------------------- the other thread

    def _wait(self, start: "Callable[[Env], asyncio.Future[T]]") -> T:
        """Call a function of the asynchronous environment in the loop's thread, and wait for the future it returns."""
        if self.runtime.forked:
            self._move()
        return self.runtime.portal.wait(lambda: start(self.asynchronous))

    def _deliver(self, send: Callable[[Env, Receiver], object]) -> Any:
        """Call a function of the asynchronous environment and a receiver, and wait for what the receiver gets."""
        if self.runtime.forked:
            self._move()
        return self.runtime.portal.deliver(lambda receiver: send(self.asynchronous, receiver))

    def _run(self, function: Callable[[Env], Awaitable[T]]) -> T:
        """Run an asynchronous function of the asynchronous environment, and return its result."""
        return self._wait(lambda env: asyncio.ensure_future(function(env)))

    def _do(self, function: Callable[[Env], T]) -> T:
        """Call a function of the asynchronous environment in the loop's thread, and return its result."""

        async def call(env: Env) -> T:
            return function(env)

        return self._run(call)

    def _move(self) -> None:
        """Rebuild the environment in a fork of the process, which cannot use its parent's workers."""
        last = self._last
        self._build(self._recipe(), default_thread())
        self._last = last

    async def _resolved(self, target: BenchmarkLike) -> Benchmark:
        return target if isinstance(target, Benchmark) else await in_thread(lambda: resolve(target, self._datasets))


def _rebuild(cls: type[CompilerEnv], environment: str, recipe: Recipe) -> CompilerEnv:
    env = cls.__new__(cls)
    env.environment = environment
    env._build(recipe, default_thread())
    return env
