"""Times the start in a fresh interpreter: `python first_env.py ENVIRONMENT BENCHMARK`.

Prints a JSON object of seconds: `import` of the package, `names` (resolving all its public names, which are imported
on first use), `ready` (from `Runtime()` to an environment that has been reset), `close`.
"""

import asyncio
import json
import sys
import time


async def first_env(environment: str, benchmark: str) -> dict[str, float]:
    """Make one environment and reset it."""
    import aiocg

    started = time.perf_counter()
    async with aiocg.Runtime() as runtime:
        env = await runtime.make(environment, benchmark=benchmark)
        await env.reset()
        ready = time.perf_counter()
    return {"ready": ready - started, "close": time.perf_counter() - ready}


def main() -> None:
    """Import, resolve, run."""
    started = time.perf_counter()
    import aiocg

    imported = time.perf_counter()
    for name in aiocg.__all__:
        getattr(aiocg, name)
    resolved = time.perf_counter()
    times = asyncio.run(first_env(*sys.argv[1:]))
    print(json.dumps({"import": imported - started, "names": resolved - imported, **times}))


if __name__ == "__main__":
    main()
