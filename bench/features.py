"""What a walk over the instructions of a module costs, per instruction.

Twice: the walk alone, on a module that was just parsed; and as an environment sees it, as the worker's own count of the
time of an observation after a pass. Observations are remembered with the state, so each is asked once per new state.
"""

import tempfile
from pathlib import Path

import aiocg
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.toolchain import find_toolchain
from bench.counters import counters
from bench.measure import NANO, Budget, Effort, Results
from bench.programs import LARGEST, PASSES, generated_source
from bench.scripting import run_script

KINDS = {"Autophase": "autophase", "InstCount": "inst_count", "ProgramlArrays": "programl"}  # space: name in walks.py
PER_INSTRUCTION = {"Autophase": Budget(25.0), "InstCount": Budget(25.0)}


async def measure(effort: Effort) -> Results:
    """Walk the largest program of the dataset and a generated one."""
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "generated.c"
        generated.write_text(generated_source())
        for name, program in ((LARGEST, LARGEST), ("a generated program", generated)):
            await _measure_program(results, name, program, effort)
    results.note(
        "'Walk alone' repeats the walk on one module; 'in a step' asks once after each pass, with all overhead and "
        "with the caches as the pass, the client and everybody else have left them."
    )
    return results


async def _measure_program(results: Results, name: str, program: str | Path, effort: Effort) -> None:
    steps = effort.choose(20, 6)
    async with aiocg.Runtime(workers=1) as runtime:
        content = runtime.benchmark(program).content
        observed = await _observe_fresh_states(runtime, program, steps)
    tools = str(find_toolchain().clang), str(cache_directory())
    walked = await run_script("walks.py", *tools, str(effort.choose(4.0, 0.5)), given=content)
    size, samples = walked["instructions"], walked["samples"]
    for space, kind in KINDS.items():
        budget = PER_INSTRUCTION.get(space)
        alone = [seconds / size * NANO for seconds in samples[kind]]
        results.add(f"{space}, walk alone, {name} ({size:,})", alone, "ns/instruction", budget)
        results.add(f"{space}, in a step, {name}", observed[space], "ns/instruction", budget)
    count = [seconds / size * NANO for seconds in samples["instruction_count"]]
    results.add(f"IrInstructionCount, walk alone, {name}", count, "ns/instruction")


async def _observe_fresh_states(runtime: aiocg.Runtime, program: str | Path, steps: int) -> dict[str, list[float]]:
    """Step, and observe each new state once; return nanoseconds per instruction for each observation space."""
    samples: dict[str, list[float]] = {space: [] for space in KINDS}
    env = await runtime.make("llvm-v0", benchmark=program)
    await env.reset()
    for action in PASSES[:steps]:
        _, _, terminated, _, info = await env.step(action)
        if terminated or info["action_had_no_effect"]:
            continue
        size = await env.observe("IrInstructionCount")
        for space in KINDS:
            before = await counters(runtime)
            await env.observe(space)
            after = await counters(runtime)
            samples[space].append((after.compiler_time - before.compiler_time) / size * NANO)
    return samples
