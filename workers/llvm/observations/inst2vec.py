"""The program as statements of inst2vec's dictionary."""

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.observations.observation import Observation, Subject


def _statements(subject: Subject) -> list[str]:
    from aiocg.workers.llvm.inst2vec import statements  # its regular expressions are slow to compile

    return statements(subject.engine.text(subject.state))


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
)
