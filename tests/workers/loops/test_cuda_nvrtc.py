"""NVIDIA's compiler takes what is generated, for two generations of devices. It needs no device for that."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops.cuda.target import SOURCE, _generate

from . import cuda_schedules as written
from . import strategies
from .nvrtc import Refused

ARCHITECTURES = ("compute_80", "compute_90")
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def examples() -> dict[str, Schedule]:
    return {
        "pointwise": written.pointwise(1 << 20),
        "remainder": written.pointwise(1000003),
        "matmul": written.matmul(512, 512, 512),
        "odd matmul": written.matmul(511, 300, 77),
        "registers": written.register_matmul(512, 512, 512),
        "odd registers": written.register_matmul(500, 500, 500),
        "transpose": written.transpose(100, 130),
        "softmax": written.softmax(100, 1000),
        "functions": written.scheduled(
            "B[i:9] = max(min(sqrt(A[i]), exp(A[i])), log(tanh(abs(-A[i])) / 3 - 1e-9))", ""
        ),
        "extremes": written.scheduled("B[i:9] = min(j:7) A[i, j]\nC[i:9] = max(j:7) A[i, j]", "reorder<loop=0>"),
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", examples())
def test_generated_source_becomes_ptx_without_a_warning(nvrtc: Any, name: str, architecture: str) -> None:
    program = written.program(examples()[name])
    ptx = nvrtc.compile(program.source, architecture).decode()
    assert f".target {architecture.replace('compute', 'sm')}" in ptx
    for call in program.calls:
        assert f".visible .entry {call.function}(" in ptx


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_that_measure_a_device_become_ptx(nvrtc: Any, architecture: str) -> None:
    ptx = nvrtc.compile(SOURCE, architecture).decode()
    assert "ld.global.nc.v4" in ptx
    assert "st.global.v4" in ptx
    assert ptx.count("fma.rn.ftz.f32") == 8 * 16


def test_accumulators_of_unrolled_loops_are_registers(nvrtc: Any) -> None:
    ptx = nvrtc.compile(written.program(written.register_matmul(512, 512, 512)).source, "compute_90").decode()
    assert ".local" not in ptx
    assert ptx.count("fma.rn.ftz.f32") == 4 * 4 * 16
    assert ptx.count("ld.shared.v4.f32") == (4 + 4) * 16 // 4  # what is staged is read once for a row or a column
    assert ptx.count("ld.shared") == (4 + 4) * 16 // 4
    assert ptx.count("bar.sync") == 2


def test_inputs_are_read_through_the_cache_for_what_does_not_change(nvrtc: Any) -> None:
    ptx = nvrtc.compile(written.program(written.pointwise(1 << 20)).source, "compute_90").decode()
    assert ptx.count("ld.global.nc.f32") == 2 * 4
    assert not re.search(r"ld\.global\.f32", ptx)


@pytest.mark.slow
def test_machine_code_fits_a_device_as_far_as_its_compiler_knows(nvrtc: Any) -> None:
    large = written.matmul(512, 512, 512, tile=32, depth=64)  # 1,024 threads
    for schedule in (large, written.register_matmul(512, 512, 512)):
        for architecture in ("sm_80", "sm_90"):
            code = nvrtc.compile(written.program(schedule).source, architecture)
            assert code[:4] == b"\x7fELF"


def test_the_compiler_refuses_what_is_wrong(nvrtc: Any) -> None:
    source = written.program(written.matmul(512, 512, 512)).source
    with pytest.raises(Refused, match="undefined"):
        nvrtc.compile(source.replace("float total = 0.0f;", ""), "compute_90")


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(UNHURRIED, max_examples=40)
@given(schedule=strategies.schedules("cuda", most_steps=20))
def test_many_schedules_become_machine_code(nvrtc: Any, schedule: Schedule) -> None:
    nvrtc.compile(_generate(schedule.computation, schedule.nests).source, "sm_90")
