"""Observations of object code, and of the built program: its size, whether it can run, its run time and its behaviour.

Those of the built program need a benchmark with a recipe for linking and running it. While run time or build time is
measured, this worker does nothing else, and no other worker on this machine measures on the same core or, if that is
asked for, at all.
"""

from typing import Any

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import CompilationError, Observation
from aiocg.workers.llvm._attributes import Attributes
from aiocg.workers.llvm._codegen_options import options_of
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.observations._observation import BASELINES, Subject, sizes
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.execution import Start, measuring_core, run_all, run_times
from aiocg.workers.programs.linking import remaining
from aiocg.workers.programs.parameters import execution, time_values, times
from aiocg.workers.programs.recipe import LinkError, Program


def _image_size(subject: Subject, state: State, attributes: Attributes) -> int:
    """Return the stored bytes, and the zeroed ones beyond those of the baseline with the same mark.

    Data that is only zeroed takes no room in the image, but a program with more of it than -Oz leaves may hide in it
    what it computes at its start.
    """
    size = subject.engine.code.image_size(state, attributes)
    return size.stored + (max(0, size.zeroed - _zeroed_at_most(subject, attributes)) if size.zeroed else 0)


def _zeroed_at_most(subject: Subject, attributes: Attributes) -> int:
    """Return the zeroed bytes of the baseline or, if that has no code, of the program as it came."""
    try:
        baseline = subject.benchmark.at(BASELINES[attributes])
        return subject.engine.code.image_size(baseline, attributes).zeroed
    except (CompilationError, LlvmError):
        return subject.engine.code.image_size(subject.benchmark.initial, attributes).zeroed


_OF_OBJECT_CODE = (
    Observation.of(
        "ObjectFile",
        "binary",
        "The program as an object file.",
        lambda subject: subject.engine.code.object_file(subject.state),
        platform_dependent=True,
    ),
    Observation.of(
        "Assembly",
        "text",
        "The program as assembly.",
        lambda subject: subject.engine.code.assembly(subject.state),
        platform_dependent=True,
    ),
    Observation.of(
        "CodegenOptions",
        "texts",
        "The options of LLVM's code generator that the program carries, as `clang -mllvm -NAME=VALUE` takes them.",
        lambda subject: options_of(subject.engine.module(subject.state)),
    ),
    *sizes(
        "ObjectImageSize",
        "Bytes that the object file brings into an image: code, constants, initialised data, padding, unwind tables "
        "and relocations for the loader, and zero-initialised data as far as there is more than in the -Oz baseline",
        _image_size,
    ),
    *sizes(
        "ObjectBssSize",
        "Bytes of zero-initialised data of the object file",
        lambda subject, state, attributes: subject.engine.code.image_size(state, attributes).zeroed,
    ),
    *sizes(
        "ObjectTextSize",
        "Bytes of code and read-only data in the object file, the text column of llvm-size as in CompilerGym; moving "
        "constants into writable data lowers it",
        lambda subject, state, attributes: subject.engine.code.text_size(state, attributes),
    ),
)


def _text_size(subject: Subject, state: State, attributes: Attributes) -> int:
    return subject.engine.builder.text_size(state, subject.benchmark.program, subject.deadline, attributes)


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
        remaining(subject.deadline)  # a timeout is reported as such
        return 0
    return 1


def _build_times(subject: Subject) -> Array:
    if not _has_recipe(subject):
        return time_values([])
    build = subject.engine.builder.time
    with measuring_core(subject.deadline, alone=bool(subject.parameters.alone)):
        return time_values(
            [
                build(subject.state, subject.benchmark.program, subject.deadline)
                for _ in range(subject.parameters.buildtimes)
            ]
        )


def _run_times(subject: Subject) -> Array:
    program, parameters = subject.benchmark.program, subject.parameters
    if program is None or not _has_runs(subject):
        return time_values([])
    run = program.run(parameters.measured_run)
    return time_values(run_times(_starting(subject, program), run, parameters, subject.deadline))


def _execution(subject: Subject) -> list[dict[str, Any]]:
    program = subject.benchmark.program
    if program is None or not _has_runs(subject):
        return []
    return run_all(_starting(subject, program), program)


def _starting(subject: Subject, program: Program) -> Start:
    runner, deadline = subject.engine.runner, subject.deadline
    path = subject.engine.builder.build(subject.state, program, deadline).path
    return lambda run, core: runner.run(path, run, deadline, core)


OBSERVATIONS = (
    *_OF_OBJECT_CODE,
    *sizes("TextSize", "Bytes of code and read-only data in the linked program, with what is linked to it", _text_size),
    Observation.integer(
        "IsBuildable",
        "1 if the program can be linked as the benchmark says.",
        _is_buildable,
        high=1,
        platform_dependent=True,
    ),
    Observation.integer(
        "IsRunnable",
        "1 if the benchmark can be built and says how it is run.",
        lambda subject: int(_has_runs(subject) and bool(_is_buildable(subject))),
        high=1,
        platform_dependent=True,
    ),
    times("Buildtime", "Seconds that generating machine code and linking take, for each build.", _build_times),
    times(
        "Runtime",
        "Seconds that the program takes, for each run; an error if one does not do what is expected of it.",
        _run_times,
    ),
    execution("Execution", _execution),
)
