"""LLVM without an environment: observations of a program, and available spaces."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiocg.datasets.scratch import scratch_folder
from aiocg.env.plan import Reading
from aiocg.errors import ObservationFailed, UnknownName
from aiocg.llvm import tools
from aiocg.registry import environment
from aiocg.spaces import ObservationSpace
from aiocg.spaces.rewards import Reward, rewards_of_observations
from aiocg.transport.codec import reply_codec
from aiocg.transport.messages import FailureCode, Observed, Reply, Welcome

ENVIRONMENT = "llvm-v0"


def compute_observation(name: str, program: "bytes | str | os.PathLike[str]", *, timeout: float = tools.TIMEOUT) -> Any:
    """Compute one observation of a program without an environment, in a process that may die of it.

    Args:
        name: of an observation space of the LLVM environments, `BitcodeFile` excepted.
        program: bitcode or textual IR, or the path of a file with either.
        timeout: seconds.

    Raises:
        UnknownName: for a name that is not an observation space.
        OSError: when the file cannot be read.
        BenchmarkInitError: when LLVM does not accept the program.
        ServiceError: when the observation cannot be computed; WorkerCrashed when LLVM died of it, DeadlineExceeded when
            it took longer.
    """
    content = program if isinstance(program, bytes) else Path(program).expanduser().read_bytes()
    subject = "a program" if isinstance(program, bytes) else os.fspath(program)
    spaces = observation_spaces()
    if name not in spaces:
        raise UnknownName("observation space", name, spaces)
    if name == "BitcodeFile":
        message = "BitcodeFile lives as long as a runtime, and here is none: write Bitcode to a file of your own"
        raise ObservationFailed(FailureCode.OBSERVATION, message)
    reading = Reading((name,), spaces)
    for prepare in reading.prepare:
        prepare()
    with scratch_folder() as scratch:
        path, output = Path(scratch, "program"), Path(scratch, "observed")
        path.write_bytes(content)
        arguments: list[str | Path] = [*_options(), output, path, *reading.observe]
        tools.run_tool("observe", arguments, subject=subject, timeout=timeout)
        reply = _read(output)
    assert isinstance(reply, Observed)
    return reading.values(reply.observations)[0]


def observation_spaces() -> Mapping[str, ObservationSpace]:
    """Return all observation spaces of the LLVM environments by name. No environment is made.

    Raises:
        EnvironmentNotSupported: when there is no LLVM.
    """
    welcome = _describe(*_choices())
    spaces = [*map(ObservationSpace.from_spec, welcome.observation_spaces), *environment(ENVIRONMENT).derived()]
    return {space.name: space for space in spaces}


def reward_spaces() -> Mapping[str, Reward]:
    """Return all reward spaces of the LLVM environments by name. No environment is made.

    Raises:
        EnvironmentNotSupported: when there is no LLVM.
    """
    known = {reward.name: reward for reward in environment(ENVIRONMENT).rewards()}
    return known | rewards_of_observations(observation_spaces(), known)


def action_names(space: str | None = None) -> tuple[str, ...]:
    """Return the names of the actions of an action space, of the default one if None. No environment is made.

    Raises:
        UnknownName: when there is no such action space.
        EnvironmentNotSupported: when there is no LLVM.
    """
    spaces = {one.name: one for one in _describe(*_choices()).action_spaces}
    if space is not None and space not in spaces:
        raise UnknownName("action space", space, spaces)
    chosen = spaces[space] if space is not None else next(iter(spaces.values()))
    return tuple(action.name for action in chosen.actions)


def _choices() -> tuple[str, ...]:
    """Return what decides which LLVM is used: a description of another is not ours."""
    return tuple(os.environ.get(name, "") for name in ("AIOCG_LLVM", "AIOCG_LLVM_LIBRARY", "AIOCG_CLANG", "PATH"))


@functools.lru_cache(maxsize=4)
def _describe(*_: str) -> Welcome:
    with scratch_folder() as scratch:
        output = Path(scratch, "described")
        tools.run_tool("describe", [*_options(), output], subject="LLVM", timeout=tools.TIMEOUT)
        reply = _read(output)
    assert isinstance(reply, Welcome)
    return reply


def _options() -> list[str]:
    import msgspec

    spec = environment(ENVIRONMENT)
    return ["--options", msgspec.json.encode(dict(spec.options(spec.settings))).decode()]


def _read(path: Path) -> Reply:
    """Read the frames of one message, each after its length."""
    data = path.read_bytes()
    frames, start = [], 0
    while start < len(data):
        end = start + 8 + int.from_bytes(data[start : start + 8], "little")
        frames.append(data[start + 8 : end])
        start = end
    reply: Reply = reply_codec().decode(frames)[0]
    return reply
