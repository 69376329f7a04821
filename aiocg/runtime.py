"""The runtime: owns the workers of every compiler, makes environments, and cleans up."""

import asyncio
import dataclasses
import functools
import inspect
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio

from aiocg import __version__
from aiocg.datasets import default_datasets, resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.env.preparation import BenchmarkLike, run_once
from aiocg.errors import AiocgError, ForkedProcess, Interrupted, NoRoom, RuntimeClosed, UnknownName
from aiocg.fleet import session
from aiocg.fleet.placement import candidates, choose_first, choose_worker
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.restart_policy import Policy
from aiocg.fleet.session import Session
from aiocg.fleet.slot import WorkerSlot
from aiocg.fleet.supervisor import Supervisor
from aiocg.host.launcher import Launcher, Machine
from aiocg.host.local import LocalMachine, Places, choose_memory
from aiocg.host.threads import in_thread
from aiocg.node import NODE_TIMEOUT
from aiocg.registry import EnvironmentSpec, environment
from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.telemetry.logs import configure_from_environment
from aiocg.transport.messages import Welcome
from aiocg.transport.system import processors

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from aiocg.cluster.hosts import Host
    from aiocg.cluster.machine import ClusterMachine
    from aiocg.env.env import Env
    from aiocg.spaces import ObservationSpace
    from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces
    from aiocg.spaces.rewards import Reward
    from aiocg.transitions import TransitionLog
    from aiocg.transport.security import ClientSecurity
    from aiocg.validation import ValidationResult

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
        quarantine: requests that are not tried again because they killed workers; to inspect and to clear.
        log: the file that transitions are logged to, None before `log_to`.
        cluster: the nodes that run the workers, to look at, add and remove; None unless there are several.

    Args:
        workers: processes per compiler; one per usable processor if None.
        datasets: where benchmark URIs are looked up; the built-in datasets if None.
        memory_limit: address space of each worker in bytes, 0 for no limit.
        options: options for the compiler, in addition to the defaults.
        policy: the parameters of supervision.
        node: address of a node that runs the workers, `tcp://HOST:PORT`; if None, the environment variable AIOCG_NODE.
            Empty or unset, the workers run on this machine.
        cluster: several nodes that run the workers: addresses, `"file:hosts.toml"` or `"ray"`; if None, and `node` as
            well, the environment variable AIOCG_CLUSTER.
        keys: our key pair and the node's public key; the keys stored by `aiocg keys` if None.
        node_timeout: seconds of silence from the node, or all nodes, after which everything fails with
            `NodeUnreachable`.
        memory: where workers on this machine remember transitions for later runs and others: a folder,
            `"redis://HOST:PORT"`, or several of them; if None, the environment variable AIOCG_MEMORY.
        tracer: an OpenTelemetry tracer, which gets spans of each request; if None, that of the process if the
            environment variable AIOCG_TRACE is set, and no spans otherwise.
        llvm: release of LLVM for environments that choose none, such as "19"; `aiocg llvm install` installs it.
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
        cluster: "str | Iterable[str | Host] | None" = None,
        keys: "ClientSecurity | None" = None,
        node_timeout: float = NODE_TIMEOUT,
        memory: "Places" = None,
        tracer: "Tracer | None" = None,
        llvm: str = "",
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        try:
            json.dumps(dict(options or {}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"options must be JSON values, as they are sent to another process: {error}") from error
        configure_from_environment()
        if datasets is not None:
            self.datasets = datasets
        self.log: TransitionLog | None = None
        self._count, self._llvm = workers, llvm
        self._memory_limit = memory_limit
        self._options = dict(options or {})
        self._policy = policy
        self.quarantine = Quarantine((policy or Policy()).quarantine_deaths)
        self._make_slot = _slot_maker(tracer)
        self._machine, self.cluster = _choose_machine(node, cluster, keys, node_timeout, workers, memory)
        self._supervisors: dict[tuple[str, ...], Supervisor] = {}  # by pool
        self._serials = itertools.count()
        self._spaces: dict[str, tuple[ActionSpaces, dict[str, ObservationSpace]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that the workers were started on
        self._owner = 0  # id of the process that started them
        self._lock = asyncio.Lock()  # held while workers are started, so that `close` finds them
        self._closed = False

    @functools.cached_property
    def datasets(self) -> Datasets:
        """Where benchmark URIs are looked up; made on first use, as importing all datasets takes a while."""
        return default_datasets()

    # ----------------------------------------------------------------------------------- environments

    async def start_workers(self, id: str) -> None:
        """Begin to start the workers of an environment, which `make` would do; this does not wait for them.

        Raises:
            UnknownName: for an environment that does not exist.
            RuntimeClosed: if the runtime was closed.
            WorkerStartError: if no worker can be started; EnvironmentNotSupported if its compiler is missing.
        """
        self.check_open()
        await self._supervisor(self._configured(environment(id)))

    def _configured(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        return spec.configured({"llvm": self._llvm}) if self._llvm and spec.settings.get("llvm") == "" else spec

    async def make(
        self,
        id: str,
        *,
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = None,
        reward_space: "str | Reward | None" = None,
        action_space: "ActionSpaceLike | None" = None,
        extra_actions: Sequence[str] = (),
        rewards: "Iterable[Reward]" = (),
        derived_observation_spaces: "Iterable[ObservationSpace]" = (),
        timeout: float | None = None,
        **settings: str,
    ) -> "Env":
        """Make an environment; `reset` it to start.

        Args:
            id: such as `"llvm-v0"`; `aiocg envs` lists them.
            benchmark: a URI, the path of a source or bitcode file, or a `Benchmark`.
            observation_space, reward_space: defaults for every step, by name; the reward may be one of your own.
            action_space: name of an action space of the compiler, the first if None; or a list of texts that the
                compiler understands, which become the actions of a discrete space.
            extra_actions: texts of more actions, added to a discrete space.
            rewards, derived_observation_spaces: your own, added to those of the environment.
            timeout: seconds that the compiler may take for a step, as `Env.timeout`.
            settings: settings of the environment, such as `gcc_bin="gcc-12"`; the id may contain them as well.

        Raises:
            UnknownName: for an environment, a setting, a space or an action that does not exist.
            RuntimeClosed: if the runtime was closed.
            InvalidAction: for a text that is no action, with the compiler's message.
            DatasetError: for a benchmark that does not exist.
            WorkerStartError: if no worker can be started; EnvironmentNotSupported if its compiler is missing.
        """
        self.check_open()
        spec = environment(id)
        if wrong := [name for name in settings if name not in spec.settings]:
            arguments = inspect.getfullargspec(Runtime.make).kwonlyargs
            raise UnknownName(f"argument or setting of {spec.id}", wrong[0], [*arguments, *spec.settings])
        spec = self._configured(spec.configured(settings) if settings else spec)
        supervisor = await self._supervisor(spec)
        target = await self.find_benchmark(benchmark if benchmark is not None else spec.benchmark)
        session = Session(self._choose(supervisor, str(target.uri)))  # before waiting, so that concurrent calls see it
        await run_once((_import_spaces, spec.derived))  # imports, while the workers start
        from aiocg.env.env import Env
        from aiocg.env.plan import Reading, check_known
        from aiocg.spaces.rewards import Reward, rewards_of_observations

        welcome = await asyncio.shield(session.worker.welcome)
        spaces = self._spaces_of(spec, welcome)
        known = {one.name: one for one in spec.rewards() if spaces[1].keys() >= set(one.needs)}
        env = Env(self, spec, welcome, session, target, spaces, known | rewards_of_observations(spaces[1], known))
        for space in derived_observation_spaces:
            env.add_observation_space(space)
        own = [reward_space] if isinstance(reward_space, Reward) else []
        for reward in (*rewards, *own):
            env.add_reward_space(reward)
        reward_space = reward_space.name if isinstance(reward_space, Reward) else reward_space
        if self.log is not None:
            self.log.accept(welcome.compiler_version)
            for name in self.log.names:
                check_known("observation space", name, env.observation_spaces)
            await run_once(Reading(self.log.names, env.observation_spaces).prepare)
        env.observation_space = observation_space if observation_space is not None else spec.observation_space
        env.reward_space = reward_space if reward_space is not None else spec.reward_space
        env.timeout = env.timeout if timeout is None else timeout
        if action_space is not None or extra_actions:
            await env.choose_actions(action_space, extra_actions)
        return env

    def log_to(self, path: str | Path, observations: Iterable[str] = (), *, block: bool = True) -> "TransitionLog":
        """Log what all environments see from now on to a file, which `close` closes; see `aiocg.transitions`.

        Each request logs its transition: hashes of the states before and after, its actions, its rewards, and the
        costs that these are made of. Call this before `make`.

        Args:
            path: an SQLite file; transitions are added to those that it has.
            observations: names of observation spaces to log of each distinct state, once. Those that a request does
                not ask for anyway are observed behind it, except of candidates of `expand`, and of states that steps
                in flight have left already.
            block: when the disk cannot keep up, wait; if False, drop transitions, and count them in `dropped`.

        Raises:
            TransitionsError: if the file cannot be used, or another log writes to it.
            RuntimeError: if the runtime has a log already, or has made an environment.
        """
        from aiocg.transitions import TransitionLog  # needs an extra

        self.check_open()
        if self.log is not None or self._supervisors:
            raise RuntimeError("call log_to once, before the first environment is made")
        self.log = TransitionLog(path, observations, block=block)
        return self.log

    async def validate(
        self, env: "Env", state: CompilerEnvState | LegacyState | None = None, **options: Any
    ) -> "ValidationResult":
        """Validate a state of an environment, the current one if None: see `Env.validate`."""
        from aiocg.validation.state import validate_env  # loaded on demand, as few programs validate

        return await validate_env(self, env, state, **options)

    async def replay(self, state: CompilerEnvState, *, action_space: "ActionSpaceLike | None" = None) -> "Env":
        """Make an environment and bring it to a state, whatever action spaces the actions came from.

        Args:
            state: a state such as `Env.state`.
            action_space: action space of the environment, as for `make`.

        Raises:
            UnknownName, InvalidAction: if an action of the state does not exist in this compiler.
            ServiceError: if an action fails.
        """
        env = await self.make(
            state.environment, benchmark=state.benchmark, reward_space=state.reward_space, action_space=action_space
        )
        try:
            await env.check_actions(state.actions)
            await env.reset()
            if state.actions:
                await env.apply(state.actions)
        except BaseException:
            await env.close()
            raise
        return env

    def benchmark(self, target: BenchmarkLike, flags: Iterable[str] = ()) -> Benchmark:
        """Return the benchmark of a URI or path; flags are for clang, and for the path of a C or C++ file.

        Raises:
            DatasetError: if there is none.
        """
        return target if isinstance(target, Benchmark) else resolve(target, self.datasets, flags)

    async def find_benchmark(self, target: BenchmarkLike, flags: Iterable[str] = ()) -> Benchmark:
        """Return what `benchmark` does, looked up in a thread, as a dataset may have to fetch its names.

        Raises:
            DatasetError: if there is none.
        """
        return target if isinstance(target, Benchmark) else await in_thread(lambda: self.benchmark(target, flags))

    # ---------------------------------------------------------------------------------------- workers

    async def _supervisor(self, spec: EnvironmentSpec) -> Supervisor:
        self._check_loop()
        async with self._lock:
            self.check_open()
            if spec.pool not in self._supervisors:
                self._loop, self._owner = asyncio.get_running_loop(), os.getpid()
                launcher: Launcher
                if self.cluster is None:
                    wanted = None
                    launcher = await self._machine.launcher(spec, self._options, self._memory_limit)
                else:
                    launcher = there = await self.cluster.launcher(spec, self._options, self._memory_limit)
                    wanted = there.slots
                self._supervisors[spec.pool] = Supervisor(
                    spec.worker,
                    self.worker_count if wanted is None else wanted(0),
                    launcher,
                    client=f"aiocg {__version__}",
                    policy=_patient(self._policy or Policy(), spec),
                    quarantine=self.quarantine,
                    wanted=wanted,
                    make_slot=self._make_slot,
                )
        return self._supervisors[spec.pool]

    def _check_loop(self) -> None:
        if self._loop is not None and self._owner != os.getpid():
            raise ForkedProcess(self._owner)
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError(
                "this runtime belongs to another event loop: use and close it there, or make another runtime here"
            )

    def _choose(self, supervisor: Supervisor, program: str = "") -> WorkerSlot:
        workers = supervisor.workers
        if self.cluster is not None:
            near = [workers[index] for index in candidates(program, next(self._serials), len(workers))]
            if (index := choose_first([worker.load_now() for worker in near])) is not None:
                return near[index]
        index = choose_worker([worker.load_now() for worker in workers])
        if index is None:
            reasons = [worker.failure for worker in workers if worker.failure is not None]
            raise next((one for one in reasons if not isinstance(one, NoRoom)), reasons[0])
        return workers[index]

    def _spaces_of(self, spec: EnvironmentSpec, welcome: Welcome) -> "tuple[ActionSpaces, dict[str, ObservationSpace]]":
        """Return the spaces of an environment, which are built once for all environments of an id."""
        if spec.id not in self._spaces:
            from aiocg.spaces import ObservationSpace
            from aiocg.spaces.actions import ActionSpaces

            observations = [*map(ObservationSpace.from_spec, welcome.observation_spaces), *spec.derived()]
            self._spaces[spec.id] = (
                ActionSpaces(welcome.action_spaces, spec.notation_of),
                {space.name: space for space in observations},
            )
        return self._spaces[spec.id]

    def check_open(self) -> None:
        """Check that the runtime can still be used.

        Raises:
            RuntimeClosed: if it was closed.
        """
        if self._closed:
            raise RuntimeClosed("the runtime was closed")

    def new_session(self, spec: EnvironmentSpec) -> Session:
        """Return a session on the least busy worker of an environment's compiler."""
        return Session(self._choose(self._supervisors[spec.pool]))

    @property
    def worker_count(self) -> int:
        """Number of worker processes per compiler; a node's default is known once the node has answered."""
        return self._count or self._machine.workers or len(processors())

    @property
    def folder(self) -> Path | None:
        """The private folder with the sockets of workers on this machine, None if there are none."""
        return self._machine.path if isinstance(self._machine, LocalMachine) else None

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [pid for supervisor in self._supervisors.values() for pid in supervisor.processes()]

    def interrupt(self) -> None:
        """Abandon all requests of all environments, which fail with `Interrupted`; for example on the user's Ctrl-C.

        Each environment is then in the state after its last completed request and can be used at once, because busy
        workers are replaced. To abandon a single request, cancel its await.
        """
        for supervisor in self._supervisors.values():
            supervisor.interrupt(Interrupted("this was interrupted"))

    async def statistics(self) -> list[dict[str, Any]]:
        """Return every worker's counters."""
        self.check_open()
        workers = [worker for supervisor in self._supervisors.values() for worker in supervisor.workers]
        return list(await asyncio.gather(*(session.statistics(worker) for worker in workers if worker.usable)))

    def supervisors(self) -> list[Supervisor]:
        """Return the supervisors, one for each kind of worker in use."""
        return list(self._supervisors.values())

    def metrics(self) -> str:
        """Return metrics of workers, sessions and requests in Prometheus' text format.

        Raises:
            AiocgError: if the extra `telemetry` is not installed.
        """
        self.check_open()
        from aiocg.telemetry.metrics import of_runtime, text  # needs an extra

        return text(of_runtime(self))

    # ------------------------------------------------------------------------------------------ close

    async def close(self) -> None:
        """End all workers and remove all files; pending requests fail with `RuntimeClosed`."""
        self._check_loop()
        self._closed = True
        self._machine.stop()
        with anyio.CancelScope(shield=True):  # so that a cancelled caller can still wait for the workers
            async with self._lock:
                try:
                    await asyncio.gather(*(supervisor.close() for supervisor in self._supervisors.values()))
                finally:
                    await self._machine.close()
                    if self.log is not None:
                        await in_thread(self.log.close)

    async def __aenter__(self) -> Self:
        self.check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _import_spaces() -> None:
    """Import Gymnasium and NumPy, which takes as long as starting a worker."""
    import aiocg.env.env  # noqa: F401


def _patient(policy: Policy, spec: EnvironmentSpec) -> Policy:
    return dataclasses.replace(policy, start_timeout=max(policy.start_timeout, spec.start_timeout))


def _choose_machine(
    node: str | None,
    cluster: "str | Iterable[str | Host] | None",
    keys: "ClientSecurity | None",
    timeout: float,
    workers: int | None,
    memory: Places = None,
) -> "tuple[Machine, ClusterMachine | None]":
    """Return the machine that arguments of `Runtime`, or else environment variables, name; again if it is a cluster.

    Raises:
        ValueError: if both a node and a cluster are given, or one of them and a memory.
        AiocgError: if both variables are set, or the cluster's description or the memory cannot be used.
    """
    if node and cluster:
        raise ValueError("give a node or a cluster, not both")
    if node is None and cluster is None:
        node, cluster = os.environ.get("AIOCG_NODE", ""), os.environ.get("AIOCG_CLUSTER", "")
        if node and cluster:
            raise AiocgError("AIOCG_NODE (--node) and AIOCG_CLUSTER (--cluster) are both set; leave one of them out")
    if memory and (node or cluster):
        raise ValueError("the workers of a node remember where its operator says: set AIOCG_MEMORY for `aiocg serve`")
    if cluster:
        from aiocg.cluster.machine import ClusterMachine  # loaded on demand: local workers do not need its imports

        several = ClusterMachine(cluster, keys, timeout, workers)
        return several, several
    if node:
        from aiocg.cluster.machine import ClusterMachine

        return ClusterMachine([node], keys, timeout, workers), None
    return LocalMachine(choose_memory(memory)), None


def _slot_maker(tracer: "Tracer | None") -> Callable[..., WorkerSlot]:
    """Return what makes worker slots: with spans if there is a tracer, or AIOCG_TRACE is set.

    Raises:
        AiocgError: if there are to be spans, and the extra `tracing` is not installed.
    """
    if tracer is None and not os.environ.get("AIOCG_TRACE"):
        return WorkerSlot
    from aiocg.telemetry.tracing import TracedSlot, tracer_from_environment  # needs an extra

    return functools.partial(TracedSlot, tracer or tracer_from_environment())
