"""The searches of `aiocg cc`: from bitcode to bitcode."""

import re
import time
from pathlib import Path

import msgspec

from aiocg.datasets.scratch import scratch_folder
from aiocg.llvm import tools
from aiocg.llvm.driver import DriverError, Settings

__all__ = ["optimise"]

SEARCHES = ("greedy", "random", "beam")

_LEVEL = re.compile(r"-?(O[0-3sz])")
_SMALLEST = "default<Oz>"


def optimise(bitcode: bytes, settings: Settings) -> list[tuple[bytes, str]]:
    """Return optimised programs to choose from, with a few words on each.

    A search starts from what -Oz makes of the program and, in the time that is left then, from the program as it is:
    the first goes a little further than -Oz even where time is short, the second may go further or come to a dead end.

    Raises:
        DriverError: when the settings make no sense.
        AiocgError, DatasetError: when LLVM fails over the program.
    """
    if settings.search in SEARCHES:
        import asyncio

        return asyncio.run(_search(bitcode, settings))
    actions = _actions(settings.search)
    how = settings.search if len(settings.search) <= 60 else f"{settings.search[:57]}..."
    return [(apply(bitcode, actions), how)]


def apply(bitcode: bytes, actions: list[str]) -> bytes:
    """Return a program after actions, given as texts, that a process of its own applies.

    Raises:
        ServiceError: when an action is not known or fails.
    """
    with scratch_folder() as scratch:
        program, output = Path(scratch, "program.bc"), Path(scratch, "output.bc")
        program.write_bytes(bitcode)
        tools.run_tool("apply", [output, program, "--", *actions], subject="the program", timeout=tools.TIMEOUT)
        return output.read_bytes()


def _actions(text: str) -> list[str]:
    """Return the actions that a setting stands for."""
    if match := _LEVEL.fullmatch(text):
        return [f"default<{match[1]}>"]
    path = Path(text).expanduser()
    if not path.is_file():
        return [text]
    try:
        state = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        return msgspec.convert(state.get("actions"), list[str])
    except (OSError, msgspec.MsgspecError) as error:
        raise DriverError(
            f"AIOCG_CC_SEARCH: {text} is not a state as `aiocg search --state` writes it: {error}"
        ) from None


async def _search(bitcode: bytes, settings: Settings) -> list[tuple[bytes, str]]:
    from aiocg import search
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.runtime import Runtime

    function = getattr(search, settings.search)
    starts = [(apply(bitcode, [_SMALLEST]), f"-Oz and {settings.search}"), (bitcode, settings.search)]
    deadline = time.monotonic() + settings.budget
    found = []
    async with Runtime(workers=1) as runtime:  # one: `make -j` is what makes use of the machine
        for number, (start, name) in enumerate(starts):
            left = deadline - time.monotonic()
            if number and left <= 0:
                break
            benchmark = Benchmark.from_file_contents(f"benchmark://user-v0/start?number={number}", start)
            env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=settings.reward)
            result = await function(env, budget=search.Budget(seconds=max(left, 0.1)))
            await env.reset()
            if result.actions:
                _, _, terminated, _, info = await env.step(list(result.actions))
                if terminated:
                    raise info["error"]
            found.append((bytes(await env.observe("Bitcode")), f"{name}, {len(result.actions)} actions"))
            await env.close()
    return found
