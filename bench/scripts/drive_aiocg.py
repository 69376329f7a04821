"""Drives aiocg by requests on standard input (see `driving`): `python drive_aiocg.py [--remember]`.

`drive_compiler_gym.py` has the same operations for the original.
"""

import asyncio
import sys
import time
from typing import Any

from driving import Channel, occupied_bytes, parse, python_version

clock = time.perf_counter
SPACE = "PassesLegacy124"  # the original's actions, by its names
FORGETFUL = {"transition_cache_bytes": 0}  # what a pass does to a state is found out each time, as the original does


class Ours:
    """Our environments, and what is done to them."""

    def __init__(self, *, remember: bool) -> None:
        self.options = {} if remember else FORGETFUL
        self.program = ""
        self.runtime: Any = None
        self.env: Any = None
        self.envs: list[Any] = []
        self.several: Any = None

    async def start(self, program: str) -> dict[str, Any]:
        """Import, make an environment, reset it for the first time."""
        begun = clock()
        import aiocg

        make_runtime = aiocg.Runtime  # names are imported when they are first used
        imported = clock()
        self.program = program
        self.runtime = make_runtime(workers=1, options=self.options)
        self.env = await self.runtime.make("llvm-v0", benchmark=program, action_space=SPACE)
        made = clock()
        await self.env.reset()
        reset = clock()
        await self.env.observe("IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz")
        baselines = clock()
        space = self.env.action_space
        return {
            "import": imported - begun,
            "make": made - imported,
            "reset": reset - made,
            "baselines": baselines - reset,
            "python": python_version(),
            "version": aiocg.__version__,
            "compiler": self.env.compiler_version,
            "actions": {action.name: action.text for action in space.spec.actions if action.text != ""},
            "instructions": int(await self.env.observe("IrInstructionCount")),
        }

    async def reset(self, count: int) -> dict[str, Any]:
        """Start over again and again."""
        await self._settle(None, None)
        seconds = []
        for _ in range(count):
            await self.env.step(0)
            began = clock()
            await self.env.reset()
            seconds.append(clock() - began)
        return {"seconds": seconds}

    async def walk(self, actions: list[str], observation: str | None, reward: str | None) -> dict[str, Any]:
        """Do one action after another."""
        await self._settle(observation, reward)
        indices, seconds, failures = self._indices(actions), [], 0
        before = await self._compiler()
        for action in indices:
            began = clock()
            _, _, terminated, _, _ = await self.env.step(action)
            seconds.append(clock() - began)
            if terminated:
                failures += 1
                await self.env.reset()
        compiler = (await self._compiler() - before) / len(indices)
        return {"seconds": seconds, "failures": failures, "compiler": compiler}

    async def empty(self, count: int) -> dict[str, Any]:
        """Do steps of no action at all, which observe nothing."""
        await self._settle(None, None)
        seconds = []
        for _ in range(count):
            began = clock()
            await self.env.step([])
            seconds.append(clock() - began)
        return {"seconds": seconds}

    async def batches(self, batches: list[list[str]], observation: str | None, reward: str | None) -> dict[str, Any]:
        """Do several actions at once; the time is that of one."""
        await self._settle(observation, reward)
        seconds, failures = [], 0
        before = await self._compiler()
        for batch in batches:
            indices = self._indices(batch)
            began = clock()
            _, _, terminated, _, _ = await self.env.step(indices)
            seconds.append((clock() - began) / len(batch))
            if terminated:
                failures += 1
                await self.env.reset()
        compiler = (await self._compiler() - before) / sum(map(len, batches))
        return {"seconds": seconds, "failures": failures, "compiler": compiler}

    async def fork(self, actions: list[str], count: int, answer: bool) -> dict[str, Any]:
        """Fork from a state some steps away from the start; if asked to, until the fork has done an empty step."""
        await self._settle(None, None)
        for action in self._indices(actions):
            await self.env.step(action)
        seconds = []
        for _ in range(count):
            began = clock()
            child = await self.env.fork()
            if answer:
                await child.step([])
            seconds.append(clock() - began)
            await child.close()
        return {"seconds": seconds}

    async def greedy(self, prefix: list[str], actions: list[str], reward: str) -> dict[str, Any]:
        """Try every action from the present state."""
        await self._settle(None, reward)
        for action in self._indices(prefix):
            await self.env.step(action)
        indices = self._indices(actions)
        before = await self._compiler()
        began = clock()
        found = await self.env.expand(indices)
        seconds = clock() - began
        failures = sum(candidate.error is not None for candidate in found)
        return {"seconds": [seconds], "failures": failures, "compiler": await self._compiler() - before}

    async def many(self, envs: int, observation: str | None, reward: str | None) -> dict[str, Any]:
        """Make so many environments on as many workers as there are processors, and reset them."""
        import aiocg

        before, began = occupied_bytes(), clock()
        self.several = aiocg.Runtime(options=self.options)
        settings = {"observation_space": observation, "reward_space": reward, "action_space": SPACE}
        self.envs = [await self.several.make("llvm-v0", benchmark=self.program, **settings) for _ in range(envs)]
        await asyncio.gather(*(env.reset() for env in self.envs))
        return {"seconds": [clock() - began], "bytes": occupied_bytes() - before}

    async def play(self, plans: list[list[str]]) -> dict[str, Any]:
        """Step all of them, each in a task of its own."""
        await asyncio.gather(*(env.reset() for env in self.envs))

        async def one(env: Any, plan: list[int]) -> int:
            failures = 0
            for action in plan:
                if (await env.step(action))[2]:
                    failures += 1
                    await env.reset()
            return failures

        indices = [self._indices(plan) for plan in plans]
        before = await self._compiler(self.several)
        began = clock()
        failures = sum(await asyncio.gather(*map(one, self.envs, indices)))
        seconds, steps = clock() - began, sum(map(len, plans))
        each = (await self._compiler(self.several) - before) / len(self.several.worker_pids())
        return {"rate": steps / seconds, "failures": failures, "compiler": steps / each}

    async def fewer(self) -> dict[str, Any]:
        """Close what `many` has made."""
        self.envs = []
        if self.several is not None:
            await self.several.close()
            self.several = None
        return {}

    async def close(self) -> None:
        """Close everything."""
        await self.fewer()
        if self.runtime is not None:
            await self.runtime.close()

    async def _settle(self, observation: str | None, reward: str | None) -> None:
        self.env.observation_space = observation
        self.env.reward_space = reward
        await self.env.reset()

    def _indices(self, actions: list[str]) -> list[int]:
        return [self.env.action_space.index(action) for action in actions]

    async def _compiler(self, runtime: Any = None) -> float:
        """Return the seconds that the workers have spent on actions and observations."""
        return float(sum(one["compiler_time"] for one in await (runtime or self.runtime).statistics()))


async def serve() -> None:
    """Do what is asked until there is nothing more."""
    channel, ours = Channel(), Ours(remember="--remember" in sys.argv[1:])
    try:
        # In a thread, so that the runtime can look after its workers between two requests.
        while line := await asyncio.to_thread(sys.stdin.readline):
            operation, arguments = parse(line)
            try:
                channel.reply(await getattr(ours, operation)(**arguments))
            except Exception as error:
                channel.reply_error(error)
    finally:
        await ours.close()


def main() -> None:
    """Run on uvloop where there is one, as the `aiocg` command does."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
