"""What `python -m bench.loops` measures computes what it should, and its plot is made of what is stored."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import expect, random_inputs
from aiocg.workers.loops.cpu.target import CpuTarget
from bench.loops import schedules, searches, sweep
from bench.loops.naive import Naive
from bench.loops.sides import NUMPY, NumPy, Ours
from bench.measure import Effort

ROOT = Path(__file__).resolve().parents[1]


STORED = ROOT / "docs" / "performance" / "loops"


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_schedules_are_legal_and_right(threads: int) -> None:
    target = CpuTarget(threads)
    for text in (schedules.ADD, schedules.COPY):
        Ours(target, schedules.streaming(text.format(6144), threads, 16, 4))
    Ours(target, schedules.rows_summed(300, threads, 16))
    Ours(target, schedules.softmax(130, threads, 16))
    products = list(schedules.products(150, threads, 16))
    assert len(products) > 40
    for _, schedule in products[::11]:
        Ours(target, schedule)


@pytest.mark.slow
def test_both_sides_take_time() -> None:
    ours = Ours(CpuTarget(1), schedules.rows_summed(64, 1, 4))
    with NumPy(1) as numpy:
        assert all(0 < seconds < 10 for seconds in numpy.seconds(NUMPY["rows"], ours.tensors, 0.01, 2))
    assert 0 < ours.seconds(0.01, 2) < 10 and 0 < ours.processor_seconds(0.01, 2) < 10
    assert ours.flops == 64 * 64


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("name", searches.SUBJECTS)
def test_numpy_and_c_compute_what_a_schedule_is_searched_for(name: str, tmp_path: Path) -> None:
    subject = searches.SUBJECTS[name]
    computation = parse(subject.benchmark.content)
    Naive(computation, tmp_path)  # which compares what it computes
    inputs = random_inputs(computation)
    arrays = {one.name: array for one, array in zip(computation.inputs, inputs, strict=True)}
    expected = expect(computation, inputs)[-1].values
    result = arrays[computation.stages[-1].tensor] = np.zeros_like(expected)
    exec(subject.numpy, {"np": np, **arrays})
    assert np.allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_a_search_finds_is_measured_beside_the_others() -> None:
    results = searches.measure_searches(Effort(quick=True), 1.0, ["16 matmuls of 128"])
    assert [row.what.rpartition(": ")[2] for row in results.rows] == [
        "speed", "to NumPy, by the clock", "to NumPy, processor", "to gcc -O3, processor"
    ]  # fmt: skip
    assert all(row.value.median > 0 for row in results.rows) and "16 matmuls of 128: " in results.notes[-1]


@pytest.mark.slow
def test_the_stored_sweep_is_what_is_drawn(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    (tmp_path / sweep.STORED).write_bytes((STORED / sweep.STORED).read_bytes())
    drawn = sweep.draw(tmp_path).read_text()
    stored = (STORED / sweep.PLOT).read_text()
    version = f"matplotlib {matplotlib.__version__}"
    if version not in stored:
        pytest.skip(f"the stored plot was not drawn by {version}")
    assert drawn == stored


@pytest.mark.slow  # tests/loops/test_environment.py has the message
def test_without_a_gpu_it_is_said_what_is_missing() -> None:
    pytest.importorskip("torch")
    line = [sys.executable, "-m", "bench.loops", "--search", "1", "--cuda", "--only", "add, 2^26"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stdout.startswith("schedules for GPUs are not measured here: CUDA needs an NVIDIA GPU")
