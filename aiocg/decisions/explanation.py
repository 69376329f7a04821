"""What LLVM decided at each call of a program, and what the other answer would have given."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from aiocg.env.env import Env
from aiocg.search.lanes import each, evaluate, spread
from aiocg.transport.elf import function_sizes

__all__ = ["Call", "Explanation", "explain"]

_KEEP, _INLINE, _DEFAULT = "keep", "inline", "default"
_COSTS = ("ProjectedImageSizeBytes", "ProjectedIrInstructionCount")
_SOON = 0.5  # seconds for the other answers that are tried together; on a large program one takes longer


@dataclass(frozen=True)
class Call:
    """A call that LLVM decided on.

    LLVM comes back to calls that it has kept. Where debug information tells them apart, that is one call; a function
    that was copied has its own.

    Attributes:
        number: of decisions before it, the first time.
        place: of the call in the source, as `file:line:column`; empty without debug information.
        callee: the function called.
        caller: the function it is in; empty where LLVM inlined it and did not say.
        inlined: what LLVM decided.
        reason: LLVM's, of a call that it kept.
        bytes, instructions: how many more the other answer gives, if LLVM decides all else; None if not tried.
    """

    number: int
    place: str
    callee: str
    caller: str
    inlined: bool
    reason: str
    bytes: int | None = None
    instructions: int | None = None


@dataclass(frozen=True)
class Explanation:
    """The decisions of one compile.

    Attributes:
        calls: in LLVM's order.
        decisions: how often LLVM decided on one of them.
        bytes, instructions: of the program where LLVM decides.
    """

    calls: tuple[Call, ...]
    decisions: int
    bytes: int
    instructions: int


async def explain(
    lanes: Sequence[Env], budget: float, progress: Callable[[str], object] = lambda _: None
) -> AsyncIterator[Explanation]:
    """Find out what LLVM decides at each call, and try the other answers, those about large functions first.

    Yields what is known, which grows.

    Args:
        lanes: environments `llvm-inline-v0` of the same program, which are reset.
        budget: seconds for trying other answers.
        progress: called with what is being done.

    Raises:
        ServiceError: if LLVM fails.
    """
    await spread(each(lanes, lambda lane: lane.reset()))
    decided = await _decided(lanes[0], progress)
    first: dict[object, Call] = {}
    for call in decided:
        first.setdefault((call.place, call.callee, call.caller) if call.place else call.number, call)
    calls = {call.number: call for call in first.values()}
    size, instructions, content = await lanes[0].observe("ObjectImageSizeBytes", "IrInstructionCount", "Object")
    await lanes[0].reset()
    sizes = {name.decode(errors="replace"): one for name, one in function_sizes(content).items()}
    ranked = sorted(calls.values(), key=lambda call: -(sizes.get(call.caller, 0) + sizes.get(call.callee, 0)))
    ends, tried, count = time.monotonic() + budget, 0, len(lanes)
    while True:
        yield Explanation(tuple(calls.values()), len(decided), size, instructions)
        if tried >= len(ranked) or (begun := time.monotonic()) >= ends:
            return
        progress(f"trying the other answers: {tried} of {len(ranked)}")
        some = ranked[tried : tried + count]
        lists = [[_DEFAULT] * call.number + [_KEEP if call.inlined else _INLINE] for call in some]
        for call, found in zip(some, await evaluate(lanes, lists, _COSTS), strict=True):
            if found.error is None:
                costs = (int(found.observation[0]) - size, int(found.observation[1]) - instructions)
                calls[call.number] = replace(call, bytes=costs[0], instructions=costs[1])
        tried += len(some)
        if time.monotonic() - begun < _SOON:
            count *= 2


async def _decided(env: Env, progress: Callable[[str], object]) -> list[Call]:
    """Have LLVM decide everything, and return the calls."""
    calls: list[Call] = []
    finished = await env.observe("Finished")
    while not finished:
        if len(calls) % 100 == 0:
            progress(f"asking LLVM: {len(calls)} calls")
        remark = await env.observe("Remark")
        (last,), _, finished, _, info = await env.step(_DEFAULT, observation_spaces=["LastCall"])
        if "error" in info:
            raise info["error"]
        caller, _, reason = remark.partition("' not inlined into '")[2].partition("' because ")
        calls.append(Call(len(calls), last["place"], last["callee"], caller, bool(last["inlined"]), reason))
    return calls
