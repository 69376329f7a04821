"""Machine code of generated kernels: as many instructions of each kind as the loops call for."""

import re
from pathlib import Path
from typing import Any

import pytest

from aiocg.workers.loops._schedule import Schedule

from . import cuda_schedules as written
from . import sass

HERE = Path(__file__)


@pytest.fixture(autouse=True, scope="module")
def _disassembler() -> None:
    sass.disassembler()  # or the tests are skipped


def code(nvrtc: Any, schedule: Schedule) -> Any:
    return sass.read(nvrtc.compile(written.program(schedule).source, "sm_90"))


@pytest.mark.slow
@pytest.mark.parametrize("size", [500, 512, 511])
def test_a_product_of_any_size_has_vector_loads_and_no_guard_around_a_multiply_add(nvrtc: Any, size: int) -> None:
    found = code(nvrtc, written.register_matmul(size, size, size))
    assert found.count("FFMA.*") == 4 * 4 * 16
    assert found.count(r"LDS\.128") == (4 + 4) * 16 // 4
    assert found.count("LDS") == 0
    assert found.count(r".*SETP\..*") < 50
    assert found.count(r"BAR\..*") == 2


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "pattern"), [(512, r"\.E\.128.*"), (500, r"\.E\.128.*"), (510, r"\.E\.64.*"), (511, r"\.E(\.CONSTANT)?")]
)
def test_rows_of_an_even_length_are_copied_and_stored_by_vectors(nvrtc: Any, size: int, pattern: str) -> None:
    found = code(nvrtc, written.register_matmul(size, size, size))
    length = {0: 4, 2: 2}.get(size % 4, 1)
    assert found.count("LDG.*") == found.count(f"LDG{pattern}") == 2 * 4 // length
    assert found.count("STG.*") == found.count(f"STG{pattern}") == 16 // length


@pytest.mark.slow
@pytest.mark.parametrize("size", [512, 500])
def test_a_tile_of_a_warp_has_twice_as_many_multiply_adds_for_what_it_loads(nvrtc: Any, size: int) -> None:
    found = code(nvrtc, written.warp_matmul(size, size, size))
    assert found.count("FFMA.*") == 8 * 8 * 8
    assert found.count("LDS.*") == found.count(r"LDS\.128") == (8 + 8) * 8 // 4
    assert found.count(r"LDGSTS\.E\.BYPASS\.128") == found.count("LDGSTS.*") == 2 * 2
    assert found.count("STG.*") == found.count(r"STG\.E\.128") == 8 * 8 // 4
    assert found.count("(LDL|STL).*") == 0
    assert found.registers <= 128


@pytest.mark.slow
def test_neighbours_that_a_thread_adds_are_vectors(nvrtc: Any) -> None:
    found = code(nvrtc, written.neighbours(1 << 20))
    assert found.count(r"LDG\.E\.128\.CONSTANT") == found.count("LDG.*") == 2
    assert found.count(r"STG\.E\.128") == found.count("STG.*") == 1


@pytest.mark.slow
def test_the_page_shows_what_the_script_counts(nvrtc: Any) -> None:
    page = (HERE.parents[3] / "docs" / "loops_cuda.md").read_text(encoding="utf-8")
    shown = {
        cells[0]: cells[3:]
        for cells in (line.strip("| ").split(" | ") for line in page.splitlines())
        if len(cells) == 7
    }
    counted = sass.table(
        *(
            code(nvrtc, written.register_matmul(size, size, size, more=more))
            for more in ("", "pipeline<loop=4>")
            for size in (512, 500)
        )
    )
    for name, *cells in (line.strip("| ").split(" | ") for line in counted.splitlines()):
        if name in {kind for kind in sass.ROWS if re.match("multiply|shared|global|copies|barriers", kind)}:
            assert shown[name] == cells, name  # how many registers and comparisons there are depends on the compiler


@pytest.mark.slow
def test_the_table_names_each_kind_once(nvrtc: Any) -> None:
    rows = sass.table(code(nvrtc, written.register_matmul(500, 512, 512))).splitlines()
    assert "| multiply-adds | 256 |" in rows
    assert len({row.split("|")[1] for row in rows}) == len(rows)
