"""Roofs are measured once, and files that are broken do no harm."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.workers.loops._device_lock import remembered
from aiocg.workers.loops._target import Roof
from aiocg.workers.loops.cpu import target as cpu_target
from aiocg.workers.loops.cpu.target import CpuTarget

ROOF = Roof(1e9, ((1024, 5e9), (2048, 2.5e9)))


def _counted(roof: Roof = ROOF) -> tuple[list[int], Callable[[], Roof]]:
    calls: list[int] = []

    def measure() -> Roof:
        calls.append(1)
        return roof

    return calls, measure


def test_measured_once_for_each_key(tmp_path: Path) -> None:
    calls, measure = _counted()
    folder = tmp_path / "new"
    assert [remembered(folder, {"threads": 1, "cpu": "a"}, measure) for _ in range(3)] == [ROOF] * 3
    assert remembered(folder, {"cpu": "a", "threads": 1}, measure) == ROOF
    assert len(calls) == 1
    remembered(folder, {"threads": 2, "cpu": "a"}, measure)
    assert len(calls) == 2
    assert len(list(folder.iterdir())) == 2


def test_without_a_folder_nothing_is_remembered() -> None:
    calls, measure = _counted()
    assert remembered(None, {}, measure) == remembered(None, {}, measure) == ROOF
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"key": {"cpu": "a"}}', "half", "nan", "negative", "other"])
def test_a_broken_file_is_written_anew(tmp_path: Path, damage: str) -> None:
    key = {"cpu": "a"}
    remembered(tmp_path, key, lambda: ROOF)
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    damaged = {
        "half": whole[: len(whole) // 2],
        "nan": whole.replace("1000000000.0", "NaN"),
        "negative": whole.replace("2500000000.0", "-1"),
        "other": whole.replace('"a"', '"b"'),
    }.get(damage, damage)
    assert damaged != whole
    path.write_text(damaged)
    calls, measure = _counted()
    assert remembered(tmp_path, key, measure) == ROOF
    assert len(calls) == 1
    assert path.read_text() == whole


def test_where_nothing_can_be_written_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert remembered(tmp_path / "file", {"cpu": "a"}, lambda: ROOF) == ROOF


@pytest.mark.few(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_processor_is_measured_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    for name, value in {"SECONDS": 0.002, "SAMPLES": 2, "MOST": 1 << 18, "SMALLEST": 1 << 12}.items():
        monkeypatch.setattr(cpu_target, name, value)
    roof = CpuTarget(threads=threads, cache_dir=tmp_path).roof()
    sizes = [size for size, _ in roof.bandwidths]
    assert sizes == sorted(sizes) and len(sizes) > 3
    assert 1e8 < roof.flops < 1e14
    assert all(1e6 < rate < 1e14 and math.isfinite(rate) for _, rate in roof.bandwidths)
    monkeypatch.setattr(cpu_target, "SAMPLES", 0)  # measuring again would fail
    assert CpuTarget(threads=threads, cache_dir=tmp_path).roof() == roof
