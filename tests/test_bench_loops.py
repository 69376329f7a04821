"""What `python -m bench.loops` measures computes what it should, and its plot is made of what is stored."""

from pathlib import Path

import pytest

from aiocg.workers.loops.cpu.target import CpuTarget

ROOT = Path(__file__).resolve().parents[1]

with pytest.MonkeyPatch.context() as patch:  # `bench` is not installed, and is run in the root of the checkout
    patch.syspath_prepend(str(ROOT))
    from bench.loops import schedules, sweep
    from bench.loops.sides import NumPy, Ours

STORED = ROOT / "docs" / "performance" / "loops"


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


def test_both_sides_take_time() -> None:
    target = CpuTarget(1)
    with NumPy(1) as numpy:
        for kind in ("matmul", "rows", "softmax"):
            assert 0 < numpy.seconds(kind, 64, 0.01, 2) < 10
    ours = Ours(target, schedules.rows_summed(64, 1, 4))
    assert 0 < ours.seconds(0.01, 2) < 10
    assert ours.flops == 64 * 64


def test_the_stored_sweep_is_what_is_drawn(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    (tmp_path / sweep.STORED).write_bytes((STORED / sweep.STORED).read_bytes())
    drawn = sweep.draw(tmp_path).read_text()
    stored = (STORED / sweep.PLOT).read_text()
    version = f"matplotlib {matplotlib.__version__}"
    if version not in stored:
        pytest.skip(f"the stored plot was not drawn by {version}")
    assert drawn == stored
