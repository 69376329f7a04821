"""How `aiocg search` tells what it does and what it has found."""

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from aiocg.cli._search_report import compared, progress_line
from aiocg.search import Progress


@pytest.mark.parametrize(
    ("baseline", "found", "words"),
    [
        (100, 100, "as large as -Oz"),
        (297, 271, "8.8 % smaller than -Oz"),
        (100, 101, "1.0 % larger than -Oz"),
        (100, 199, "99.0 % larger than -Oz"),
        (280, 815, "2.9 times as large as -Oz"),
        (100, 0, "100.0 % smaller than -Oz"),
        (0, 0, "as large as -Oz"),
        (0, 5, "larger than -Oz"),
    ],
)
def test_sizes_are_compared_in_words_that_a_person_can_read(baseline: float, found: float, words: str) -> None:
    assert compared(baseline, found, "-Oz") == words


@pytest.mark.parametrize(
    ("seconds", "evaluations", "words"),
    [
        (600.0, None, "reward 1.0660  123.4 of 600 s  12345 evaluated, 100/s"),
        (None, 20_000, "reward 1.0660  123.4 s  12345 of 20000 evaluated, 100/s"),
        (None, None, "reward 1.0660  123.4 s  12345 evaluated, 100/s"),
        (60.0, None, "41.64 ms, -O3 44.21 ms  123.4 of 60 s  12345 evaluated, 100/s"),
    ],
)
def test_eighty_columns_have_room_for_the_best_the_time_and_the_budget(
    seconds: float | None, evaluations: int | None, words: str
) -> None:
    env: Any = SimpleNamespace(
        benchmark=SimpleNamespace(uri="benchmark://sdist-v0/a/very/long/path/to/a/source/file.c"),
        action_spaces=SimpleNamespace(language=SimpleNamespace(line=None)),
    )
    note = "" if words.startswith("reward") else "41.64 ms, -O3 44.21 ms"
    progress = Progress(("sroa",) * 12, 1.066, 0, 12345, 123.4, note)
    (segments,) = Console(width=80).render_lines(progress_line("portfolio", env, progress, seconds, evaluations))
    line = "".join(segment.text for segment in segments)
    assert line.startswith(f"portfolio  {words}") and len(line) <= 80
