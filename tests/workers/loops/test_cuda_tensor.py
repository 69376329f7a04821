"""Tensor cores: which loops they carry out, and that these compute the same but for their rounding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops._reference import compare, expect
from aiocg.workers.loops._rules import check
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops._targets import open_target
from aiocg.workers.loops.cuda.target import templates

from . import cuda_schedules as written
from . import sass, strategies
from .emulation import mismatch

PRODUCT = "C[i:{}, j:{}] = sum(k:{}) A[i, k] * B[k, j]"
TILES = "i:16=tensorize,j:8=tensorize,k:8=tensorize"
WARPS = f"i=block.y,j=block.x,i:2=thread.y,j:2=thread.z,k=pipeline@A@B,k:2=unroll,i:2=unroll,j:2=unroll,{TILES}"
ALONE = f"i=block.y,j=block.x,k,{TILES}"
CONVOLUTION = "Y[o:20, y:3, x:9] = sum(c:11, r:3, s:3) X[c, y + r, x + s] * W[o, c, r, s]"
FILTERS = "y=block.z,o=block.y,x=block.x,c=serial@X@W,r,s,o:16=tensorize,x:8=tensorize,c:8=tensorize"
GRAM = "G[b:3, i:33, j:17] = sum(k:19) X[b, i, k] * X[b, j, k]"
LAYERS = "H[i:40, j:64] = sum(k:16) X[i, k] * W[j, k]\nY[i:40, j:64] = max(H[i, j], 0)"


def product(n: int, m: int, k: int, layout: str = WARPS) -> Schedule:
    return written.laid_out(PRODUCT.format(n, m, k), layout)  # type: ignore[no-any-return]


SCHEDULES = [
    pytest.param(product(64, 32, 32), id="whole tiles"),
    pytest.param(product(67, 37, 21), id="remainders"),
    pytest.param(product(70, 38, 13, ALONE), id="remainders, read from the device's memory"),
    pytest.param(product(33, 34, 16, ALONE.replace("k,", "k=serial@A,")), id="one operand staged"),
    pytest.param(product(16, 8, 8, TILES), id="one instruction"),
    pytest.param(written.laid_out(CONVOLUTION, FILTERS), id="a convolution"),
    pytest.param(written.laid_out(GRAM, f"b=block.z,{ALONE}"), id="rows and columns of one tensor"),
    pytest.param(
        written.laid_out(LAYERS, f"i=block.x,j:2=thread.y,j,k,{TILES}", "i=join,j:2=thread.y,j:32=thread.x,i:16"),
        id="joined to another stage",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tensor_cores_compute_the_same(emulator: Any, race_detector: Any, schedule: Schedule) -> None:
    for runs in (emulator, race_detector):
        assert mismatch(runs, schedule) is None


@pytest.mark.every_case
@pytest.mark.slow
@settings(strategies.ALWAYS_THE_SAME, max_examples=4)
@given(schedule=strategies.on_tensor_cores(most=2))
def test_any_product_is_the_same_on_tensor_cores(emulator: Any, schedule: Schedule) -> None:
    assert mismatch(emulator, schedule) is None


def test_their_rounding_is_allowed_where_they_are_used_and_nowhere_else() -> None:
    computation = product(64, 32, 24).computation
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1, 1, tensor.shape).astype(np.float32) for tensor in computation.inputs]
    left, right = inputs
    results = [cut(left, 13) @ cut(right, 13)]
    assert compare(computation, results, expect(computation, inputs, {"C"})) is None
    assert "elements are wrong" in str(compare(computation, results, expect(computation, inputs)))
    narrower = [cut(left, 16) @ cut(right, 16)]  # bfloat16 has three bits less
    assert "elements are wrong" in str(compare(computation, narrower, expect(computation, inputs, {"C"})))


def cut(array: Any, bits: int) -> Any:
    """Return the nearest numbers that have so many bits less; ties go away from zero."""
    return (array.view(np.uint32) + (1 << (bits - 1)) >> bits << bits).view(np.float32)


@pytest.mark.parametrize("architecture", ["compute_80", "compute_90"])
def test_nvrtc_takes_what_tensor_cores_do(nvrtc: Any, architecture: str) -> None:
    for schedule in (product(1024, 1024, 1024), product(999, 1001, 77), product(999, 1001, 77, ALONE)):
        ptx = nvrtc.compile(written.program(schedule).source, architecture).decode()
        assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in ptx


@pytest.mark.slow
def test_each_operand_is_loaded_once_for_all_its_products(nvrtc: Any) -> None:
    code = sass.read(nvrtc.compile(written.program(product(1024, 1024, 1024)).source, "sm_90"))
    assert code.count(r"HMMA\.1688\.F32\.TF32") == 2 * 2 * 2  # steps of k, rows and columns
    assert code.count("LDS") == 2 * (2 * 4 + 2 * 2)
    assert code.count(r"STG\.E\.64") == 2 * 2 * 2


@pytest.mark.parametrize(
    ("text", "layout", "reason"),
    [
        (PRODUCT.format(64, 64, 64), "i,j,k,i:8=tensorize,j:8=tensorize,k:8=tensorize", "16, 8 and 8"),
        (PRODUCT.format(64, 64, 64), "i,j,k,i:16=tensorize,k:8=tensorize,j:8=tensorize", "reduced over"),
        (PRODUCT.format(64, 64, 64), f"i=block.x,j=thread.x,k,{TILES}", "lane of a warp"),
        (PRODUCT.format(64, 64, 64), f"k=thread.y,i,j,{TILES}", "share a sum"),
        (PRODUCT.format(64, 64, 64).replace("sum", "max"), f"i,j,k,{TILES}", "sums of products"),
        (PRODUCT.format(64, 64, 64) + " * 2", f"i,j,k,{TILES}", "sums of products"),
        ("C[i:64, j:64] = sum(k:64) A[i, k] * B[i, j]", f"i,j,k,{TILES}", "both factors depend"),
        (PRODUCT.format(2048, 64, 64), f"i=block.x,i:40=thread.y,j,k,{TILES}", "1280 threads"),
        (PRODUCT.format(512, 512, 64), f"k,i:9,j:9,i,j,{TILES}", "at most 256 results"),
    ],
)
def test_what_they_cannot_do_is_refused_with_the_reason(text: str, layout: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        written.laid_out(text, layout)


def test_a_step_takes_three_loops_and_gives_them_back() -> None:
    schedule = written.scheduled(PRODUCT.format(16, 8, 8), "tensorize<loop=0>")
    assert [loop.kind for loop in schedule.nests[0].loops] == ["tensor"] * 3
    back = schedule.apply(Step("serial", 1))
    assert [loop.kind for loop in back.nests[0].loops] == ["serial"] * 3


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_processors_have_one_precision(precision: str) -> None:
    with pytest.raises(CompilationError, match=precision):
        open_target("cpu", {"precision": precision})


def test_without_them_nothing_is_offered_that_needs_them() -> None:
    schedule = Schedule.of(parse(PRODUCT.format(512, 512, 512)), "cuda")
    with_them, without = schedule.rules, schedule.rules._replace(kinds=schedule.rules.kinds - {"tensor"})
    for rules, offered in ((with_them, True), (without, False)):
        found = templates(schedule, rules, 132)[0]
        assert any(place.kind == "tensorize" for layout in found for place in layout) == offered
    with pytest.raises(Refusal, match="tensor on cuda"):
        check(product(64, 64, 64).nests[0], without)
