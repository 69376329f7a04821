"""What happens in a schedule, and what must hold: acknowledged requests count once, and no innocent session ends."""

import asyncio
import contextlib
import math
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiocg
from aiocg.cluster.machine import ClusterMachine
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import AiocgError, ParameterFailed, ResetNeeded, WorkerCrashed
from aiocg.fleet.restart_policy import Policy
from aiocg.fleet.slot import WorkerSlot
from aiocg.host.launcher import Machine
from aiocg.node.server import START_PATIENCE
from aiocg.testing import scripted_benchmark
from aiocg.transport.security import ClientSecurity, KeyPair
from aiocg.workers.scripted import ACTIONS
from bench.simulation.loop import VirtualLoop
from bench.simulation.nodes import LEASE, PUBLIC, SimulatedNetwork, SimulatedNode
from bench.simulation.processes import DEADLY, HARM, HARMFUL, SimulatedMachine, SimulatedProcess

FIRST = 5  # the number that programs begin with
MOST = 6  # environments, and snapshots
BATTERED = 3  # deaths and stops of workers from outside after which the session they executed is no more innocent
PATIENCE = 10.0  # virtual seconds that anybody waits after the last fault
NODE_PATIENCE = 30.0  # the same, where a network has to be found to be back
DEATHS = 6  # of workers over a deadly action: kills by the system count as evidence only after several
DEATHS_OF_HARM = 20  # over one whose harm shows later
DEATHS_OF_ONE = 8  # that one session may cause in this way until it is convicted
TIMEOUT = 0.5  # seconds for a step
GENEROUS = Policy(  # faults are many and come at any time, so that budgets would end what is innocent
    start_timeout=2.0,
    start_grace=0.3,
    stall_timeout=1.0,
    memory_threshold=6 << 30,
    recycle_interval=0.5,
    cancel_grace=0.01,
    start_patience=5.0,
    first_delay=0.001,
    max_delay=0.05,
    max_failed_starts=10**6,
    max_death_rate=10**6,
    max_explained_rate=10**6,
    max_deaths=10**9,
)
TIGHT = replace(  # slots are given up, and come back
    GENEROUS,
    start_patience=0.2,
    max_failed_starts=3,
    max_death_rate=4,
    max_explained_rate=6,
    rate_window=2.0,
    recovery_delay=0.5,
)
Move = tuple[str, int, int, int]  # what, which environment, a number, and the seed of what is random in it


class Broken(AssertionError):
    """Something that must hold does not."""


@dataclass
class Request:
    """A step that was submitted; each adds a number of its own, so that one sees where it was counted."""

    texts: tuple[str, ...]
    future: "asyncio.Future[Any]"
    needed_until: int = 0  # steps that were asked when this one was cancelled: those behind it depend on it
    independent: bool = False  # what was asked before it had been cancelled already


@dataclass
class Actor:
    """An environment and what it must know.

    Attributes:
        done: the actions that counted when all was last at rest.
        asked: the steps since then.
        others: requests since then that count for nothing.
        deadly: those of them that must fail.
        excused_from: place of the first step that may fail, because something was cancelled, interrupted or crashed.
        ended_from: place of the first step that must fail, because an action failed before it.
        guilty: it has harmed a worker, or was hit so often that it may be held for guilty.
        separated: something that was asked behind the latest step does not depend on it, as it was cancelled before.
    """

    env: aiocg.Env
    done: tuple[str, ...] = ()
    asked: list[Request] = field(default_factory=list)
    others: "list[asyncio.Future[Any]]" = field(default_factory=list)
    deadly: "list[asyncio.Future[Any]]" = field(default_factory=list)
    excused_from: float = math.inf
    ended_from: float = math.inf
    guilty: bool = False
    separated: bool = False

    @property
    def excused(self) -> bool:
        """May something fail?"""
        return self.excused_from < math.inf

    def excuse(self, place: int | None = None) -> None:
        """Let the steps from some place on fail, by default those that are yet to come."""
        self.excused_from = min(self.excused_from, len(self.asked) if place is None else place)

    def begin_anew(self, done: tuple[str, ...] = (), *, guilty: bool = False) -> None:
        """Note that all is at rest, in a state that actions have led to."""
        self.done, self.guilty = done, guilty
        self.asked, self.others, self.deadly = [], [], []
        self.excused_from = self.ended_from = math.inf
        self.separated = False


def value(texts: tuple[str, ...]) -> int:
    """Return the number that actions lead to."""
    return FIRST + sum(int(text[4:-1]) if text.startswith("add<") else 1 for text in texts)


class SimulatedRuntime(aiocg.Runtime):
    """A runtime on a simulated machine."""

    def __init__(self, machine: Machine, workers: int | None, policy: Policy) -> None:
        super().__init__(workers=workers, policy=policy, datasets=Datasets(()), node="")
        self._machine = machine
        self.cluster = machine if isinstance(machine, ClusterMachine) else None
        self.all_failed = False  # at some time, no slot was in use
        self._make_slot = self._watched

    def _watched(self, *arguments: Any) -> WorkerSlot:
        slot = WorkerSlot(*arguments)
        give_up = slot.give_up

        def gave_up(error: Exception, heir: WorkerSlot | None = None) -> None:
            self.all_failed |= heir is None
            give_up(error, heir)

        slot.give_up = gave_up  # type: ignore[method-assign]
        return slot


class World:
    """Environments of one runtime on simulated workers, and what is known of them.

    Attributes:
        faults_end: when the last fault is over.
        starts_end: when the last worker has started, or was given up.
    """

    def __init__(self, loop: VirtualLoop, seed: int, *, nodes: bool = False) -> None:
        self.dice = random.Random(seed)
        self.loop = loop
        self.machine = SimulatedMachine(loop, self.dice)
        self.tight = not nodes and self.dice.random() < 0.25
        self.nodes: dict[str, SimulatedNode] = {}
        if nodes:
            names = ["red", "green", "blue"][: self.dice.choice([2, 3])]
            self.nodes = {name: SimulatedNode(name, self.machine, self.dice.choice([1, 2])) for name in names}
            network = SimulatedNetwork(self.nodes, self.dice)
            cluster = ClusterMachine([f"tcp://{name}:1" for name in names], _KEYS, timeout=1e6, network=network)
            self.runtime = SimulatedRuntime(cluster, None, GENEROUS)
        else:
            workers = self.dice.choice([2, 3] if self.tight else [1, 2, 3])
            self.runtime = SimulatedRuntime(self.machine, workers, TIGHT if self.tight else GENEROUS)
        self.actors: list[Actor] = []
        self.snapshots: list[tuple[aiocg.Snapshot, tuple[str, ...], bool]] = []
        self.faults_end = self.starts_end = 0.0
        self.deaths: float = math.inf if nodes else 0  # that what was done can explain
        self.patience = NODE_PATIENCE if nodes else PATIENCE
        self.gone = False  # one of the nodes does not come back
        self._names = 0

    # -------------------------------------------------------------------------------------------- actors

    async def add(self) -> None:
        """Add an environment."""
        env = await self.runtime.make("scripted-v0", benchmark=_PROGRAM, action_space="Texts", timeout=TIMEOUT)
        await env.reset()
        self.actors.append(Actor(env))

    def submit(self, actor: Actor, *before: str) -> None:
        """Submit a step whose place in the order can be seen."""
        self._names += 1
        texts = (*before, f"add<{self._names}>")
        self._notice_cancelled(actor)
        independent, actor.separated = actor.separated, False
        with contextlib.suppress(ResetNeeded):
            actor.asked.append(Request(texts, actor.env.submit(list(texts)), independent=independent))

    def _notice_cancelled(self, actor: Actor) -> None:
        last = actor.env._session.last
        actor.separated |= last is not None and last.abandoned

    def leave(self, actor: Actor, actions: list[str], *, deadly: bool = False) -> None:
        """Submit a step that counts for nothing; one that is deadly must fail."""
        self._notice_cancelled(actor)
        with contextlib.suppress(ResetNeeded):
            actor.others.append(actor.env.submit(actions))
            if deadly:
                actor.deadly.append(actor.others[-1])

    def is_guilty(self, actor: Actor) -> bool:
        """May this actor's episode end?"""
        if self.tight and self.runtime.all_failed:
            return True  # there was no worker left that could have gone on with it
        most = BATTERED - 1 if self.tight else BATTERED  # what has cost two workers is not left to another slot
        return actor.guilty or self.machine.hits[actor.env._session.number] >= most

    async def rest(self, actor: Actor) -> None:
        """Wait for all answers, and compare them with what counts."""
        env = actor.env
        # A start that hangs ends when its node gives it up; all may wait for that, as it may be so on all nodes.
        end = max(self.faults_end, self.starts_end)
        patience = max(end - self.loop.time(), 0.0) + self.patience
        futures = [*(one.future for one in actor.asked), *actor.others]
        try:
            async with asyncio.timeout(patience) as limit:
                await asyncio.gather(*futures, return_exceptions=True)
                await asyncio.sleep(0)
                if self.is_guilty(actor):
                    await self._see(actor)
                    await self.renew(actor)
                    return
                if actor.excused and env.in_episode:
                    # A node that cannot be reached goes on with what was cancelled, until its deadline.
                    with contextlib.suppress(*[WorkerCrashed] if self.nodes else []):
                        await env.observe("value")  # behind this, nothing that was cancelled is still to come
        except TimeoutError as error:
            if not limit.expired():
                raise Broken("what was cancelled has gone on until its deadline") from error
            raise Broken(f"somebody waits for more than {self.patience:g} s") from None
        counted = self._compare(actor)
        if env.in_episode:
            _check(env.state_hash == value(counted), "another state than the acknowledged actions lead to")
            try:
                seen, echo = await asyncio.gather(env.observe("value"), env.observe("echo"))
            except AiocgError as error:
                _check(self.is_guilty(actor), f"an innocent cannot be observed: {error!r}")
                await self.renew(actor)
                return
            _check(seen == value(counted), "the worker is in another state")
            _check(env.parameters.get("echo", "") == echo, "the worker has another parameter")
        else:
            _check(actor.excused, "an innocent episode has ended")
            await self.renew(actor)
            counted = ()
        actor.begin_anew(counted)

    async def _see(self, actor: Actor) -> None:
        """Check that what a guilty actor sees, if it can, is the state that it was told of."""
        env = actor.env
        with contextlib.suppress(AiocgError):
            if env.in_episode:
                _check(await env.observe("value") == env.state_hash, "a rebuilt state is another one")

    def _compare(self, actor: Actor) -> tuple[str, ...]:
        """Compare what was answered with the actions that count, and return these."""
        counted, place = actor.env.action_texts, len(actor.done)
        _check(counted[:place] == actor.done, f"{counted} does not begin with {actor.done}")
        missing = -1  # place up to which steps need a cancelled one that does not count
        for index, one in enumerate(actor.asked):
            is_next = counted[place : place + len(one.texts)] == one.texts
            missing = -1 if one.independent else missing
            if is_next:
                place += len(one.texts)
                _check(index >= missing, f"{one.texts} counts without what was asked before it")
            if one.future.cancelled():
                missing = max(missing, 0 if is_next else one.needed_until)
                continue
            error = one.future.exception() or one.future.result()[4].get("error")
            if error is None:
                right = is_next and one.future.result()[0] in (None, value(counted[:place]))
                _check(right, f"{one.texts} was acknowledged, and {counted} counts")
                _check(index < actor.ended_from, f"{one.texts} was executed after an action that failed")
            else:
                _check(not is_next, f"{one.texts} has failed and counts: {error!r}")
                _check(index >= actor.excused_from, f"an innocent step has failed: {error!r}")
        _check(place == len(counted), f"{counted} has what nobody asked for")
        for future in actor.deadly:
            survived = not future.cancelled() and not (future.exception() or future.result()[4].get("error"))
            _check(not survived, "a deadly action has succeeded")
        return counted

    async def renew(self, actor: Actor) -> None:
        """Reset an environment whose episode may have ended."""
        for _ in range(40):
            with contextlib.suppress(AiocgError):
                await actor.env.reset()
                break
            # A parameter that will be refused may not be answered yet, and a slot that was given up may come back.
            await asyncio.sleep(0.5 if self.tight or self.nodes else 0.05)
        else:
            raise Broken("an environment cannot be reset any more")
        del self.machine.hits[actor.env._session.number]
        actor.begin_anew()

    # --------------------------------------------------------------------------------------------- faults

    def after(self, seconds: float, function: Callable[[], object]) -> None:
        """End a fault later."""
        self.faults_end = max(self.faults_end, self.loop.time() + seconds)
        self.loop.happen(seconds, function)

    def process(self, number: int) -> SimulatedProcess | None:
        """Return one of the processes that live."""
        alive = [one for one in self.machine.processes if one.alive]
        return alive[number % len(alive)] if alive else None

    def hit(self, process: SimulatedProcess) -> None:
        """Remember whom a process was executing when something befell it from outside."""
        self.faults_end = max(self.faults_end, self.loop.time())
        self.machine.hit(process)

    def kill(self, process: SimulatedProcess, status: int) -> None:
        """Kill a process from outside."""
        if process.alive:
            self.deaths += 1
            self.hit(process)
            process.die(status)

    def stop(self, process: SimulatedProcess, seconds: float, *, hidden: bool = False) -> None:
        """Stop a process for a while, or for so long that the runtime must do without it."""
        self.hit(process)
        self.deaths += 1
        process.stop(hidden=hidden)
        if seconds > NODE_PATIENCE:
            self.loop.happen(seconds, process.resume)
        else:
            self.after(seconds, process.resume)

    def for_a_while(self, what: str, probability: float, seconds: float) -> None:
        """Set one of the machine's probabilities for a while."""
        self.deaths = math.inf
        setattr(self.machine, what, probability)
        self.after(seconds, lambda: setattr(self.machine, what, 0.0))

    # ---------------------------------------------------------------------------------------------- moves

    async def act(self, move: Move) -> None:
        """Do a move; errors that a guilty actor gets are its own."""
        what, who, number, seed = move
        self.dice.seed(seed)
        if not self.actors:
            await self.add()
        actor = self.actors[who % len(self.actors)]
        try:
            if not (self._befall(what, number) or self._befall_node(what, number) or self._ask(what, actor, number)):
                await self._wait_for(what, actor, number)
        except (AiocgError, BenchmarkInitError) as error:
            if not (self.is_guilty(actor) or actor.excused):
                raise Broken(f"{what} of an innocent has failed: {error!r}") from error
            await self.renew(actor)

    def _befall(self, what: str, number: int) -> bool:
        """Do a move that concerns workers; return whether it is one."""
        process, dice = self.process(number), self.dice
        if what not in FAULTS:
            return False
        self.faults_end = max(self.faults_end, self.loop.time())
        match what:
            case "bad starts":
                self.for_a_while("start_death", 0.6, 0.3)
            case "silent starts":
                self.for_a_while("start_hang", 0.5, 0.3)
                if self.nodes:
                    self.starts_end = self.faults_end + START_PATIENCE
            case "slow starts":
                self.deaths = math.inf
                self.machine.starts = (0.3, 1.0)
                self.after(0.5, lambda: setattr(self.machine, "starts", (0.005, 0.02, 0.1)))
            case "no spawn":
                self.for_a_while("spawn_failure", 0.7, 0.3)
            case "garble":
                self.deaths += 2
                self.machine.garble = 1
            case "pause":  # of everything: a container, a virtual machine
                several = [one for one in self.machine.processes if one.alive]
                seconds = (0.3, 3.0, 61.0)[number % 3]
                for node in self.nodes.values():
                    node.freeze(seconds)
                for one in several:
                    one.stop(hidden=True)
                self.loop.skip(seconds)
                for one in several:
                    self.after(dice.choice([0.0, 0.002, 0.05]), one.resume)
            case "block":  # the client's loop does something else
                self.loop.skip((0.05, 1.5, 30.0)[number % 3])
            case _ if process is None:
                pass
            case "kill":
                self.kill(process, dice.choice([-signal.SIGKILL, -signal.SIGTERM]))
            case "kill soon":
                self.after(dice.choice([0.0003, 0.001, 0.003, 0.01]), lambda: self.kill(process, -signal.SIGKILL))
            case "kill all":
                for one in [one for one in self.machine.processes if one.alive]:
                    self.kill(one, -signal.SIGKILL)
            case "stop":
                self.stop(process, dice.choice([0.01, 0.3, 0.9, 1.5, 4.0, 300.0]))
            case "freeze":
                self.stop(process, dice.choice([0.01, 0.05, 0.1]), hidden=True)
            case "unreachable" if process.is_starting:
                self.deaths += 1
                process.unreachable = True
                process.listen_in_vain()
            case "lost":
                self.hit(process)
                self.deaths += 1
                process.lost = True
                process.die(-signal.SIGKILL)
            case "leave":
                self.deaths += 2
                process.leaving = True
            case "grow slowly":
                self.deaths += 2
                process.memory = 7 << 30
            case "grow fast":
                self.deaths += 2
                self.hit(process)
                process.memory = 14 << 30
        return True

    def _befall_node(self, what: str, number: int) -> bool:
        """Do a move that concerns nodes; return whether it is one."""
        if what not in (*NODE_FAULTS, "node goes"):
            return False
        gone, *others = self.nodes.values()
        if what != "node goes":
            node = others[number % len(others)] if self.gone else [gone, *others][number % len(self.nodes)]
        if what == "node goes":
            self.gone = True
            gone.stop()  # and never comes back, so that the others must do its work
            self.faults_end = max(self.faults_end, self.loop.time() + 15)
            return True
        if what.startswith("connections"):
            self.after(self.dice.choice([0.0, 0.0003, 0.001, 0.003]), node.break_connections)
            return True
        seconds = self.dice.choice([0.3, 2.0, 6.0, 12.0, 20.0])
        self.faults_end = max(self.faults_end, self.loop.time() + 2 * seconds + 10)
        for process in node.processes():
            self.machine.hit(process)
        match what:
            case "part":
                node.part((True, True))
                self.loop.happen(seconds, lambda: node.part((False, False)))
            case "part one way":
                node.part(self.dice.choice([(True, False), (False, True)]))
                self.loop.happen(seconds, lambda: node.part((False, False)))
            case "node dies":
                node.stop()
                self.loop.happen(seconds, node.start)
            case "node freezes":
                node.freeze(seconds)
        return True

    def _ask(self, what: str, actor: Actor, number: int) -> bool:
        """Do a move that waits for nothing; return whether it is one."""
        match what:
            case "step":
                for _ in range(number + 1):
                    self.submit(actor)
            case "everybody":
                for one in self.actors:
                    if one.guilty:
                        self.leave(one, [])  # which rebuilds it, and so does its harm again to others
                    else:
                        self.submit(one)
            case "nap":
                self.submit(actor, *["nap"] * (number + 1))
            case "doze":  # for so long that a node tells of it
                self.submit(actor, *["nap"] * 30)
            case "observe":
                self.leave(actor, [])
            case "cancel":
                if actor.asked:
                    place = len(actor.asked) - 1 - number % len(actor.asked)
                    self.cancel(actor, place)
            case "hang":
                self.deaths += 1
                actor.excuse()
                self.leave(actor, ["hang"], deadly=True)
                if number % 2 and actor.others:
                    actor.others[-1].cancel()
            case "crash":
                self.deaths += DEATHS
                actor.excuse(0 if self.tight else None)  # it may end with the slot whose budget it exhausts
                self.leave(actor, [tuple(DEADLY)[number % len(DEADLY)]], deadly=True)
            case "refuse":
                if actor.env.in_episode:
                    if not actor.excused:  # otherwise it may not be executed
                        actor.ended_from = len(actor.asked)
                    actor.excuse()
                    self.leave(actor, ["refuse"], deadly=True)
            case "harm":
                self.deaths += DEATHS_OF_HARM
                actor.guilty = True
                self.leave(actor, [HARMFUL[number % len(HARMFUL)]])
            case "forget":
                actor.guilty = True
                self.leave(actor, ["forget"])
            case "interrupt":
                if number == 0:
                    for one in self.actors:
                        one.excuse(0)
                        one.ended_from = math.inf  # the action that would have failed may not be executed
                    self.deaths += self.runtime.worker_count
                    self.runtime.interrupt()
            case "set and leave":
                self._notice_cancelled(actor)
                future = actor.env._session.parameter("echo", ("c", "d", "refused")[number % 3], 1.0)
                actor.others.append(future)
                if number % 2:
                    self.deaths += 1
                    actor.excuse()
                    future.cancel()
            case "close":
                if len(self.actors) > 2:
                    self.actors.remove(actor)
                    actor.env._session.close()
                    actor.env._closed = True
            case "clear":
                self.runtime.quarantine.clear()
            case _:
                return False
        return True

    async def _wait_for(self, what: str, actor: Actor, number: int) -> None:
        """Do a move that waits for its outcome."""
        env = actor.env
        match what:
            case "wait":
                await asyncio.sleep(0.004 * number)
            case "wait for long":
                await asyncio.sleep(0.3 * number)
            case "add":
                if len(self.actors) < MOST:
                    await self.add()
            case "fork":
                if number % 2:
                    await self.rest(actor)
                await self.fork(actor)
            case "snapshot":
                await self.rest(actor)
                self.snapshots.append((await env.snapshot(), actor.done, self.is_guilty(actor)))
                del self.snapshots[:-MOST]
            case "restore":
                if self.snapshots:
                    await self.rest(actor)
                    snapshot, texts, guilty = self.snapshots[number % len(self.snapshots)]
                    actor.guilty = guilty
                    await env.restore(snapshot)
                    actor.begin_anew(texts, guilty=guilty)
            case "reset":
                if number % 2:
                    await self.rest(actor)
                with contextlib.suppress(ParameterFailed):  # one that was not answered yet goes along, and is refused
                    await env.reset()
                while not env.in_episode:  # so it is, until the worker that was told it first has answered
                    with contextlib.suppress(ParameterFailed):
                        await env.reset()
                actor.begin_anew()
            case "reset badly":
                await self.rest(actor)
                reset = env.begin(_NO_PROGRAM)
                self.submit(actor)
                with contextlib.suppress(BenchmarkInitError):
                    await reset
                    raise Broken("what is no program was loaded")
                self.submit(actor)
            case "expand":
                await self.rest(actor)
                await self.expand(actor, number)
            case "set":
                with contextlib.suppress(ParameterFailed):
                    await env.send_parameter("echo", ("a", "b", "refused")[number % 3])
            case "rest":
                await self.rest(actor)
            case _:
                raise ValueError(f"{what!r} is no move")

    def cancel(self, actor: Actor, place: int) -> None:
        """Cancel a step."""
        one = actor.asked[place]
        if one.future.cancel():
            self.deaths += 1
            one.needed_until = len(actor.asked)
            actor.excuse(place)
            if place < actor.ended_from:
                actor.ended_from = math.inf  # the action that would have failed needs this one, and may not be executed

    async def fork(self, actor: Actor) -> None:
        """Fork an environment."""
        child = await actor.env.fork()
        try:
            if not child.in_episode:
                await child.reset()
        except AiocgError:
            await child.close()  # nobody collects garbage here
            raise
        self.actors.append(Actor(child, child.action_texts, guilty=actor.guilty))
        if len(self.actors) > MOST:
            await self.actors.pop(0).env.close()

    async def expand(self, actor: Actor, number: int) -> None:
        """Evaluate candidates, one of which may be deadly."""
        bad = (*DEADLY, "hang", "refuse")[number % (len(DEADLY) + 2)]
        self.deaths += DEATHS
        actor.guilty |= self.tight and bad != "refuse"  # it may die with the slot whose budget it exhausts
        found = await actor.env.expand([["add<1>"], [bad], ["add<7>"]][:: 1 - 2 * (number % 2)])
        first, middle, last = found
        if self.is_guilty(actor):
            return
        _check(middle.error is not None, "a candidate that kills its worker was evaluated")
        _check(first.error is None and last.error is None, f"an innocent candidate has failed: {first} {last}")
        _check({first.state - value(actor.done), last.state - value(actor.done)} == {1, 7}, "wrong candidates")

    # ---------------------------------------------------------------------------------------------- the end

    async def finish(self) -> None:
        """Wait until all is at rest, and check that nothing is left, and nobody innocent is held for guilty."""
        runtime, loop = self.runtime, self.loop
        await asyncio.sleep(max(self.faults_end - loop.time(), 0.0))
        for actor in self.actors:
            await self.rest(actor)
        for supervisor in runtime.supervisors():
            await self._settle([worker.queue for worker in supervisor.workers])
            for worker in supervisor.workers:
                _check(worker.failure is None or self.tight, f"given up: {worker.failure!r}")
        caused = self.machine.caused.most_common(1)
        if not self.nodes:
            await self._settle_processes()
        _check(not caused or caused[0][1] <= DEATHS_OF_ONE, f"one session has cost {caused} workers, and goes on")
        _check(self.machine.deaths <= self.deaths, f"{self.machine.deaths} deaths of workers, not {self.deaths}")
        for actor in self.actors:
            _check(actor.env._session.pending == 0, f"{actor.env._session.pending} requests are pending for ever")
        # Whoever is hit again and again is convicted in the end, which is no mistake.
        battered = any(times >= BATTERED for times in self.machine.hits.values())
        for suspect in () if battered else runtime.quarantine:
            start, actions = suspect.question.start, suspect.question.actions
            harmed = isinstance(start, int) and start >= HARM
            _check(harmed or _is_bad(actions), f"an innocent is in quarantine: {suspect.doing}")
        await self._close_all()

    async def _settle(self, queues: list[Any]) -> None:
        """Wait until the workers have nothing left to do."""
        last = max(self.starts_end - self.loop.time(), 0.0) + PATIENCE
        for _ in range(int(last / 0.1)):
            if not any(queue.backlog or queue.sent for queue in queues):
                return
            await asyncio.sleep(0.1)
        left = [one.doing for queue in queues for one in (*queue.backlog, *queue.sent.values())]
        raise Broken(f"unanswered at rest: {left}")

    async def _settle_processes(self) -> None:
        """Wait until there are no more workers than slots: a successor may be about to take over."""
        slots = self.runtime.worker_count
        for _ in range(100):
            if sum(one.alive for one in self.machine.processes) <= slots:
                return
            await asyncio.sleep(0.1)
        raise Broken(f"{len(self.machine.processes)} processes run for {slots} slots")

    async def _close_all(self) -> None:
        """Close what is open, and check that workers then have no sessions."""
        for snapshot, _, _ in self.snapshots:
            snapshot.close()
        for actor in self.actors:
            await actor.env.close()
        self.snapshots.clear()
        self.actors.clear()
        await asyncio.sleep(0.3)
        kept = [one.table.counts()[0] for one in self.machine.processes if one.alive]
        _check(not any(kept), f"workers keep {kept} sessions that nobody has")

    async def close(self) -> None:
        """End everything, and check that no process is left."""
        for process in list(self.machine.processes):
            process.resume()
        for node in self.nodes.values():
            node.part((False, False))
            node.start()
        async with asyncio.timeout(NODE_PATIENCE):
            await self.runtime.close()
        if self.nodes:
            await asyncio.sleep(LEASE + 1)
        _check(not self.machine.processes, f"{len(self.machine.processes)} processes are left")


_KEYS = ClientSecurity(KeyPair.generate(), PUBLIC)
_PROGRAM: Benchmark = scripted_benchmark(FIRST)
_NO_PROGRAM: Benchmark = scripted_benchmark("no number")
_BAD = {*DEADLY, *HARMFUL, "hang", "forget"}

FAULTS = (
    "bad starts", "silent starts", "slow starts", "no spawn", "garble", "pause", "block", "kill", "kill soon",
    "kill all", "stop", "freeze", "unreachable", "lost", "leave", "grow slowly", "grow fast",
)  # fmt: skip
NODE_FAULTS = ("connections break", "connections break soon", "part", "part one way", "node dies", "node freezes")
REQUESTS = (
    "step", "step", "step", "everybody", "nap", "nap", "observe", "cancel", "cancel", "hang", "crash", "refuse", "harm",
    "forget", "interrupt", "set and leave", "close", "clear", "wait", "wait", "wait for long", "add", "fork", "fork",
    "snapshot", "restore", "reset", "reset badly", "expand", "set", "rest",
)  # fmt: skip


def _is_bad(actions: tuple[Any, ...]) -> bool:
    names = [ACTIONS[one].name if isinstance(one, int) else one for one in actions]
    return any(part in _BAD for name in names for part in name.split(","))


def _check(holds: object, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)
