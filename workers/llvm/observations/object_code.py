"""Observations of the size of the program's machine code."""

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.observations.levels import sizes
from aiocg.workers.llvm.observations.observation import Observation

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
        "ObjectTextSize",
        "Bytes of code and read-only data in the object file, the text column of llvm-size",
        lambda subject, state, attributes: subject.engine.code.text_size(state, attributes),
    ),
)
