"""The runtime: owns the workers of every compiler, makes environments, and cleans up."""

import asyncio
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio

from aiocg import __version__
from aiocg.datasets import default_datasets, resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env import Env
from aiocg.errors import Interrupted, RuntimeClosed, WorkerStartError
from aiocg.launcher import Place
from aiocg.local import LocalPlace
from aiocg.node import NODE_TIMEOUT
from aiocg.placement import choose_worker
from aiocg.preparation import in_thread
from aiocg.quarantine import Quarantine
from aiocg.registry import EnvironmentSpec, environment
from aiocg.rewards import Reward, rewards_of_observations
from aiocg.session import Session
from aiocg.spaces import ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces
from aiocg.state import CompilerEnvState
from aiocg.supervision import Policy
from aiocg.supervisor import Supervisor
from aiocg.telemetry.logs import configure_from_environment
from aiocg.transport.messages import Welcome
from aiocg.worker import Worker

if TYPE_CHECKING:
    from aiocg.transport.security import ClientSecurity

__all__ = ["BenchmarkLike", "Runtime"]

BenchmarkLike = str | os.PathLike[str] | BenchmarkUri | Benchmark

GIB = 1 << 30
DEFAULT_MEMORY_LIMIT = 16 * GIB


class Runtime:
    """Multiplexes any number of environments over a few worker processes::

        async with aiocg.Runtime(workers=2) as runtime:
            env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
            await env.reset()
            observation, reward, terminated, truncated, info = await env.step("mem2reg")

    Workers start with the first environment that needs them. Leaving the block, or `close`, ends them all.

    Attributes:
        datasets: where benchmark URIs lead.
        quarantine: what has killed its worker so often that it is not tried again; to look at and to clear.

    Args:
        workers: processes per compiler; as many as there are usable processors if None.
        datasets: where benchmark URIs lead; the built-in datasets if None.
        memory_limit: address space of each worker in bytes, 0 for no limit.
        options: for the compiler, in addition to what it gets by default.
        policy: the supervisor's numbers.
        node: address of a node that runs the workers, `tcp://HOST:PORT`; AIOCG_NODE if None, and here if that is not
            set, or "".
        keys: our key pair and the node's public key; those that `aiocg keys` has stored if None.
        node_timeout: seconds without a word from the node after which everything fails with `NodeUnreachable`.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        datasets: Datasets | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        options: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        node: str | None = None,
        keys: "ClientSecurity | None" = None,
        node_timeout: float = NODE_TIMEOUT,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        try:
            json.dumps(dict(options or {}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"options must be what JSON can say, for they go to another process: {error}") from error
        configure_from_environment()
        self.datasets = datasets if datasets is not None else default_datasets()
        self._count = workers
        self._memory_limit = memory_limit
        self._options = dict(options or {})
        self._policy = policy
        self.quarantine = Quarantine((policy or Policy()).quarantine_deaths)
        node = os.environ.get("AIOCG_NODE", "") if node is None else node
        self._place: Place = _node(node, keys, node_timeout) if node else LocalPlace()
        self._supervisors: dict[tuple[str, ...], Supervisor] = {}  # by pool
        self._spaces: dict[str, tuple[ActionSpaces, dict[str, ObservationSpace]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that the workers were started on
        self._lock = asyncio.Lock()  # held while anything is started, so that `close` finds it
        self._closed = False

    # ----------------------------------------------------------------------------------- environments

    async def make(
        self,
        id: str,
        *,
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = None,
        reward_space: str | None = None,
        action_space: ActionSpaceLike | None = None,
        extra_actions: Sequence[str] = (),
        rewards: Iterable[Reward] = (),
        **settings: str,
    ) -> Env:
        """Make an environment; `reset` it to start.

        Args:
            id: such as `"llvm-v0"`; `aiocg envs` lists them.
            benchmark: a URI, the path of a source or bitcode file, or a `Benchmark`.
            observation_space, reward_space: defaults for every step.
            action_space: the name of one that the compiler declares, the first if None; or the texts of the actions of
                a discrete space of your own, any that the compiler understands.
            extra_actions: texts of more actions, to be added to a discrete space.
            rewards: of your own, to be added to those that there are.
            settings: of the environment, such as `gcc_bin="gcc-12"`; they may stand in the id as well.

        Raises:
            UnknownName: for an environment, a setting, a space or an action that does not exist.
            InvalidAction: for a text that the compiler does not take for an action; the error has its words.
            DatasetError: for a benchmark that does not exist.
            WorkerStartError: when no worker can be started; EnvironmentNotSupported when its compiler is missing.
        """
        spec = environment(id)
        spec = spec.configured(settings) if settings else spec
        target = await self.find_benchmark(benchmark if benchmark is not None else spec.benchmark)
        supervisor = await self._supervisor(spec)
        session = Session(self._choose(supervisor))  # before waiting, so that it counts for the next one's choice
        welcome = await asyncio.shield(session.worker.welcome)
        spaces = self._spaces_of(spec, welcome)
        known = {reward.name: reward for reward in spec.rewards()}
        env = Env(self, spec, welcome, session, target, spaces, known | rewards_of_observations(spaces[1], known))
        for reward in rewards:
            env.add_reward_space(reward)
        env.observation_space = observation_space if observation_space is not None else spec.observation_space
        env.reward_space = reward_space if reward_space is not None else spec.reward_space
        if action_space is not None or extra_actions:
            await env.choose_actions(action_space, extra_actions)
        return env

    async def replay(self, state: CompilerEnvState, *, action_space: ActionSpaceLike | None = None) -> Env:
        """Make an environment and bring it to a state, whatever action spaces the actions came from.

        Args:
            state: such as `Env.state`.
            action_space: of the environment, as for `make`.

        Raises:
            UnknownName, InvalidAction: when an action of the state does not exist in the compiler at hand.
            ServiceError: when an action fails.
        """
        env = await self.make(
            state.environment,
            benchmark=state.benchmark,
            reward_space=state.reward_space,
            action_space=action_space,
        )
        try:
            await env.check_actions(state.actions)
            await env.reset()
            if state.actions:
                _, _, terminated, _, info = await env.step_texts(state.actions)
                if terminated:
                    raise info["error"]
        except BaseException:
            await env.close()
            raise
        return env

    def benchmark(self, target: BenchmarkLike) -> Benchmark:
        """Return the benchmark of a URI or path.

        Raises:
            DatasetError: when there is none.
        """
        return target if isinstance(target, Benchmark) else resolve(target, self.datasets)

    async def find_benchmark(self, target: BenchmarkLike) -> Benchmark:
        """Do as `benchmark`, in a thread: the first name of a dataset may need a list of names to be fetched.

        Raises:
            DatasetError: when there is none.
        """
        return target if isinstance(target, Benchmark) else await in_thread(lambda: self.benchmark(target))

    # ---------------------------------------------------------------------------------------- workers

    async def _supervisor(self, spec: EnvironmentSpec) -> Supervisor:
        self._check_loop()
        async with self._lock:
            if self._closed:
                raise RuntimeClosed("the runtime was closed")
            if spec.pool not in self._supervisors:
                self._loop = asyncio.get_running_loop()
                launcher = await self._place.launcher(spec, self._options, self._memory_limit)
                self._supervisors[spec.pool] = Supervisor(
                    spec.worker,
                    self.worker_count,
                    launcher,
                    client=f"aiocg {__version__}",
                    policy=_patient(self._policy or Policy(), spec),
                    quarantine=self.quarantine,
                )
        return self._supervisors[spec.pool]

    def _check_loop(self) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError(
                "this runtime belongs to another event loop: use and close it there, and make another runtime here"
            )

    def _choose(self, supervisor: Supervisor) -> Worker:
        index = choose_worker([worker.load_now() for worker in supervisor.workers])
        if index is None:
            raise supervisor.workers[0].failure or WorkerStartError("no worker is left")
        return supervisor.workers[index]

    def _spaces_of(self, spec: EnvironmentSpec, welcome: Welcome) -> tuple[ActionSpaces, dict[str, ObservationSpace]]:
        """Build the spaces once per kind of environment: a thousand of them share them."""
        if spec.id not in self._spaces:
            observations = [*map(ObservationSpace.from_spec, welcome.observation_spaces), *spec.derived()]
            self._spaces[spec.id] = (
                ActionSpaces(welcome.action_spaces, spec.notation_of),
                {space.name: space for space in observations},
            )
        return self._spaces[spec.id]

    def new_session(self, spec: EnvironmentSpec) -> Session:
        """Return a session on the least busy worker of an environment's compiler."""
        return Session(self._choose(self._supervisors[spec.pool]))

    @property
    def worker_count(self) -> int:
        """Number of worker processes per compiler; on a node, unless it was given, known once it has answered."""
        return self._count or self._place.workers or len(os.sched_getaffinity(0))

    @property
    def folder(self) -> Path | None:
        """The private folder with the sockets of workers on this machine, None while there is none."""
        return self._place.path if isinstance(self._place, LocalPlace) else None

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [pid for supervisor in self._supervisors.values() for pid in supervisor.processes()]

    def interrupt(self) -> None:
        """Give up all that the environments are doing, which fails with `Interrupted`: say, for the user's Ctrl-C.

        They are then where their last finished request left them, and can be used at once, as the workers that were
        busy are replaced. Cancelling an await does so for that request alone, where it takes longer.
        """
        for supervisor in self._supervisors.values():
            supervisor.interrupt(Interrupted("this was interrupted"))

    async def statistics(self) -> list[dict[str, Any]]:
        """Return every worker's counters."""
        workers = [worker for supervisor in self._supervisors.values() for worker in supervisor.workers]
        return list(await asyncio.gather(*(worker.statistics() for worker in workers if worker.usable)))

    def supervisors(self) -> list[Supervisor]:
        """Return what keeps the workers alive, one for each kind in use."""
        return list(self._supervisors.values())

    def metrics(self) -> str:
        """Return the numbers of workers, sessions and requests in Prometheus' text format.

        Raises:
            AiocgError: when the extra `telemetry` is not installed.
        """
        from aiocg.telemetry.metrics import of_runtime, text

        return text(of_runtime(self))

    # ------------------------------------------------------------------------------------------ close

    async def close(self) -> None:
        """End all workers and remove everything on disk; what is in flight fails with `RuntimeClosed`."""
        self._check_loop()
        self._closed = True
        self._place.stop()
        with anyio.CancelScope(shield=True):  # in a scope that was cancelled nothing could be waited for
            async with self._lock:
                try:
                    await asyncio.gather(*(supervisor.close() for supervisor in self._supervisors.values()))
                finally:
                    await self._place.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _node(address: str, keys: "ClientSecurity | None", timeout: float) -> Place:
    from aiocg.node.client import NodePlace  # what it needs is not for those to wait for who are here alone

    return NodePlace(address, keys, timeout)


def _patient(policy: Policy, spec: EnvironmentSpec) -> Policy:
    return dataclasses.replace(policy, start_timeout=max(policy.start_timeout, spec.start_timeout))
