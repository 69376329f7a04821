"""The searches of `aiocg cc`: from bitcode to bitcode."""

import re
import time
from pathlib import Path

import msgspec

from aiocg.llvm.driver_settings import DriverError, Settings
from aiocg.llvm.tools import apply

GRACE = 1.0  # seconds after its budget in which a search may end
_LEVEL = re.compile(r"-?(O[0-3sz])")
_SMALLEST = "default<Oz>"


def optimise(bitcode: bytes, settings: Settings, seconds: float) -> list[tuple[bytes, str]]:
    """Return optimised programs to choose from, with a few words on each; a search takes no more than `seconds`.

    A search starts from what -Oz makes of the program and, in the time that is left then, from the program as it is:
    the first goes a little further than -Oz even where time is short, the second may go further or come to a dead end.

    Raises:
        DriverError: when the settings make no sense.
        AiocgError, DatasetError: when LLVM fails over the program.
    """
    if settings.searches:
        return _search(bitcode, settings, seconds)
    actions = _actions(settings.search)
    how = settings.search if len(settings.search) <= 60 else f"{settings.search[:57]}..."
    return [(apply(bitcode, actions), how)]


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


def _search(bitcode: bytes, settings: Settings, seconds: float) -> list[tuple[bytes, str]]:
    # `apply` waits for a process: in a coroutine, Ctrl-C would be taken for that process's failure
    import asyncio

    deadline = time.monotonic() + seconds
    starts = [(apply(bitcode, [_SMALLEST]), f"-Oz and {settings.search}"), (bitcode, settings.search)]
    found, unfinished = asyncio.run(_search_from(starts, settings, deadline))
    if unfinished:
        start, name = starts[len(found)]
        found.append((apply(start, unfinished), f"{name}, {len(unfinished)} actions"))
    return found


async def _search_from(
    starts: list[tuple[bytes, str]], settings: Settings, deadline: float
) -> tuple[list[tuple[bytes, str]], tuple[str, ...]]:
    """Return what was found from the starts, in their order, and the best actions of a search that was cut off."""
    import asyncio

    from aiocg import search
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.runtime import Runtime

    function = getattr(search, settings.search)
    found: list[tuple[bytes, str]] = []
    best: tuple[str, ...] = ()  # so far, of the start that is searched

    def note(now: search.Progress) -> None:
        nonlocal best
        best = now.actions

    limit = asyncio.timeout(deadline + GRACE - time.monotonic())
    try:
        async with limit, Runtime(workers=1) as runtime:  # one worker: builds use `make -j`
            for number, (start, name) in enumerate(starts):
                left = deadline - time.monotonic()
                if number and left <= 0:
                    break
                best = ()
                benchmark = Benchmark.from_file_contents(f"benchmark://user-v0/start?number={number}", start)
                env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=settings.reward)
                budget = search.Budget(seconds=max(left, 0.1))
                result = await function(env, budget=budget, progress=note)
                await env.reset()
                if result.actions:
                    await env.apply(result.actions)
                found.append((bytes(await env.observe("Bitcode")), f"{name}, {len(result.actions)} actions"))
                best = ()
                await env.close()
    except TimeoutError:
        if not limit.expired():  # but a worker's deadline
            raise
        return found, best
    return found, ()
