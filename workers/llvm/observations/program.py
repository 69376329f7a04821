"""Observations of the program as it is built and run: its size, whether it can be run, how long it takes, what it does.

They need a benchmark that says how it is linked and run. Runtime and build time are measured while nothing else is done
in this worker, and while no other worker on this machine measures on the same core.
"""

import struct
from collections.abc import Callable
from typing import Any

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.observations.observation import Observation, Subject, count
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.execution import measuring_core
from aiocg.workers.programs.linking import remaining
from aiocg.workers.programs.recipe import LinkError, failure

TEXT_SIZE = "TextSizeBytes"


def _text_size_of(choose: Callable[[Subject], State]) -> Callable[[Subject], int]:
    def compute(subject: Subject) -> int:
        return subject.engine.builder.text_size(choose(subject), subject.benchmark.program, subject.deadline)

    return compute


def _at(level: str) -> Callable[[Subject], State]:
    return lambda subject: subject.benchmark.at(level)


def _has_recipe(subject: Subject) -> bool:
    return subject.engine.builder.can_build(subject.benchmark.program)


def _has_runs(subject: Subject) -> bool:
    return _has_recipe(subject) and bool(subject.benchmark.program and subject.benchmark.program.runs)


def _is_buildable(subject: Subject) -> int:
    if not _has_recipe(subject):
        return 0
    try:
        subject.engine.builder.build(subject.state, subject.benchmark.program, subject.deadline)
    except (LinkError, LlvmError):
        remaining(subject.deadline)  # for want of time is another matter
        return 0
    return 1


def _is_runnable(subject: Subject) -> int:
    return int(_has_runs(subject) and bool(_is_buildable(subject)))


def _build_times(subject: Subject) -> Array:
    if not _has_recipe(subject):
        return _seconds([])
    build = subject.engine.builder.time
    with measuring_core(subject.deadline):
        return _seconds(
            [
                build(subject.state, subject.benchmark.program, subject.deadline)
                for _ in range(subject.parameters.buildtimes)
            ]
        )


def _run_times(subject: Subject) -> Array:
    program, parameters = subject.benchmark.program, subject.parameters
    if program is None or not _has_runs(subject):
        return _seconds([])
    run = program.run(parameters.measured_run)
    executable = subject.engine.builder.build(subject.state, program, subject.deadline)
    times = []
    with measuring_core(subject.deadline) as core:
        for _ in range(parameters.warmups + parameters.runtimes):
            with subject.engine.runner.run(executable.path, run, subject.deadline, core) as ended:
                if problem := ended.problem():
                    raise failure(f"the run {run.name!r} {problem}")
                times.append(ended.seconds)
    return _seconds(times[parameters.warmups :])


def _execution(subject: Subject) -> list[dict[str, Any]]:
    program = subject.benchmark.program
    if program is None or not _has_runs(subject):
        return []
    executable = subject.engine.builder.build(subject.state, program, subject.deadline)
    results = []
    for run in program.runs:
        with subject.engine.runner.run(executable.path, run, subject.deadline) as ended:
            results.append(ended.describe())
    return results


def _seconds(values: list[float]) -> Array:
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def _flag(name: str, description: str, compute: Callable[[Subject], int]) -> Observation:
    spec = ObservationSpec(name, "integer", description, low=0, high=1, default=0, platform_dependent=True)
    return Observation(spec, compute)


def _times(name: str, description: str, compute: Callable[[Subject], Array]) -> Observation:
    spec = ObservationSpec(
        name,
        "array",
        description,
        "float64",
        (-1,),
        low=0,
        deterministic=False,
        platform_dependent=True,
        default=_seconds([]),
    )
    return Observation(spec, compute)


OBSERVATIONS = (
    count(
        TEXT_SIZE,
        "Bytes of code and read-only data in the linked program, with what is linked to it.",
        _text_size_of(lambda subject: subject.state),
        platform=True,
    ),
    *(
        count(f"TextSize{level}", f"TextSizeBytes {what}.", _text_size_of(_at(level)), platform=True)
        for level, what in (
            ("O0", "of the program as it came"),
            ("O3", "after default<O3>"),
            ("Oz", "after default<Oz>"),
        )
    ),
    _flag("IsBuildable", "1 if the program can be linked as the benchmark says.", _is_buildable),
    _flag("IsRunnable", "1 if the benchmark can be built and says how it is run.", _is_runnable),
    _times("Buildtime", "Seconds that generating machine code and linking take, for each build.", _build_times),
    _times(
        "Runtime",
        "Seconds that the program takes, for each run; an error if one does not do what is expected of it.",
        _run_times,
    ),
    Observation(
        ObservationSpec(
            "Execution",
            "json",
            "How each run of the program ended and what it wrote.",
            platform_dependent=True,
            default=[],
        ),
        _execution,
    ),
)
