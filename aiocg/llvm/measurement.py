"""Measurement settings: runs, warm-ups, builds, and the input.

Each of these is a parameter of the environment, which its forks inherit and which resets keep. The observations
`Runtime` and `Buildtime` and the reward `runtime` depend on them::

    await set_runtime_observation_count(env, 30)
    await set_runtime_warmup_count(env, 1)
    env.reward_space = "runtime"

A measurement must end before the step that it belongs to is overdue (60 s if nothing else is said): otherwise the step
fails with an error that says so. Measurements on one machine do not run on the same core at the same time; with more of
them than cores, they wait for each other. One that is made alone waits until no other is made, and the others wait for
it.
"""

from aiocg.env.env import Env

__all__ = [
    "buildtime_observation_count",
    "measured_alone",
    "measured_run",
    "runtime_observation_count",
    "runtime_warmup_count",
    "set_buildtime_observation_count",
    "set_measured_alone",
    "set_measured_run",
    "set_runtime_observation_count",
    "set_runtime_warmup_count",
]

_RUNTIMES = "runtimes_per_observation_count"
_WARMUPS = "warmup_runs_count_per_runtime_observation"
_BUILDTIMES = "buildtimes_per_observation_count"
_MEASURED_RUN = "measured_run"
_ALONE = "measured_alone"


async def runtime_observation_count(env: Env) -> int:
    """Return how often the program is run and timed for one observation of `Runtime`; 3 if nothing else was said."""
    return int(await _get(env, _RUNTIMES))


async def set_runtime_observation_count(env: Env, count: int) -> None:
    """Set how often the program is run and timed for one observation of `Runtime`.

    Raises:
        ParameterFailed: when the number is less than 1 or larger than 10,000.
    """
    await _set(env, _RUNTIMES, str(count))


async def runtime_warmup_count(env: Env) -> int:
    """Return how often the program is run before it is timed; 0 if nothing else was said."""
    return int(await _get(env, _WARMUPS))


async def set_runtime_warmup_count(env: Env, count: int) -> None:
    """Set how often the program is run before it is timed.

    Raises:
        ParameterFailed: when the number is negative or larger than 10,000.
    """
    await _set(env, _WARMUPS, str(count))


async def buildtime_observation_count(env: Env) -> int:
    """Return how often the program is built and timed for one `Buildtime`; 1 if nothing else was said."""
    return int(await _get(env, _BUILDTIMES))


async def set_buildtime_observation_count(env: Env, count: int) -> None:
    """Set how often the program is built and timed for one observation of `Buildtime`.

    Raises:
        ParameterFailed: when the number is less than 1 or larger than 10,000.
    """
    await _set(env, _BUILDTIMES, str(count))


async def measured_run(env: Env) -> str:
    """Return the name of the run that is timed, "" for the one that the benchmark says is best for that."""
    return await _get(env, _MEASURED_RUN)


async def set_measured_run(env: Env, name: str) -> None:
    """Set which run is timed.

    The programs of `programs-v0` have the runs "small", "medium" and "large", of which "medium" is timed if nothing
    else is said: starting a program takes less than 1 ms, "small" little more than that, "medium" tens and "large"
    hundreds of milliseconds. A run that the program does not have makes `Runtime` fail.

    Args:
        env: an environment that was reset.
        name: of the run, "" for the default.
    """
    await _set(env, _MEASURED_RUN, name)


async def measured_alone(env: Env) -> bool:
    """Return whether nothing else is measured on the machine meanwhile; False if nothing else was said."""
    return await _get(env, _ALONE) == "1"


async def set_measured_alone(env: Env, alone: bool) -> None:
    """Set whether nothing else may be measured on the machine while this program is, on other cores either.

    Cores share caches, memory and power, so that programs that run side by side slow each other down.
    """
    await _set(env, _ALONE, str(int(alone)))


async def _get(env: Env, name: str) -> str:
    return await env.send_parameter(f"llvm.get_{name}", "")


async def _set(env: Env, name: str, value: str) -> None:
    await env.send_parameter(f"llvm.set_{name}", value)
