"""Pipelined loops: what the next turn reads is copied while a turn is computed, and nobody reads it too early."""

import subprocess
from typing import Any

import pytest

from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops.cuda.target import Program

from . import cuda_schedules as written
from . import sass
from .emulation import mismatch

PRODUCT = "C[i:16, j:16] = sum(k:64) A[i, k] * B[k, j]"


def product(n: int, m: int, k: int, more: str = "pipeline<loop=4>") -> Schedule:
    return written.register_matmul(n, m, k, tile=8, each=2, depth=4, more=more)  # type: ignore[no-any-return]


def around() -> Schedule:
    """Return a schedule in which each thread goes three times through a pipelined loop of three turns."""
    steps = """
        reorder<loop=0> bind<loop=0;to=thread.x> split<loop=2;factor=4> stage<loop=2;tensor=0> pipeline<loop=2>
    """
    return written.scheduled("S[o:3, i:4] = sum(k:12) A[o, k] * V[i]", steps)  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(product(16, 16, 16), id="whole tiles"),
        pytest.param(product(21, 18, 13), id="remainders, in vectors of two"),
        pytest.param(product(21, 19, 15), id="remainders, element by element"),
        pytest.param(product(16, 16, 8, more=""), id="not pipelined"),
        pytest.param(around(), id="a loop around it"),
        pytest.param(written.warp_matmul(130, 129, 20), id="tiles of warps"),
    ],
)
def test_pipelined_loops_compute_the_same(emulator: Any, race_detector: Any, schedule: Schedule) -> None:
    assert mismatch(emulator, schedule) is None
    assert mismatch(race_detector, schedule) is None


def without(program: Program, text: str, *, last: bool = False) -> Program:
    """Return a program without the first, or the last, occurrence of a text."""
    before, found, after = (program.source.rpartition if last else program.source.partition)(text)
    assert found
    return program._replace(source=before + after)


@pytest.mark.slow
def test_a_copy_that_nobody_waits_for_would_be_found(emulator: Any) -> None:
    schedule = product(16, 16, 16)
    broken = without(written.program(schedule), "        finish_copies();\n")
    assert mismatch(emulator, schedule, broken) is not None


@pytest.mark.slow
def test_a_tile_that_is_filled_while_it_is_read_would_be_found(race_detector: Any) -> None:
    schedule = product(16, 16, 16)
    program = written.program(schedule)
    for broken in (
        without(program, "__syncthreads();"),
        program._replace(source=program.source.replace("(k_0 + 1) % 2 *", "k_0 % 2 *")),
    ):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            mismatch(race_detector, schedule, broken)
        assert b"data race" in caught.value.stderr


@pytest.mark.slow
def test_the_barrier_before_a_pipelined_loop_inside_of_another_is_needed(race_detector: Any) -> None:
    schedule = around()
    program = written.program(schedule)
    assert program.source.count("__syncthreads();") == 2
    with pytest.raises(subprocess.CalledProcessError) as caught:
        mismatch(race_detector, schedule, without(program, "__syncthreads();"))
    assert b"data race" in caught.value.stderr


def test_a_loop_is_pipelined_only_where_something_is_staged() -> None:
    schedule = written.scheduled(PRODUCT, "split<loop=2;factor=8>")
    with pytest.raises(Refusal, match=r"nothing is staged in k\.0, which therefore cannot be pipelined"):
        schedule.apply(Step("pipeline", 2))
    staged = schedule.apply(Step("stage", 2, 0))
    pipelined = staged.apply(Step("pipeline", 2))
    assert "k.0:8 pipelined" in pipelined.text
    assert pipelined.apply(Step("serial", 2)) == staged
    assert pipelined.apply(Step("stage", 2, 1)) == staged.apply(Step("stage", 2, 1)).apply(Step("pipeline", 2))


def test_a_pipelined_loop_has_two_tiles_of_each_tensor() -> None:
    once, twice = (written.register_matmul(512, 512, 512, more=more) for more in ("", "pipeline<loop=4>"))
    assert "float B_tile[1024];" in written.program(once).source
    assert "float B_tile[2048];" in written.program(twice).source
    staged = written.scheduled("S[i:8] = sum(k:40000) A[i, k]", "stage<loop=0;tensor=0>")
    with pytest.raises(Refusal, match="the tiles would have 320000 bytes"):
        staged.apply(Step("pipeline", 0))


@pytest.mark.parametrize(("architecture", "copies"), [("compute_75", 0), ("compute_80", 4), ("compute_90", 4)])
def test_copies_go_on_while_a_thread_computes_from_compute_capability_8_on(
    nvrtc: Any, architecture: str, copies: int
) -> None:
    source = written.program(written.register_matmul(500, 500, 500, more="pipeline<loop=4>")).source
    ptx = nvrtc.compile(source, architecture).decode()
    assert ptx.count("cp.async.cg.shared.global") == copies
    assert ptx.count("cp.async.wait_all") == bool(copies)
    assert ptx.count("bar.sync") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "name"), [(500, r"LDGSTS\.E\.BYPASS\.128"), (510, r"LDGSTS\.E\.64"), (511, r"LDGSTS\.E")]
)
def test_pipelined_copies_pass_no_register(nvrtc: Any, size: int, name: str) -> None:
    source = written.program(written.register_matmul(size, size, size, more="pipeline<loop=4>")).source
    code = sass.read(nvrtc.compile(source, "sm_90"))
    assert code.count("LDG.*") - code.count("LDGSTS.*") - code.count("LDGDEPBAR") == 0
    assert code.count("STS.*") == 0
    assert code.count("LDGSTS.*") == code.count(name) == 2 * 2 * 4 // {0: 4, 2: 2}.get(size % 4, 1)
    assert code.count("FFMA.*") == 256
    assert code.count(r"LDS\.128") == 32
    assert code.count(r"BAR\..*") == 1
