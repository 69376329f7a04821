"""Observations of the size of the machine code that the program becomes."""

from collections.abc import Callable

from aiocg.workers.llvm.observations.observation import Subject, count

OBJECT_TEXT_SIZE = "ObjectTextSizeBytes"


def _text_size(subject: Subject) -> int:
    return subject.engine.code.text_size(subject.state)


def _text_size_at(level: str) -> Callable[[Subject], int]:
    def compute(subject: Subject) -> int:
        return subject.engine.code.text_size(subject.benchmark.at(level))

    return compute


OBSERVATIONS = (
    count(
        OBJECT_TEXT_SIZE,
        "Bytes of code and read-only data in the object file, the text column of llvm-size.",
        _text_size,
        platform=True,
    ),
    *(
        count(
            f"ObjectTextSize{level}",
            f"ObjectTextSizeBytes {what}.",
            _text_size_at(level),
            platform=True,
        )
        for level, what in (
            ("O0", "of the program as it came"),
            ("O3", "after default<O3>"),
            ("Oz", "after default<Oz>"),
        )
    ),
)
