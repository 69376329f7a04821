"""The program as statements of inst2vec's dictionary."""

import functools

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.observations.observation import Observation, Subject


def _statements(subject: Subject, llvm: int = 6) -> list[str]:
    from aiocg.workers.llvm.inst2vec import statements  # its regular expressions are slow to compile

    return statements(subject.engine.text(subject.state), llvm)


OBSERVATIONS = (
    Observation(
        ObservationSpec(
            "Inst2vecPreprocessedText",
            "texts",
            "The statements of the program, without names and values, as inst2vec's dictionary has them.",
            default=[],
        ),
        _statements,
    ),
    Observation(
        ObservationSpec(
            "Inst2vecPreprocessedTextLlvm10",
            "texts",
            "The same of LLVM 10's text of the program, labels included, as CompilerGym has it.",
            default=[],
        ),
        functools.partial(_statements, llvm=10),
    ),
)
