"""What each observation of the LLVM environments costs, on a small, a middle and a large program.

Measured as a user sees it: from asking for an observation until its value is there, with the way to the worker and back
and with what the client makes of it. Every value is of a state that has just been reached by a pass, so that nothing is
remembered of it; the worker, its native code and downloaded vocabularies are warm.

The published times are the medians of CompilerGym's paper (Cummins et al., CGO 2022, arXiv:2109.08267), on its authors'
machine, and over programs whose sizes it does not tell.
"""

import statistics
import time

import aiocg
from bench.measure import MILLI, NANO, Budget, Effort, Results
from bench.programs import LARGEST, PASSES, SMALLEST

MIDDLE = "programs-v0/regex"
SAMPLES = 12  # of each observation, on states of their own
SECONDS = 2.0  # for the samples of one observation
RUNNING = ("Buildtime", "Execution", "Runtime")  # what begins like this takes as long as the program does

PUBLISHED = {  # milliseconds
    "Ir": 0.9,
    "InstCount": 0.5,
    "Autophase": 0.7,
    "Inst2vec": 15.8,
    "ProgramlArrays": 104.5,
    "Programl": 104.5,
}
PROGRAML = Budget(20.0, at_least=True)


async def measure(effort: Effort) -> Results:
    """Observe everything after some passes."""
    results = Results()
    samples = effort.choose(SAMPLES, 2)
    for program in effort.choose((SMALLEST, MIDDLE, LARGEST), (SMALLEST,)):
        async with aiocg.Runtime(workers=1, options={"transition_cache_bytes": 0}) as runtime:
            env = await runtime.make("llvm-v0", benchmark=program)
            for space in env.observation_spaces:
                if not space.startswith(RUNNING):
                    await _measure_space(results, env, space, program, samples)
    results.note(
        "With each program is given how many instructions it has in the middle one of the states that were observed. "
        "Each value is the first that is asked of its state, right after the pass that led there: what must read the "
        "program's bitcode anew, or print it, does."
    )
    results.note(f"Not measured is what takes as long as the program does: {', '.join(RUNNING)}.")
    results.note("'Times faster than published' compares with another machine and other programs. See the module.")
    return results


async def _measure_space(results: Results, env: aiocg.Env, space: str, program: str, samples: int) -> None:
    try:
        seconds, sizes = await _observe(env, space, samples)
    except aiocg.AiocgError as error:
        results.note(f"{space} cannot be observed on {program} here: {error}")
        return
    name = f"{program.rpartition('/')[2]} ({statistics.median_low(sizes):,})"
    results.add(f"{space}, {name}", [one * MILLI for one in seconds], "ms")
    if program == LARGEST:
        each = [one / size * NANO for one, size in zip(seconds, sizes, strict=True)]
        results.add(f"{space}, {name}", each, "ns/instruction")
    if space in PUBLISHED:
        budget = PROGRAML if space == "ProgramlArrays" else None
        gains = [PUBLISHED[space] / (one * MILLI) for one in seconds]
        results.add(f"{space}, {name}: published {PUBLISHED[space]} ms", gains, "times faster", budget)


async def _observe(env: aiocg.Env, space: str, samples: int) -> tuple[list[float], list[int]]:
    """Observe a space once in each of some states; return seconds, and numbers of instructions."""
    seconds: list[float] = []
    sizes: list[int] = []
    await env.reset()
    await env.observe(space)  # loads and fetches what all of them need
    for action in PASSES:
        if len(seconds) == samples or sum(seconds) > SECONDS:
            break
        _, _, _, _, info = await env.step(action)
        if info["action_had_no_effect"]:
            continue
        started = time.perf_counter()
        await env.observe(space)
        seconds.append(time.perf_counter() - started)
        sizes.append(await env.observe("IrInstructionCount"))
    return seconds, sizes
