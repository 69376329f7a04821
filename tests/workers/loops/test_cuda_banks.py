"""Tiles lie in shared memory so that a warp's threads do not wait for each other, and may be larger than 48 KiB."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops._rules import RULES
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops.cuda._copies import turns
from aiocg.workers.loops.cuda.target import _generate
from aiocg.workers.loops.session import LoopsSession, initial_schedule

from . import cuda_schedules as written
from .emulation import check

DEEP = """
    split<loop=0;factor=8> split<loop=2;factor=8> reorder<loop=1> split<loop=4;factor=800>
    bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
    stage<loop=4;tensor=0>
"""


def read_by_a_warp(schedule: Schedule, tile: str, threads: tuple[int, int]) -> list[int]:
    """Return the word of a tile that each thread of a warp reads first, by the formula in the kernel."""
    source = written.program(schedule).source
    formula = re.findall(rf"{tile}\[([^]]*)\]", source)[-1]
    names = {name: f"({value})" for name, value in re.findall(r"const int (\w+) = (.*);", source)}
    while found := next((name for name in names if re.search(rf"\b{name}\b", formula)), None):
        formula = re.sub(rf"\b{found}\b", names[found], formula)
    y, x = threads
    found = []
    for thread in range(32):
        spelled = formula.replace("threadIdx.x", str(thread % x)).replace("threadIdx.y", str(thread // x % y))
        found.append(eval(re.sub(r"\b[a-z]\w*\b", "0", spelled).replace("/", "//")))
    return found


def test_words_in_one_bank_are_read_one_after_another() -> None:
    assert turns(range(32), 1) == 1
    assert turns([7] * 32, 1) == 1  # all threads share a word
    assert turns(range(0, 64, 2), 1) == 2
    assert turns(range(0, 32 * 32, 32), 1) == 32
    assert turns(range(0, 32 * 33, 33), 1) == 1
    assert turns(range(0, 128, 4), 4) == 4


@pytest.mark.parametrize(
    ("schedule", "tile", "threads", "length"),
    [
        pytest.param(written.register_matmul(512, 512, 512), "A_tile", (16, 16), 4, id="rows of A"),
        pytest.param(written.register_matmul(512, 512, 512, depth=32), "A_tile", (16, 16), 4, id="long rows of A"),
        pytest.param(written.matmul(512, 512, 512, tile=32, depth=32), "B_tile", (32, 32), 1, id="rows of B"),
        pytest.param(written.warp_matmul(512, 512, 512), "B_tile", (4, 8), 4, id="rows of B in a tile of a warp"),
        pytest.param(written.columns(512), "A_tile", (8, 32), 1, id="columns"),
    ],
)
def test_a_warp_reads_a_tile_in_a_single_turn(
    schedule: Schedule, tile: str, threads: tuple[int, int], length: int
) -> None:
    assert turns(read_by_a_warp(schedule, tile, threads), length) == 1


def test_rows_are_no_longer_than_what_that_takes() -> None:
    assert "float A_tile[1280];" in written.program(written.register_matmul(512, 512, 512)).source  # 64 x 20
    assert "float B_tile[1024];" in written.program(written.register_matmul(512, 512, 512)).source  # 16 x 64
    assert "float A_tile[1056];" in written.program(written.columns(512)).source  # 32 x 33


def test_rows_are_not_longer_where_tiles_would_not_fit_then() -> None:
    schedule = written.columns(512)
    rules = RULES["cuda"]._replace(shared_memory=32 * 32 * 4)
    assert "float A_tile[1024];" in _generate(schedule.computation, schedule.nests, rules).source


@pytest.mark.every_case
@pytest.mark.slow
def test_longer_rows_hold_the_same(emulator: Any) -> None:
    for schedule in (
        written.columns(130),
        written.register_matmul(37, 35, 33, tile=32, each=4, depth=16),
    ):
        check(emulator, schedule)


def test_a_kernel_asks_for_shared_memory_above_48_kib() -> None:
    (call,) = written.program(written.deep_matmul(9, 10, 1001)).calls
    assert call.shared >= 8 * 800 * 4 * 2
    source = written.program(written.deep_matmul(9, 10, 1001)).source
    assert f"<<<dim3(2, 2, 1), dim3(8, 8, 1), {call.shared}>>>" in source
    assert "extern __shared__ __align__(16) float shared[];" in source
    (call,) = written.program(written.register_matmul(512, 512, 512)).calls
    assert call.shared == 0


@pytest.mark.slow
def test_tiles_above_48_kib_hold_the_same(emulator: Any) -> None:
    check(emulator, written.deep_matmul(9, 10, 1001))


def test_how_large_tiles_may_be_depends_on_the_device() -> None:
    small = RULES["cuda"]._replace(shared_memory=50_000)
    before = replace(written.scheduled("C[i:9, j:10] = sum(k:1001) A[i, k] * B[k, j]", DEEP), rules=small)
    with pytest.raises(Refusal, match=r"the tiles would have 51200 bytes, and a block shares 50000"):
        before.apply(Step("stage", 4, 1))
    with pytest.raises(CompilationError, match="50000"):
        _generate(written.deep_matmul(9, 10, 1001).computation, written.deep_matmul(9, 10, 1001).nests, small)
    large = "B[i:8, k:40000] = A[i, 0] + V[k]"
    with pytest.raises(Refusal, match="160000 bytes"):
        replace(written.scheduled(large, ""), rules=small).apply(Step("stage", 0, 1))
    written.scheduled(large, "stage<loop=0;tensor=1>")


def test_a_session_refuses_tiles_that_its_device_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def staged(shared_memory: int) -> bool:
        target = SimpleNamespace(rules=RULES["cuda"]._replace(shared_memory=shared_memory))
        monkeypatch.setitem(LoopsSession._devices, "cuda", SimpleNamespace(target=target))
        session = LoopsSession(initial_schedule(b"B[i:8, k:40000] = A[i, 0] + V[k]", "cuda"))
        return session.apply_action("stage<loop=0;tensor=1>")

    monkeypatch.setattr(LoopsSession, "target", "cuda")
    assert staged(163 * 1024)  # of compute capability 8.0
    assert not staged(99 * 1024)  # of 8.6
