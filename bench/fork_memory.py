"""What an idle fork occupies, in the worker and in the client."""

from bench.measure import Budget, Effort, Results
from bench.programs import LARGEST, USUAL
from bench.scripting import run_script

FORKS = 1000
KIB = 1024
PER_FORK = Budget(4.0)


async def measure(effort: Effort) -> Results:
    """Fork a thousand times, several times over, and see by how much both processes grow."""
    results = Results()
    for program in (USUAL, LARGEST):
        growth = await run_script("forks.py", program, str(FORKS), str(effort.choose(9, 3)))
        for side, budget in (("worker", PER_FORK), ("client", None)):
            kibibytes = [growth_bytes / FORKS / KIB for growth_bytes in growth[side]]
            results.add(f"fork of {program}, {side}", kibibytes, "KiB", budget)
    results.note(f"Growth of resident memory over {FORKS:,} forks that are kept, divided by their number.")
    results.note("Measured in a fresh interpreter, where no memory freed earlier can be used again.")
    return results
