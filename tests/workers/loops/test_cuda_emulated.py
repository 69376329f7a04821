"""Generated CUDA C computes what it should: on the processor, a thread for each thread of a block.

Sanitizers watch: an element outside of a tensor or of a tile, an index that overflows, and a barrier that not all
threads come to end the program; in some tests also an access that no barrier keeps apart from another.
"""

import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops.cuda.target import SOURCE, _generate

from . import cuda_schedules as written
from . import strategies
from .emulation import check

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(written.pointwise(1003, threads=32), id="a remainder"),
        pytest.param(written.register_matmul(21, 18, 13, tile=8, each=2, depth=4), id="tiles and registers"),
        pytest.param(written.transpose(13, 22, tile=8, rows=2), id="a tile, transposed", marks=pytest.mark.slow),
        pytest.param(written.softmax(11, 33, threads=8), id="several stages"),
        pytest.param(written.rows(7, 50, threads=11, reducer="max"), id="threads that share a row"),
        pytest.param(written.column_sums(50, 21, threads=8, sharing=3), id="threads that share a column"),
        pytest.param(written.split_sums(6, 7, 70, threads=8), id="tiles and shared sums"),
        pytest.param(
            written.scheduled("B[i:300] = max(j:5) A[i, j]", "reorder<loop=0>"),
            id="no accumulators",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            written.scheduled(
                "Y[o:5, y:9, x:10] = sum(c:3, r:3, s:3) X[c, y + r, x + s] * W[o, c, r, s]",
                """
                bind<loop=0;to=block.x> split<loop=1;factor=4> split<loop=3;factor=4> reorder<loop=2>
                bind<loop=1;to=block.z> bind<loop=2;to=block.y> bind<loop=3;to=thread.y> bind<loop=4;to=thread.x>
                stage<loop=5;tensor=0> stage<loop=5;tensor=1> unroll<loop=6> unroll<loop=7>
                """,
            ),
            id="a convolution",
        ),
    ],
)
def test_what_people_write(emulator: Any, schedule: Schedule) -> None:
    check(emulator, schedule)


@pytest.mark.slow
def test_barriers_keep_the_copies_of_a_tile_apart_from_its_uses(race_detector: Any) -> None:
    schedule = written.matmul(9, 10, 11, tile=4, depth=4)
    check(race_detector, schedule)
    program = _generate(schedule.computation, schedule.nests)
    before, after = program.source.split("__syncthreads();", 1)
    without_first = program._replace(source=before + after)
    last = program.source.rindex("__syncthreads();")
    without_last = program._replace(source=program.source[:last] + program.source[last + len("__syncthreads();") :])
    for broken in (without_first, without_last):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            check(race_detector, schedule, broken)
        assert b"data race" in caught.value.stderr


@pytest.mark.slow
def test_barriers_keep_what_threads_combine_apart(race_detector: Any) -> None:
    for schedule in (written.rows(5, 40, threads=8), written.split_sums(5, 7, 40, threads=4)):
        check(race_detector, schedule)
        program = _generate(schedule.computation, schedule.nests)
        kernel, _, last = program.source.rpartition("__syncthreads();")
        with pytest.raises(subprocess.CalledProcessError) as caught:
            check(race_detector, schedule, program._replace(source=kernel + last))
        assert b"data race" in caught.value.stderr


@pytest.mark.slow
def test_a_guard_around_a_barrier_would_be_found(emulator: Any) -> None:
    schedule = written.matmul(9, 10, 11, tile=4, depth=4)
    program = _generate(schedule.computation, schedule.nests)
    line = "for (int k_0 = 0; k_0 < 3; ++k_0) {"
    assert line in program.source
    with pytest.raises(subprocess.CalledProcessError) as caught:
        check(emulator, schedule, program._replace(source=program.source.replace(line, f"if (i < 9 && j < 10) {line}")))
    assert b"a thread was done when others came to a barrier" in caught.value.stderr


@pytest.mark.slow
def test_a_missing_guard_would_be_found(emulator: Any) -> None:
    schedule = written.pointwise(1003, threads=32)
    program = _generate(schedule.computation, schedule.nests)
    assert "if (i < 1003)" in program.source
    with pytest.raises(subprocess.CalledProcessError) as caught:
        check(emulator, schedule, program._replace(source=program.source.replace("if (i < 1003)", "")))
    assert b"heap-buffer-overflow" in caught.value.stderr


@pytest.mark.slow
def test_not_a_number_wins_against_every_number(emulator: Any) -> None:
    schedule = written.scheduled("M[i:2] = max(j:3) A[i, j]\nN[i:2] = min(M[i], B[i])", "")
    a = np.array([[1, np.nan, 3], [np.nan, 2, 1]], np.float32)
    program = _generate(schedule.computation, schedule.nests)
    most, least = emulator.run(schedule.computation, program, [a, np.zeros(2, np.float32)])
    assert np.isnan(most).all()
    assert np.isnan(least).all()


@pytest.mark.slow
def test_the_kernels_that_measure_a_device_do_what_they_should(emulator: Any) -> None:
    text = f"""
        {SOURCE}
        int main() {{
            float *from = shim::read(2048), *to = shim::read(2048), *result = shim::read(512);
            shim::launch({{2, 1, 1}}, {{256, 1, 1}}, [=] {{ copy((float4 *)from, (float4 *)to); }});
            shim::launch({{2, 1, 1}}, {{256, 1, 1}}, [=] {{ multiply_add(0.5f, 1.0f, result); }});
            shim::write(to, 2048), shim::write(result, 512), shim::write(from, 2048);
        }}
    """
    values = np.arange(2048, dtype=np.float32)
    zeros = np.zeros(2048 + 512, np.float32)
    copied, result = np.split(emulator.execute(text, values, zeros)[: 2048 + 512], [2048])
    np.testing.assert_array_equal(copied, values)
    np.testing.assert_allclose(result, 8 * 2.0)  # each of 8 chains comes to 2, which x / 2 + 1 leaves as it is


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(UNHURRIED, max_examples=6)
@given(schedule=strategies.schedules("cuda", most_steps=20))
def test_many_schedules_compute_the_same(emulator: Any, schedule: Schedule) -> None:
    check(emulator, schedule)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(UNHURRIED, max_examples=4)
@given(schedule=strategies.schedules("cuda", most_steps=20))
def test_no_schedule_races(race_detector: Any, schedule: Schedule) -> None:
    check(race_detector, schedule)
