"""A dataset of as many names as the largest published one, gone through in every way, and the memory that takes."""

import tempfile

from bench.measure import MICRO, MILLI, Budget, Effort, Results
from bench.scripting import run_script

NAMES = 1_041_333  # AnghaBench
FEW = 100_000
KIB = 1024
EACH = Budget(30.0)
AT_ONCE = Budget(5.0)
CONSTANT = Budget(256.0)  # a list of the names would add 12,000 KiB with each tenth


async def measure(effort: Effort) -> Results:
    """Do everything in fresh interpreters, one after another, each with an empty cache."""
    results = Results()
    count = effort.choose(NAMES, FEW)
    runs = []
    for _ in range(effort.choose(3, 1)):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(await run_script("million_names.py", str(count), folder))
    for what in runs[0]["each"]:
        results.add(what, [run["each"][what] * MICRO for run in runs], "µs", EACH)
    for what in runs[0]["once"]:
        budget = None if "first" in what else AT_ONCE
        results.add(what, [run["once"][what] * MILLI for run in runs], "ms", budget)
    growth = [bytes_ / KIB for run in runs for bytes_ in run["memory"]]
    results.add(f"growth over {count // 10:,} names, shuffled", growth, "KiB", CONSTANT)
    results.note(f"{count:,} names in a file. Times are of the processor. Memory is what the process has")
    results.note("allocated, without the pages of that file.")
    return results
