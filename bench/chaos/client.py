"""The client: all environments in one process, walking until they are done, and then busy until it is killed.

`python -m bench.chaos.client FILE`, where the file says in JSON what is to be run; `run.Stage` starts it so.
"""

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import aiocg
import aiocg.testing
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.fleet.restart_policy import Policy
from aiocg.registry import register
from aiocg.workers.scripted import UNLISTED
from bench.chaos.faults import Misdeed, misdeed
from bench.chaos.ledger import LedgerWriter
from bench.chaos.world import FRAIL, SCRIPTED, Episode, Form, Settings, Turn, Walk, value_after, walks

RESET_ATTEMPTS = 3
MEMORY_THRESHOLD = 480 << 20  # resident bytes from which on a worker is replaced; its limit is below twice that
RECYCLE_INTERVAL = 5.0  # seconds
REST = 1.0  # seconds without a request before what is then in use is looked at
_PR_SET_PDEATHSIG = 1
DEADLINE_STEP = 1e-6  # seconds between the deadlines of two misdeeds, which tell them apart


class Ended(Exception):
    """An episode ended that should not have."""


class Lost(Exception):
    """An environment cannot be brought back to its walk."""


class Walker:
    """One environment on its walk."""

    def __init__(self, world: "World", env: aiocg.Env, walk: Walk) -> None:
        self._world = world
        self._env = env
        self._walk = walk
        self._episode: Episode | None = None
        self._taken: list[str] = []  # the actions of the episode that were acknowledged
        self._expected: list[str] = []  # those that there must be after the present request

    async def go(self) -> None:
        """Walk to the end, and say where that is; or as far as can be, and say nothing."""
        with contextlib.suppress(Lost):
            await self._go()
            self._world.ledger.write("final", self._walk.index, self._env.state_hash)

    async def _go(self) -> None:
        due = time.monotonic()
        for episode in self._walk.episodes:
            await self._surely(f"reset {episode.turns[0].number}", self._begin(episode))
            for turn in episode.turns:
                if self._world.disturbed:
                    due += self._walk.delays[turn.number]
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                await self._take(turn)
                if turn.misdeed is not None and self._world.disturbed:
                    await self._misbehave(turn)

    # -------------------------------------------------------------------------------------- requests

    async def _surely(self, request: str, doing: Awaitable[Any]) -> None:
        """Do what is not to fail; if it does, write that down and get the environment to where it should be."""
        try:
            await doing
        except (AiocgError, Ended) as error:
            self._world.ledger.write("ended", self._walk.index, request, f"{type(error).__name__}: {error}"[:600])
            await self._recover()

    async def _begin(self, episode: Episode) -> None:
        self._episode, self._taken, self._expected = episode, [], []
        request = f"reset {episode.turns[0].number}"
        self._asked(request)
        for attempt in range(RESET_ATTEMPTS):
            try:
                _, info = await self._env.reset(benchmark=episode.benchmark)
                break
            except DatasetError as error:  # the program could not be compiled, say for a full disk: nothing has ended
                if attempt + 1 == RESET_ATTEMPTS:
                    raise
                self._world.ledger.write("retried", self._walk.index, request, f"{type(error).__name__}: {error}"[:600])
                await asyncio.sleep(2.0)
        self._answered(request, [info["state"]])

    async def _take(self, turn: Turn) -> None:
        request = f"{turn.form} {turn.number}"
        match turn.form:
            case Form.STEP:
                doing: Awaitable[None] = self._step(request, turn.actions)
            case Form.BURST:
                doing = self._burst(request, turn.actions)
            case Form.FORK:
                doing = self._fork(request, turn.actions)
            case Form.EXPAND:
                doing = self._expand(request, turn.actions)
        self._expected = [*self._taken, *turn.kept]
        await self._surely(request, doing)

    async def _step(self, request: str, actions: Sequence[str]) -> None:
        self._asked(request)
        result = await self._env.step(list(actions))
        self._taken += actions
        self._answered(request, [_state(result)])

    async def _burst(self, request: str, actions: Sequence[str]) -> None:
        futures = []
        for number, action in enumerate(actions):
            self._asked(f"{request}.{number}")
            futures.append(self._env.submit(action))
        failed = None
        for number, (future, action) in enumerate(zip(futures, actions, strict=True)):
            try:
                state = _state(await future)
            except (AiocgError, Ended) as error:
                failed = failed or error
                continue
            self._taken.append(action)
            self._answered(f"{request}.{number}", [state], len(self._taken))
        if failed is not None:
            raise failed

    async def _fork(self, request: str, actions: Sequence[str]) -> None:
        self._asked(request)
        async with contextlib.AsyncExitStack() as stack:
            child = await self._env.fork()
            stack.push_async_callback(child.close)
            result = await child.step(list(actions))
            self._answered(request, [_state(result)])

    async def _expand(self, request: str, actions: Sequence[str]) -> None:
        self._asked(request)
        candidates = await self._env.expand([[action] for action in actions])
        for candidate in candidates:
            if candidate.error is not None:
                raise Ended(f"a candidate came back with {type(candidate.error).__name__}: {candidate.error}")
        self._answered(request, [candidate.state for candidate in candidates])

    def _asked(self, request: str) -> None:
        self._world.ledger.write("asked", self._walk.index, request, _slot(self._env))

    def _answered(self, request: str, states: list[int], taken: int | None = None) -> None:
        """Write down an answer; how many actions were taken is what the environment says, where it can tell by now."""
        count = len(self._env.action_texts) if taken is None else taken
        self._world.ledger.write("answered", self._walk.index, request, states, count, _slot(self._env))

    async def _recover(self) -> None:
        """After an episode has ended that should not have: go to where it should be.

        Raises:
            Lost: when that cannot be done.
        """
        assert self._episode is not None
        self._taken = list(self._expected)
        try:
            await self._return()
        except (AiocgError, Ended) as error:
            raise Lost from error

    async def _return(self) -> None:
        """Begin the episode again, and take its actions all at once."""
        assert self._episode is not None
        await self._env.reset(benchmark=self._episode.benchmark)
        if self._taken:
            _state(await self._env.step(list(self._taken)))

    # -------------------------------------------------------------------------------------- misdeeds

    async def _misbehave(self, turn: Turn) -> None:
        """Commit a misdeed, take note of what comes of it, and go back to where the walk was."""
        assert turn.misdeed is not None and self._episode is not None
        chosen = misdeed(turn.misdeed, self._walk.environment, self._world.settings.faults)
        if chosen is None:
            return
        timeout = chosen.timeout + self._world.next_misdeed() * DEADLINE_STEP
        before = self._env.state_hash
        request = f"{chosen.name} {turn.number}"
        try:
            snapshot = await self._env.snapshot()
            if chosen.benchmark is not None:
                await self._env.reset(benchmark=chosen.benchmark)
            self._world.ledger.write("misdeed", self._walk.index, turn.number, chosen.name, timeout)
            error, words, harmless = await self._commit(chosen, timeout)
            self._world.ledger.write("consequence", timeout, error, words[:300], harmless)
            self._world.ledger.write("over", _slot(self._env))
            if turn.misdeed % 2 or chosen.expand:
                await self._env.restore(snapshot)
            else:
                await self._return()
            snapshot.close()
            if self._env.state_hash != before:
                raise Ended("the state that it came back to is another")
        except (AiocgError, Ended) as error:  # of something else than the misdeed
            self._world.ledger.write("ended", self._walk.index, request, f"{type(error).__name__}: {error}"[:600])
            self._expected = self._taken
            await self._recover()

    async def _commit(self, chosen: Misdeed, timeout: float) -> tuple[str, str, bool]:
        """Return type and text of the error that came, "" for none, and whether all else was as it should be."""
        if chosen.patience:
            return await self._cancel(chosen, timeout)
        if not chosen.expand:
            _, _, terminated, _, info = await self._env.step_texts(chosen.actions, timeout=timeout)
            return (info["error_type"], info["error_details"], True) if terminated else ("", "", True)
        before = self._env.state_hash
        candidates = await self._env.expand([[action] for action in chosen.actions], timeout=timeout)
        errors = [one.error for one in candidates if one.error is not None]
        harmless = len(errors) == 1 and self._env.in_episode and self._env.state_hash == before
        return (type(errors[0]).__name__, str(errors[0]), harmless) if errors else ("", "", harmless)

    async def _cancel(self, chosen: Misdeed, timeout: float) -> tuple[str, str, bool]:
        """Cancel the actions at a random moment; they must have been done as a whole, or not at all."""
        before, count = self._env.state_hash, len(self._env.action_texts)
        task = asyncio.create_task(self._env.step_texts(chosen.actions, timeout=timeout))
        await asyncio.wait([task], timeout=random.Random(str(timeout)).uniform(0.0, chosen.patience))
        if task.done() and task.result()[2]:  # what is known to kill workers is refused at once
            info = task.result()[4]
            return info["error_type"], info["error_details"], self._env.state_hash == before
        error = "CancelledError" if task.cancel() else ""
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await self._env.observe("value" if self._walk.scripted else "IrInstructionCount")  # by now it is decided
        done = len(self._env.action_texts) - count
        state = self._env.state_hash
        if done == len(chosen.actions):
            harmless = not self._walk.scripted or state == value_after(before, chosen.actions)
        else:
            harmless = done == 0 and state == before
        failed = not self._env.in_episode  # as endless unrolling may do in the very moment in which it is cancelled
        words = f"{done} of {len(chosen.actions)} actions were done{', and the episode ended' if failed else ''}"
        return error, words, harmless and not (failed and self._walk.scripted)

    async def keep_busy(self, rng: random.Random) -> None:
        """Make requests without end, some of which would take for ever."""
        while True:
            with contextlib.suppress(AiocgError):
                if self._env.in_episode:
                    hang = self._walk.scripted and rng.random() < 0.1
                    await self._env.step("hang" if hang else self._walk.episodes[0].turns[0].actions[0])
                else:
                    await self._env.reset()


def _slot(env: aiocg.Env) -> str:
    """Return the name of the worker slot that an environment is on."""
    name = env._session.worker.name  # there is no other way to tell
    return f"{name['kind']} {name['slot']}"


class Deaths(logging.Handler):
    """Writes down from the log when workers end."""

    def __init__(self, ledger: LedgerWriter) -> None:
        super().__init__(logging.INFO)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.msg == "worker ended":
            self._ledger.write("over", f"{record.kind} {record.slot}", record.cause)  # type: ignore[attr-defined]


def _state(result: Any) -> int:
    """Return the state that a step led to.

    Raises:
        Ended: when it ended the episode.
    """
    _, _, terminated, _, info = result
    if terminated:
        raise Ended(f"{info['error_type']}: {info['error_details']}")
    state: int = info["state"]
    return state


class World:
    """All environments of the client, and what they share.

    Attributes:
        settings: what is run.
        disturbed: with misdeeds, and with the pauses that give the injector time.
        ledger: where everything is written down.
    """

    def __init__(self, settings: Settings, disturbed: bool, ledger: LedgerWriter) -> None:
        self.settings = settings
        self.disturbed = disturbed
        self.ledger = ledger
        self._misdeeds = 0

    def next_misdeed(self) -> int:
        """Count the misdeeds."""
        self._misdeeds += 1
        return self._misdeeds

    async def run(self) -> None:
        """Walk, rest, and then be busy until somebody kills this process; undisturbed, end properly."""
        policy = Policy(
            stall_timeout=self.settings.stall_timeout,
            memory_threshold=MEMORY_THRESHOLD,
            recycle_interval=RECYCLE_INTERVAL,
        )
        async with aiocg.Runtime(
            workers=self.settings.workers, memory_limit=self.settings.memory_limit, policy=policy
        ) as runtime:
            runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
            walkers = []
            for walk in walks(self.settings):
                more = tuple(UNLISTED) if walk.environment == SCRIPTED else ()
                env = await runtime.make(walk.environment, benchmark=walk.episodes[0].benchmark, extra_actions=more)
                walkers.append(Walker(self, env, walk))
            self.ledger.write("fact", "folder", str(runtime.folder))
            await asyncio.sleep(REST)  # so that what all this needs can be seen
            self.ledger.write("mark", "walking")
            await asyncio.gather(*(walker.go() for walker in walkers))
            self.ledger.write("mark", "finished")
            if not self.disturbed:
                return
            await asyncio.sleep(REST)
            await self._rest(runtime)
            self.ledger.write("mark", "rested")
            await asyncio.sleep(REST / 2)
            self.ledger.write("mark", "busy")
            rng = random.Random(self.settings.seed)
            await asyncio.gather(*(walker.keep_busy(rng) for walker in walkers))

    async def _rest(self, runtime: aiocg.Runtime) -> None:
        """Wait until all workers are up again that can be."""
        kinds = {walk.environment for walk in walks(self.settings)}
        for _ in range(100):
            if len(runtime.worker_pids()) == self.settings.workers * len(kinds):
                break
            await asyncio.sleep(0.1)
        with contextlib.suppress(AiocgError):
            self.ledger.write("fact", "statistics", await asyncio.wait_for(runtime.statistics(), 20.0))
        self.ledger.write("fact", "workers", len(runtime.worker_pids()))


def main(arguments: Sequence[str]) -> None:
    """Run what the file says."""
    order = json.loads(Path(arguments[0]).read_text())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # whoever started us is to see our end
    os.chdir(order["folder"])
    register(dataclasses.replace(aiocg.testing.SCRIPTED, worker=FRAIL))
    world = World(Settings.from_dict(order["settings"]), order["disturbed"], LedgerWriter(Path(order["ledger"])))
    supervisor = logging.getLogger("aiocg.fleet.supervisor")
    supervisor.setLevel(logging.INFO)
    supervisor.addHandler(Deaths(world.ledger))
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(world.run())


if __name__ == "__main__":
    main(sys.argv[1:])
