"""CUDA C of nests: what a reader finds in it, and how it is launched. What it computes is tested by running it."""

import re
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import Axis, Computation, Number, Stage
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Loop, Nest, initial_nest
from aiocg.workers.loops._rules import RULES
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops.cuda._formulas import RESERVED, Launch, Names, launch
from aiocg.workers.loops.cuda.target import _generate

from . import cuda_schedules as written


def bound(text: str, *loops: Loop) -> Nest:
    """Return the only stage's nest with other loops, whether or not that is legal."""
    stage = parse(text).stages[0]
    return Nest(stage, loops, extents=initial_nest(stage).extents)


def source(text: str, steps: str = "") -> str:
    return str(written.program(written.scheduled(text, steps)).source)


def body(text: str, steps: str = "") -> list[str]:
    """Return the lines of the only kernel, without indentation."""
    _, _, kernel = source(text, steps).partition("<<<")
    return [line.strip() for line in kernel.splitlines()[2:-1]]


def test_without_bound_loops_one_thread_does_it_all() -> None:
    schedule = written.scheduled("B[i:3, j:5] = A[i, j] * 2", "")
    assert launch(schedule.nests[0], RULES["cuda"]) == Launch((1, 1, 1), (1, 1, 1))
    assert body("B[i:3, j:5] = A[i, j] * 2") == [
        "for (int i = 0; i < 3; ++i) {",
        "for (int j = 0; j < 5; ++j) {",
        "B[i * 5 + j] = (A[i * 5 + j] * 2.0f);",
        "}",
        "}",
    ]


def test_bound_loops_are_the_grid_and_the_block() -> None:
    assert launch(written.matmul(512, 256, 64).nests[0], RULES["cuda"]) == Launch((16, 32, 1), (16, 16, 1))
    assert launch(written.pointwise(1 << 26).nests[0], RULES["cuda"]) == Launch((1 << 16, 1, 1), (256, 1, 1))
    nest = bound("B[a:2, b:3, c:4, d:5, e:6, f:7] = A[a, b, c, d, e, f]", *(
        Loop(variable, extent, kind) for variable, extent, kind in (
            ("a", 2, "block.z"), ("b", 3, "block.y"), ("c", 4, "block.x"),
            ("d", 5, "thread.z"), ("e", 6, "thread.y"), ("f", 7, "thread.x"),
        )
    ))  # fmt: skip
    assert launch(nest, RULES["cuda"]) == Launch((4, 3, 2), (7, 6, 5))
    assert launch(nest, RULES["cuda"]).threads == 210


def test_each_stage_is_a_kernel_with_the_tensors_that_it_uses() -> None:
    schedule = written.softmax(100, 33)
    program = written.program(schedule)
    names = [tensor.name for tensor in schedule.computation.tensors]
    assert [[names[at] for at in call.arguments] for call in program.calls] == [
        ["X", "M"], ["X", "M", "E"], ["E", "S"], ["E", "S", "Y"],
    ]  # fmt: skip
    for number, call in enumerate(program.calls):
        assert call.function == f"stage_{number}"
        assert f"// stage_{number}<<<dim3{call.launch.grid}, dim3{call.launch.block}>>>" in program.source
        assert f"__launch_bounds__({call.launch.threads}) stage_{number}(" in program.source
    assert program.calls[1].launch == Launch((104, 1, 1), (32, 1, 1))  # of 3,300 elements, 32 at a time
    assert "const float *__restrict__ E, float *__restrict__ S)" in program.source


def test_a_remainder_is_a_guard_as_far_out_as_it_can_be() -> None:
    lines = body("B[i:10, j:7] = A[i, j]", "split<loop=0;factor=4>")
    assert lines[2:5] == ["const int i = i_0 * 4 + i_1;", "if (i < 10) {", "for (int j = 0; j < 7; ++j) {"]
    assert not any("if" in line for line in body("B[i:12, j:7] = A[i, j]", "split<loop=0;factor=4>"))


def test_no_barrier_is_inside_of_a_guard_that_threads_decide_differently() -> None:
    lines = written.program(written.transpose(40, 42)).source.splitlines()
    depth = {index: len(line) - len(line.lstrip()) for index, line in enumerate(lines)}
    barriers = [index for index, line in enumerate(lines) if "__syncthreads" in line]
    assert len(barriers) == 2
    for barrier in barriers:
        around = [
            lines[index]
            for index in range(barrier)
            if depth[index] < depth[barrier]
            and all(depth[between] > depth[index] for between in range(index + 1, barrier + 1))
        ]
        assert around and not any("if (i" in line or "if (j" in line for line in around)
    guards = [line.strip() for line in lines if line.strip().startswith("if (") and "element" not in line]
    assert guards == ["if (i < 40 && j < 42) {"]


def test_tiles_are_as_large_as_what_a_block_reads_in_a_turn() -> None:
    text = written.program(written.register_matmul(512, 512, 512)).source
    assert "__shared__ __align__(16) float A_tile[1280];" in text  # 64 x 16, and 4 words behind each row
    assert "__shared__ __align__(16) float B_tile[1024];" in text  # 16 x 64
    assert text.count("__syncthreads();") == 2
    assert " ? " not in text.partition("<<<")[2]  # every split is without remainder, so no copy asks where it is
    guarded = written.program(written.register_matmul(500, 512, 512)).source
    assert re.search(r"A_tile\[.*\] = A_0 < 500 \? \*\(const float4 \*\)&A\[", guarded)
    assert re.search(r"B_tile\[element\] = \*\(const float4 \*\)&B\[", guarded)


def test_accumulators_are_registers_unless_there_are_too_many() -> None:
    assert "float total = 0.0f;" in body("C[i:8] = sum(k:4) A[i, k]")
    inside = body("C[i:9] = sum(k:4) A[i, k]", "reorder<loop=0>")
    assert "float total[9];" in inside
    assert "C[i] = total[i];" in inside
    many = body("C[i:301] = max(k:4) A[i, k]", "reorder<loop=0>")
    assert not any("total" in line for line in many)
    assert "C[i] = __int_as_float(0xff800000);" in many
    assert "C[i] = maximum(C[i], A[i * 4 + k]);" in many


def test_what_was_summed_up_is_stored_by_vectors_without_reading_again() -> None:
    lines = body("B[i:8] = sum(k:3) A[k, i]", "reorder<loop=0>")
    assert "*(float4 *)&B[i] = make_float4(" in " ".join(lines) or "*(float4 *)&B[first] = make_float4(" in lines
    assert not any("A_vector" in line for line in lines)


def test_threads_combine_what_they_have_and_the_first_stores_it() -> None:
    lines = body("B[i:5] = sum(k:8) A[i, k]", "bind<loop=0;to=block.x> bind<loop=1;to=thread.x>")
    assert lines[0] == "__shared__ float partial[8];"
    assert "for (int left = 8; left > 1; left = (left + 1) / 2) {" in lines
    assert "partial[thread] += partial[thread + half];" in lines
    assert lines[-3:] == ["if (k == 0) {", "B[i] = total;", "}"]


def test_an_unrolled_loop_asks_the_compiler_to_unroll() -> None:
    lines = body("B[i:63] = A[i]", "split<loop=0;factor=9> unroll<loop=1>")
    assert lines[lines.index("#pragma unroll") + 1] == "for (int i_1 = 0; i_1 < 9; ++i_1) {"
    assert lines.count("#pragma unroll") == 1


def test_indices_have_64_bits_only_where_32_are_too_few() -> None:
    def filled(*extents: int) -> str:
        axes = tuple(Axis(f"i{number}", extent) for number, extent in enumerate(extents))
        stage = Stage("B", axes, (), "", Number(1.0))
        return _generate(Computation((), (stage,)), [initial_nest(stage)]).source

    assert "for (int i0" in filled(2**15, 2**16 - 1)
    assert "for (long long i0" in filled(2**15, 2**16)


def test_tiles_of_which_a_part_lies_beyond_32_bits_begin_at_64() -> None:
    computation = parse(f"B[i:1024] = A[{2**20}*i]")
    schedule = Schedule.of(computation, "cuda")
    for text in ("split<loop=0;factor=1023>", "split<loop=1;factor=1022>"):
        schedule = schedule.apply(Step.parse(text))
    assert "long long i" in _generate(computation, schedule.nests).source
    assert "for (int " in _generate(computation, Schedule.of(computation, "cuda").nests).source


@pytest.mark.parametrize(
    ("value", "literal"),
    [("0.1", "0.1f"), ("3", "3.0f"), ("1e-30", "1e-30f"), ("0.3333333333333333", "0.33333334f"), ("1e30", "1e+30f")],
)
def test_numbers_are_literals_of_the_nearest_float32(value: str, literal: str) -> None:
    assert f"B[i] = {literal};" in body(f"B[i:3] = {value}")


def test_what_no_device_can_do_is_refused_in_a_sentence() -> None:
    text = "B[i:2048, j:2048] = A[i, j]"
    cases = [
        ("thread.x", bound(text, Loop("i", 2048, "thread.x"), Loop("j", 2048))),
        ("threads", bound("B[i:64, j:32] = A[i, j]", Loop("i", 64, "thread.y"), Loop("j", 32, "thread.x"))),
        ("block.y", bound("B[i:70000] = A[i]", Loop("i", 70000, "block.y"))),
        ("two loops", bound("B[i:2, j:2] = A[i, j]", Loop("i", 2, "thread.x"), Loop("j", 2, "thread.x"))),
        ("reduced", bound("B[i:2] = sum(k:2) A[i, k]", Loop("k", 2, "block.y"), Loop("i", 2))),
        (
            "256 results",
            bound(
                "B[i:2, j:257] = sum(k:2, l:2) A[i, j, k, l]",
                Loop("k", 2, "thread.x"),
                Loop("l", 2),
                Loop("i", 2),
                Loop("j", 257),
            ),
        ),
        ("inside", bound("B[i:2, j:2] = A[i, j]", Loop("i", 2), Loop("j", 2, "thread.x"))),
        ("vectorized", bound("B[i:2] = A[i]", Loop("i", 2, "vectorized"))),
        ("parallel", bound("B[i:2] = A[i]", Loop("i", 2, "parallel"))),
    ]
    for word, nest in cases:
        with pytest.raises(CompilationError, match=word) as caught:
            _generate(parse(text), [nest])
        assert caught.value.code == FailureCode.ACTION
        assert len(caught.value.message.split()) > 4


def test_names_are_those_of_cpp_and_each_is_given_once() -> None:
    names = Names()
    taken = [names.take(name) for name in ("i", "i.0", "(i.0*j)", "i_0", "for", "threadIdx", "_x", "π", "9", "maximum")]
    assert taken[:3] == ["i", "i_0", "i_0_j"]
    assert len(set(taken)) == len(taken)
    assert not set(taken) & RESERVED
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in taken)


def test_tensors_and_axes_may_be_called_what_the_kernel_uses_itself() -> None:
    lines = body("total[index:8] = sum(element:4, thread:2) int[index, element, thread]", "reorder<loop=0>")
    assert lines[0] == "float total_2[8];"
    assert "for (int element = 0; element < 4; ++element) {" in lines
    assert "int_2[" in " ".join(lines)


def test_the_page_about_cuda_shows_the_schedule_that_is_tested() -> None:
    page = (Path(__file__).parents[3] / "docs" / "loops_cuda.md").read_text(encoding="utf-8")
    steps = page.partition('steps = """')[2].partition('"""')[0]
    schedule = written.scheduled("C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]", steps)
    assert schedule == written.register_matmul(512, 512, 512)
    steps = page.rpartition('steps = """')[2].partition('"""')[0]
    warps = written.scheduled("C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]", steps)
    assert warps == written.warp_matmul(512, 512, 512)
    shown = page.partition("```c\n")[2].partition("```")[0]
    source = written.program(schedule).source
    for part in re.split(r"\.\.\..*\n|\.\.\.", shown):
        lines = [line.strip() for line in part.splitlines() if len(line.strip()) > 1]
        assert all(line in source for line in lines), lines


def test_equal_schedules_have_equal_sources() -> None:
    one, other = (written.program(written.matmul(48, 40, 56)) for _ in range(2))
    assert one == other
