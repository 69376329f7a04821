"""Draws schedules from seeds, plays them, and shrinks those that fail."""

import asyncio
import contextlib
import gc
import itertools
import random
import secrets
import traceback
from dataclasses import dataclass

from aiocg.fleet import rebuildable
from bench.simulation.loop import START, VirtualLoop
from bench.simulation.world import FAULTS, NODE_FAULTS, REQUESTS, Move, World

LONGEST = 40  # moves
FOLLOWING = {  # what has more chances to go wrong when one follows the other
    "harm": ("everybody", "wait", "everybody", "wait", "everybody", "wait for long", "everybody", "rest", "everybody"),
    "forget": ("kill soon", "wait"),
    "kill soon": ("step", "cancel", "step"),
    "refuse": ("kill soon", "wait", "step"),
    "crash": ("step", "step"),
    "step": ("cancel", "kill soon"),
    "doze": ("wait for long", "part", "wait for long"),
    "connections break soon": ("step", "everybody", "connections break soon", "wait", "step"),
}


@dataclass(frozen=True)
class Outcome:
    """How a schedule ended.

    Attributes:
        problem: what does not hold, "" if all does.
        details: the end of the traceback, or the same.
        seconds: virtual time that it took.
        checksum: of all that workers executed, and when.
    """

    problem: str
    details: str
    seconds: float
    checksum: int


def with_nodes(seed: int) -> bool:
    """Do the workers of a seed's schedule run on nodes?"""
    return seed % 24 == 23


def draw(seed: int, longest: int = LONGEST) -> list[Move]:
    """Return the moves of a seed: some kinds of moves, in any order."""
    dice = random.Random(f"moves {seed}")
    kinds = dice.sample(REQUESTS, dice.randint(4, len(REQUESTS)))
    kinds += ["step", "wait", *dice.sample(FAULTS, dice.choice([0, 1, 1, 2, 3, len(FAULTS)]))]
    if with_nodes(seed):
        kinds += ["doze", *dice.sample(NODE_FAULTS, dice.choice([1, 1, 2, len(NODE_FAULTS)]))]
    count, names = dice.randint(5, longest), list[str]()
    while len(names) < count:
        names.append(dice.choice(kinds))
        if dice.random() < 0.3:
            names += FOLLOWING.get(names[-1], ())
    moves = [(name, dice.randrange(6), dice.randrange(6), dice.randrange(1 << 30)) for name in names]
    if with_nodes(seed) and dice.random() < 0.3:
        moves.insert(dice.randrange(len(moves)), ("node goes", 0, 0, seed))
    return moves


async def _play(world: World, moves: list[Move]) -> None:
    try:
        await world.add()
        await world.add()
        for move in moves:
            await world.act(move)
        await world.finish()
    finally:
        await world.close()


def play(seed: int, moves: list[Move]) -> Outcome:
    """Play a schedule, which has the same outcome each time."""
    rebuildable._numbers = itertools.count(1)
    problems: list[tuple[str, str]] = []

    def unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if "never retrieved" not in str(context.get("message")):
            said = f"{context.get('message')}: {context.get('exception')!r}"
            problems.append((said, said))

    loop = VirtualLoop()
    loop.set_exception_handler(unexpected)
    asyncio.set_event_loop(loop)
    gc.disable()
    world = World(loop, seed, nodes=with_nodes(seed))
    token = secrets.token_hex
    secrets.token_hex = lambda nbytes=None: world.dice.randbytes(nbytes or 16).hex()  # names connections
    try:
        loop.run_until_complete(_play(world, moves))
    except Exception as error:
        problems.append((f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))))
    finally:
        secrets.token_hex = token
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.sleep(0))
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()
    problem, details = problems[0] if problems else ("", "")
    return Outcome(problem, details, loop.time() - START, world.machine.checksum)


def shrink(seed: int, moves: list[Move]) -> list[Move]:
    """Return fewer moves of a failing schedule that fail as well, none of which can be left out."""
    size = len(moves) // 2
    while size:
        place = 0
        while place < len(moves):
            fewer = moves[:place] + moves[place + size :]
            if play(seed, fewer).problem:
                moves = fewer
            else:
                place += size
        size = size // 2 if size > 1 else 0
    return moves
