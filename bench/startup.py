"""How long a fresh interpreter takes to import aiocg, and to have the first environment ready, with warm caches."""

from bench.measure import MILLI, Budget, Effort, Results
from bench.programs import USUAL
from bench.scripting import run_script

ENVIRONMENT = "llvm-v0"
IMPORT = Budget(300.0)
READY = Budget(500.0)


async def measure(effort: Effort) -> Results:
    """Start fresh interpreters, one after another; the first warms the caches."""
    results = Results()
    await run_script("first_env.py", ENVIRONMENT, USUAL)
    runs = [await run_script("first_env.py", ENVIRONMENT, USUAL) for _ in range(effort.choose(15, 3))]
    samples = {key: [MILLI * run[key] for run in runs] for key in runs[0]}
    results.add("import aiocg", samples["import"], "ms", IMPORT)
    together = [a + b for a, b in zip(samples["import"], samples["names"], strict=True)]
    results.add("import aiocg and all its names", together, "ms", IMPORT)
    results.add(f"Runtime() to {ENVIRONMENT} reset to {USUAL}", samples["ready"], "ms", READY)
    results.add("close of the runtime", samples["close"], "ms")
    results.note("aiocg imports its names on first use. The runtime starts as many workers as there are cores.")
    return results
