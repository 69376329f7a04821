"""Observations of the size of the program's machine code."""

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.observations.levels import BASELINES, sizes
from aiocg.workers.llvm.observations.observation import Observation, Subject
from aiocg.workers.llvm.size_attributes import Attributes
from aiocg.workers.llvm.states import State


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


OBSERVATIONS = (
    Observation(
        ObservationSpec("ObjectFile", "binary", "The program as an object file.", platform_dependent=True, default=b""),
        lambda subject: subject.engine.code.object_file(subject.state),
    ),
    Observation(
        ObservationSpec("Assembly", "text", "The program as assembly.", platform_dependent=True, default=""),
        lambda subject: subject.engine.code.assembly(subject.state),
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
