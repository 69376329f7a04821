"""Drives aiocg by requests on standard input (see `driving`): `python drive_aiocg.py [--remember]`.

`drive_compiler_gym.py` has the same operations for the original.
"""

import asyncio
import sys
import time
from typing import Any

from driving import Channel, Spent, occupied_bytes, parse, python_version
from many import SPACE, WAYS

clock = time.perf_counter
FORGETFUL = {"transition_cache_bytes": 0}  # what a pass does to a state is found out each time, as the original does


class Ours:
    """Our environments, and what is done to them."""

    def __init__(self, *, remember: bool) -> None:
        self.settings = {"options": {} if remember else FORGETFUL}
        self.runtime: Any = None
        self.env: Any = None
        self.several: Any = None
        self.facade: Any = None  # the same environment by `gymnasium.make`
        self.occupied = 0  # before there were several

    async def start(self, program: str) -> dict[str, Any]:
        """Import, make an environment, reset it for the first time."""
        with Spent() as importing:
            import aiocg

            make_runtime = aiocg.Runtime  # names are imported when they are first used
        with Spent() as making:
            self.runtime = make_runtime(workers=1, **self.settings)
            self.env = await self.runtime.make("llvm-v0", benchmark=program, action_space=SPACE)
        with Spent() as resetting:
            await self.env.reset()
            await self.env.observe("IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz")
        with Spent() as again:
            second = await self.runtime.make("llvm-v0", benchmark=program, action_space=SPACE)
        await second.close()
        return {
            "spent": [[one.seconds, one.processor] for one in (importing, making, again, resetting)],
            "python": python_version(),
            "version": aiocg.__version__,
            "compiler": self.env.compiler_version,
            "actions": {action.name: action.text for action in self.env.action_space.spec.actions if action.text != ""},
            "instructions": int(await self.env.observe("IrInstructionCount")),
        }

    async def reset(self, count: int) -> dict[str, Any]:
        """Start over again and again."""
        await self._settle(None, None)
        seconds = []
        with Spent() as spent:
            for _ in range(count):
                began = clock()
                await self.env.reset()
                seconds.append(clock() - began)
        return {"seconds": seconds, "processor": spent.processor / count}

    async def steps(
        self, batches: list[list[str]], observation: str | None, reward: str | None, several: bool
    ) -> dict[str, Any]:
        """Do one action, or several at once, after another; the time is that of one, or of an empty step."""
        await self._settle(observation, reward)
        given = [indices if several else indices[0] for indices in map(self._indices, batches)]
        each = max(1, len(batches[0]))
        seconds, failures = [], 0
        before = await self._compiler()
        with Spent() as spent:
            for action in given:
                began = clock()
                _, _, terminated, _, _ = await self.env.step(action)
                seconds.append((clock() - began) / each)
                if terminated:
                    failures += 1
                    await self.env.reset()
        total = each * len(batches)
        compiler = (await self._compiler() - before) / total
        return {"seconds": seconds, "processor": spent.processor / total, "failures": failures, "compiler": compiler}

    async def facade_steps(self, batches: list[list[str]], observation: str, reward: str) -> dict[str, Any]:
        """Do one action after another in an environment made by `gymnasium.make`, in a thread without an event loop."""
        indices = [index for batch in batches for index in self._indices(batch)]
        return await asyncio.to_thread(self._facade_steps, indices, observation, reward)

    def _facade_steps(self, indices: list[int], observation: str, reward: str) -> dict[str, Any]:
        if self.facade is None:
            import gymnasium

            import aiocg.gym

            runtime = aiocg.gym.SyncRuntime(workers=1, **self.settings)
            program = str(self.env.benchmark.uri)
            self.facade = gymnasium.make("llvm-v0", benchmark=program, action_space=SPACE, runtime=runtime)
        self.facade.reset(options={"observation_space": observation, "reward_space": reward})
        seconds, failures = [], 0
        with Spent() as spent:
            for action in indices:
                began = clock()
                terminated = self.facade.step(action)[2]
                seconds.append(clock() - began)
                if terminated:
                    failures += 1
                    self.facade.reset()
        return {"seconds": seconds, "processor": spent.processor / len(indices), "failures": failures}

    async def fork(self, prefix: list[str], steps: list[list[str]]) -> dict[str, Any]:
        """Fork from a state some steps away from the start, and let each fork do a step, be it an empty one."""
        await self._settle(None, None)
        for action in self._indices(prefix):
            await self.env.step(action)
        given = list(map(self._indices, steps))
        seconds, failures = [], 0
        with Spent() as spent:
            for actions in given:
                began = clock()
                child = await self.env.fork()
                failures += (await child.step(actions))[2]
                seconds.append(clock() - began)
                await child.close()
        return {"seconds": seconds, "processor": spent.processor / len(steps), "failures": failures}

    async def greedy(self, prefix: list[str], actions: list[str], reward: str) -> dict[str, Any]:
        """Try every action from the present state."""
        await self._settle(None, reward)
        for action in self._indices(prefix):
            await self.env.step(action)
        indices = self._indices(actions)
        before = await self._compiler()
        with Spent() as spent:
            found = await self.env.expand(indices)
        return {
            "seconds": [spent.seconds],
            "processor": spent.processor,
            "failures": sum(candidate.error is not None for candidate in found),
            "compiler": await self._compiler() - before,
        }

    async def many(self, programs: list[str], observation: str | None, reward: str | None, way: str) -> dict[str, Any]:
        """Make an environment for each program, on as many workers as there are processors, and reset them."""
        self.occupied = occupied_bytes()
        with Spent() as spent:
            self.several = WAYS[way](**self.settings)
            await self.several.make(programs, {"observation_space": observation, "reward_space": reward})
        return {"seconds": [spent.seconds], "processor": spent.processor}

    async def play(self, plans: list[list[str]]) -> dict[str, Any]:
        """Step all of them."""
        await self.several.reset()
        indices = [self._indices(plan) for plan in plans]
        with Spent() as spent:
            failures = await self.several.play(indices)
        steps = sum(map(len, plans))
        return {"rate": steps / spent.seconds, "processor": spent.processor / steps, "failures": failures}

    async def fewer(self) -> dict[str, Any]:
        """Close what `many` has made; return what it occupied in the end."""
        occupied = occupied_bytes() - self.occupied
        if self.several is not None:
            await self.several.close()
            self.several = None
        return {"bytes": occupied}

    async def close(self) -> None:
        """Close everything."""
        if self.several is not None:
            await self.several.close()
        if self.facade is not None:
            await asyncio.to_thread(self.facade.unwrapped.runtime.close)
        if self.runtime is not None:
            await self.runtime.close()

    async def _settle(self, observation: str | None, reward: str | None) -> None:
        self.env.observation_space = observation
        self.env.reward_space = reward
        await self.env.reset()

    def _indices(self, actions: list[str]) -> list[int]:
        return [self.env.action_space.index(action) for action in actions]

    async def _compiler(self) -> float:
        """Return the seconds that the worker has spent on actions and observations."""
        return float(sum(one["compiler_time"] for one in await self.runtime.statistics()))


async def serve() -> None:
    """Do what is asked until there is nothing more."""
    channel, ours = Channel(), Ours(remember="--remember" in sys.argv)
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
