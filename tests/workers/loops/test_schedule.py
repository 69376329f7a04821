"""Schedules: which steps there are, what is legal and why not, and when two schedules are the same."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import BLOCKS, THREADS, Nest, Refusal
from aiocg.workers.loops._rules import RULES, check, staged_tile
from aiocg.workers.loops._schedule import FACTORS, MAX_LOOPS, Schedule, Step, steps

from . import strategies

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME
MATMUL = "C[i:64, j:96] = sum(k:128) A[i, k] * B[k, j]"
SOFTMAX = """
    M[i:64] = max(j:1000) X[i, j]
    E[i:64, j:1000] = exp(X[i, j] - M[i])
    S[i:64] = sum(j:1000) E[i, j]
    Y[i:64, j:1000] = E[i, j] / S[i]
"""


def _after(text: str, target_name: str, *steps: str) -> Schedule:
    schedule = Schedule.of(parse(text), target_name)
    for step in steps:
        schedule = schedule.apply(Step.parse(step))
    return schedule


def _refusal(schedule: Schedule, step: str) -> str:
    with pytest.raises(Refusal) as raised:
        schedule.apply(Step.parse(step))
    return raised.value.reason


def _loops(schedule: Schedule, stage: int = 0) -> list[str]:
    return [f"{loop.variable}:{loop.extent} {loop.kind}" for loop in schedule.nests[stage].loops]


# --------------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize(("target_name", "count"), [("cpu", 24 * 23), ("cuda", 24 * 33)])
def test_steps_of_a_target_are_all_different_and_always_the_same(target_name: str, count: int) -> None:
    offered = steps(target_name)
    assert len(offered) == len({step.text for step in offered}) == count
    assert offered[0].text == "split<loop=0;factor=2>"
    assert steps(target_name) is offered


def test_steps_are_those_of_the_target() -> None:
    cpu, cuda = ({step.primitive for step in steps(name)} for name in ("cpu", "cuda"))
    assert cpu - cuda == {"vectorize", "parallel"}
    assert cuda - cpu == {"bind", "stage", "pipeline", "tensorize"}
    assert {step.argument for step in steps("cuda") if step.primitive == "bind"} == {*BLOCKS, *THREADS}


@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_steps_are_what_their_texts_say(target_name: str) -> None:
    assert tuple(Step.parse(step.text) for step in steps(target_name)) == steps(target_name)


def test_factor_that_is_not_offered_is_a_step_too() -> None:
    assert 5 not in FACTORS
    assert _loops(_after(MATMUL, "cpu", "split<loop=0;factor=5>"))[:2] == ["i.0:13 serial", "i.1:5 serial"]


@pytest.mark.parametrize("text", [
    "", "split", "split<>", "split<loop=1>", "split<factor=2>", "split<loop=1;factor=x>", "split<loop=1;to=block.x>",
    "split<loop=-1;factor=2>", "split<loop=1;factor=2> ", "tile<loop=1>", "reorder<loop=1;factor=2>", "bind<loop=1>",
    "bind<loop=1;to=block.w>", "stage<loop=1;tensor=A>", "split<loop=1;factor=2;factor=2>", "parallel<loop=\u0661>",
    "split<loop=1;factor=\u00b2>", "split<loop=9999999;factor=2>",
])  # fmt: skip
def test_text_that_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a step of a schedule"):
        Step.parse(text)


# ------------------------------------------------------------------------------------------ what steps do


def test_loops_are_numbered_through_all_stages() -> None:
    schedule = _after(SOFTMAX, "cpu")
    assert schedule.loops == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1))
    schedule = schedule.apply(Step("split", 1, 8)).apply(Step("parallel", 3))
    assert _loops(schedule, 0) == ["i:64 serial", "j.0:125 serial", "j.1:8 serial"]
    assert _loops(schedule, 1) == ["i:64 parallel", "j:1000 serial"]


def test_reorder_stays_in_its_stage() -> None:
    schedule = _after(SOFTMAX, "cpu")
    assert _refusal(schedule, "reorder<loop=1>") == "j is the innermost loop of M"
    assert _loops(schedule.apply(Step("reorder", 2)), 1) == ["j:1000 serial", "i:64 serial"]


def test_tiled_and_vectorized_product() -> None:
    schedule = _after(MATMUL, "cpu", "split<loop=1;factor=16>", "reorder<loop=2>", "vectorize<loop=3>",
                      "unroll<loop=1>", "parallel<loop=0>")  # fmt: skip
    assert _loops(schedule) == ["i:64 parallel", "j.0:6 unrolled", "k:128 serial", "j.1:16 vectorized"]


def test_refused_step_changes_nothing_and_a_legal_one_changes_only_what_it_returns() -> None:
    schedule = _after(MATMUL, "cpu")
    before = schedule.text
    with pytest.raises(Refusal):
        schedule.apply(Step("vectorize", 0))
    assert schedule.apply(Step("parallel", 0)) != schedule
    assert schedule.text == before


def test_loop_that_there_is_not_is_refused() -> None:
    assert _refusal(_after(MATMUL, "cpu"), "parallel<loop=3>") == "there is no loop 3, but 3 loops"
    with pytest.raises(Refusal, match="there is no loop -1"):
        _after(MATMUL, "cpu").apply(Step("parallel", -1))


def test_number_of_loops_is_bounded() -> None:
    text = "\n".join(f"T{n}[i:64, j:64, k:64] = A[i, j, k] + {n}" for n in range(8))
    full = _after(text, "cpu")
    assert len(full.loops) == MAX_LOOPS
    assert _refusal(full, "split<loop=0;factor=2>") == "there would be more than 24 loops"
    assert not full.legal()[: MAX_LOOPS * len(FACTORS)].any()
    assert len(full.apply(Step("fuse", 0)).apply(Step("split", 5, 8)).loops) == MAX_LOOPS
    full.apply(Step("parallel", 21))
    computation = full.computation
    with pytest.raises(Refusal, match="there are 27 loops, more than 24"):
        Schedule.of(replace(computation, stages=(*computation.stages, computation.stages[0])), "cpu")


# ----------------------------------------------------------------------------------------------- the rules


@pytest.mark.parametrize(("before", "step", "reason"), [
    ((), "split<loop=0;factor=64>", "i has 64 turns, and 64 is not between 1 and that"),
    ((), "split<loop=0;factor=1>", "i has 64 turns, and 1 is not between 1 and that"),
    ((), "serial<loop=0>", "i is serial already"),
    ((), "parallel<loop=1>", "j would be parallel inside i: only the outermost loop can be"),
    (("parallel<loop=0>",), "reorder<loop=0>", "i would be parallel inside j: only the outermost loop can be"),
    (("reorder<loop=1>", "reorder<loop=0>"), "parallel<loop=0>", "k is reduced over and cannot be parallel"),
    (("split<loop=2;factor=8>",), "vectorize<loop=2>", "k.0 would be vectorized around k.1: only the innermost can be"),
    ((), "vectorize<loop=2>", "k has 128 turns, and a vectorized loop has a power of two from 2 to 64"),
    (("reorder<loop=1>",), "vectorize<loop=2>",
     "j has 96 turns, and a vectorized loop has a power of two from 2 to 64"),
    (("split<loop=2;factor=8>", "vectorize<loop=3>"), "reorder<loop=2>",
     "k.1 would be vectorized around k.0: only the innermost can be"),
    (("parallel<loop=0>",), "split<loop=0;factor=8>", "i is parallel, and only serial loops are split"),
    (("parallel<loop=0>",), "fuse<loop=0>", "i is parallel, and only serial loops are fused"),
    ((), "unroll<loop=1>", "a loop of 96 turns is not unrolled, 64 are the most"),
    (("unroll<loop=0>", "split<loop=1;factor=32>"), "unroll<loop=2>",
     "unrolling would make 2048 copies of the body, 1024 are the most"),
    ((), "bind<loop=0;to=block.x>", "no loop is block.x on cpu"),
    ((), "stage<loop=0;tensor=0>", "no memory is shared by the threads of a block on cpu"),
])  # fmt: skip
def test_processor_refuses(before: tuple[str, ...], step: str, reason: str) -> None:
    assert _refusal(_after(MATMUL, "cpu", *before), step) == reason


ORDER = "blocks are the outermost loops, then threads, then all others"


@pytest.mark.parametrize(("before", "step", "reason"), [
    ((), "vectorize<loop=2>", "no loop is vectorized on cuda"),
    ((), "parallel<loop=0>", "no loop is parallel on cuda"),
    ((), "bind<loop=1;to=block.x>", f"j would be bound to block.x inside i, which is serial: {ORDER}"),
    (("bind<loop=0;to=thread.x>",), "bind<loop=1;to=block.x>",
     f"j would be bound to block.x inside i, which is thread.x: {ORDER}"),
    (("bind<loop=0;to=block.x>",), "reorder<loop=0>",
     f"i would be bound to block.x inside j, which is serial: {ORDER}"),
    (("bind<loop=0;to=block.x>", "bind<loop=1;to=thread.x>"), "serial<loop=0>",
     f"j would be bound to thread.x inside i, which is serial: {ORDER}"),
    (("bind<loop=0;to=block.x>",), "bind<loop=1;to=block.x>", "two loops would be bound to block.x"),
    (("bind<loop=0;to=block.x>",), "split<loop=0;factor=8>", "i is block.x, and only serial loops are split"),
    (("bind<loop=0;to=thread.y>",), "bind<loop=1;to=thread.x>", "a block would have 6144 threads, 1024 are the most"),
    (("reorder<loop=0>",), "bind<loop=0;to=thread.z>", "j has 96 turns, thread.z at most 64"),
    (("reorder<loop=1>", "reorder<loop=0>"), "bind<loop=0;to=block.x>",
     "k is reduced over and cannot be bound to block.x, only to threads"),
    (("bind<loop=0;to=block.y>", "bind<loop=1;to=block.x>"), "bind<loop=2;to=thread.x>", None),
    (("reorder<loop=1>", "reorder<loop=0>"), "bind<loop=0;to=thread.y>", None),
    (("split<loop=2;factor=8>", "reorder<loop=1>", "reorder<loop=0>", "reorder<loop=2>", "reorder<loop=1>"),
     "bind<loop=0;to=thread.y>", "threads that reduce together have at most 256 results each"),
    (("bind<loop=0;to=block.y>", "bind<loop=1;to=block.x>", "split<loop=2;factor=8>", "bind<loop=2;to=thread.y>"),
     "bind<loop=3;to=thread.x>",
     "k.0 and k.1 are reduced over, and only one such loop can be bound to threads"),
    ((), "stage<loop=0;tensor=2>", "C does not read C"),
    ((), "stage<loop=0;tensor=3>", "there is no tensor 3, but 3 tensors"),
    ((), "stage<loop=0;tensor=1>", None),
    (("stage<loop=0;tensor=1>",), "stage<loop=2;tensor=1>", "B is staged already"),
    (("stage<loop=0;tensor=1>",), "bind<loop=0;to=block.x>", "B is staged in i, which has to be serial or pipelined"),
    (("stage<loop=0;tensor=1>",), "unroll<loop=0>", "B is staged in i, which has to be serial or pipelined"),
    (("stage<loop=0;tensor=1>",), "split<loop=0;factor=2>", "B is staged in i, which therefore cannot be split"),
    (("bind<loop=0;to=block.x>",), "stage<loop=0;tensor=0>",
     "i is block.x, and tensors are staged in serial and pipelined loops"),
    (("split<loop=1;factor=48>", "stage<loop=1;tensor=1>"), "reorder<loop=0>", None),
])  # fmt: skip
def test_gpu_refuses(before: tuple[str, ...], step: str, reason: str | None) -> None:
    schedule = _after(MATMUL, "cuda", *before)
    if reason is None:
        schedule.apply(Step.parse(step))
    else:
        assert _refusal(schedule, step) == reason


def test_tiles_of_one_stage_share_the_memory_of_a_block() -> None:
    product = MATMUL.replace("128", "600")
    schedule = _after(product, "cuda", "split<loop=1;factor=48>", "reorder<loop=0>", "stage<loop=0;tensor=1>")
    assert (
        _refusal(schedule, "stage<loop=0;tensor=0>") == "the tiles would have 268800 bytes, and a block shares 232448"
    )
    assert len(schedule.apply(Step("stage", 1, 0)).nests[0].stagings) == 2


def test_grid_is_bounded() -> None:
    schedule = _after("C[i:65536, j:2] = A[i, j] * 2", "cuda")
    assert _refusal(schedule, "bind<loop=0;to=block.y>") == "i has 65536 turns, block.y at most 65535"
    schedule.apply(Step("bind", 0, "block.x"))


# ---------------------------------------------------------------------------------------- mask and reasons


@pytest.mark.slow
@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_mask_and_reasons_say_what_apply_does(target_name: str) -> None:
    offered = steps(target_name)

    @ALWAYS_THE_SAME
    @given(schedule=strategies.schedules(target_name), index=st.integers(0, len(offered) - 1))
    def agrees(schedule: Schedule, index: int) -> None:
        mask, reasons = schedule.legal(), schedule.refusals()
        assert mask.dtype == np.uint8 and mask.shape == (len(offered),)
        assert set(reasons) == {step.text for step, legal in zip(offered, mask, strict=True) if not legal}
        if mask[index]:
            assert schedule.apply(offered[index]) != schedule
        else:
            assert _refusal(schedule, offered[index].text) == reasons[offered[index].text]

    agrees()


def test_a_long_computation_left_to_one_thread_of_a_gpu_is_known() -> None:
    assert _after(MATMUL, "cuda").left_alone == ""
    long = _after("C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]", "cuda")
    assert long.left_alone == "C"
    assert long.apply(Step.parse("bind<loop=0;to=thread.x>")).left_alone == ""
    assert _after("C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]", "cpu").left_alone == ""


def _problems(nest: Nest, target_name: str) -> list[str]:
    """Say what a nest has that its target cannot carry out: a second opinion on `rules`."""
    loops, found = nest.loops, []
    kinds = [loop.kind for loop in loops]
    bound = [kind for kind in kinds if kind[:5] in ("block", "threa")]
    if target_name == "cpu" and (bound or nest.stagings):
        found.append("bound or staged on a processor")
    if target_name == "cuda" and {"parallel", "vectorized"} & set(kinds):
        found.append("parallel or vectorized on a GPU")
    if "parallel" in kinds[1:] or "vectorized" in kinds[:-1]:
        found.append("parallel inside or vectorized outside")
    own = kinds[1:] if kinds[:1] == ["joined"] else kinds  # a joined loop runs in the block of the nest before
    if bound != own[: len(bound)] or bound != sorted(bound, key=lambda kind: kind[0]) or len(set(bound)) < len(bound):
        found.append("order of bound loops")
    shared = {*bound, "parallel"} - {*THREADS}
    if any(loop.variable in nest.reductions for loop in loops if loop.kind in shared):
        found.append("reduced over by many")
    if math.prod(loop.extent for loop in loops if loop.kind == "unrolled") > 1024:
        found.append("too many copies")
    if any(loop.extent not in (2, 4, 8, 16, 32, 64) for loop in loops if loop.kind == "vectorized"):
        found.append("no vector")
    if math.prod(loop.extent for loop in loops if loop.kind in THREADS) > 1024:
        found.append("too many threads")
    for staging in nest.stagings:
        position = [loop.variable for loop in loops].index(staging.variable)
        if position < len(bound) or kinds[position] not in ("serial", "pipelined"):
            found.append("staged in no serial loop")
    pipelined = {loop.variable for loop in loops if loop.kind == "pipelined"}
    if not pipelined <= {staging.variable for staging in nest.stagings}:
        found.append("pipelined without a tile")
    twice = [staging for staging in nest.stagings if staging.variable in pipelined]
    if sum(staged_tile(nest, staging).size for staging in (*nest.stagings, *twice)) > 227 * 1024:
        found.append("tiles too large")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_steps_lead_only_to_what_the_target_can_carry_out(target_name: str) -> None:
    @ALWAYS_THE_SAME
    @given(schedule=strategies.schedules(target_name, most_steps=20))
    def holds(schedule: Schedule) -> None:
        assert len(schedule.loops) <= MAX_LOOPS
        for nest in schedule.nests:
            check(nest, RULES[target_name])  # splits and fusions are not checked when they are made
            assert _problems(nest, target_name) == []

    holds()


# ------------------------------------------------------------------------------------------------- identity


def test_schedules_are_equal_whatever_the_order_of_independent_steps() -> None:
    one = _after(MATMUL, "cpu", "split<loop=0;factor=8>", "split<loop=2;factor=8>", "parallel<loop=0>")
    other = _after(MATMUL, "cpu", "parallel<loop=0>", "serial<loop=0>", "split<loop=1;factor=8>",
                   "split<loop=0;factor=8>", "parallel<loop=0>", "reorder<loop=1>", "reorder<loop=1>")  # fmt: skip
    assert one == other
    assert hash(one) == hash(other)
    assert one.digest == other.digest


def test_undone_steps_lead_back() -> None:
    start = _after(MATMUL, "cpu")
    assert start.apply(Step("split", 2, 24)).apply(Step("fuse", 2)).digest == start.digest
    assert start.apply(Step("fuse", 0)).apply(Step("split", 0, 96)).digest == start.digest


def test_text_says_all_about_a_schedule() -> None:
    schedule = _after("R[i:8, j:6] = X[j, i] * 0.5\nS[o:1] = max(i:8, j:6) R[i, j]", "cuda", "fuse<loop=0>",
                      "split<loop=0;factor=32>", "bind<loop=0;to=block.x>", "stage<loop=2;tensor=1>")  # fmt: skip
    assert schedule.text == (
        "cuda\n"
        "input X[6, 8]\n"
        "R[i:8, j:6] = X[j, i] * 0.5\n"
        "  loops (i*j).0:2 block.x, (i*j).1:32\n"
        "  i, j = divmod((i*j), 6)\n"
        "  (i*j) = (i*j).0*32 + (i*j).1\n"
        "S[o:1] = max(i:8, j:6) R[i, j]\n"
        "  loops o:1, i:8, j:6\n"
        "  stage R in o\n"
    )


def test_digest_tells_what_differs() -> None:
    schedules = [
        _after(MATMUL, "cpu"), _after(MATMUL, "cuda"), _after(MATMUL.replace("96", "95"), "cpu"),
        _after(MATMUL.replace("sum", "max"), "cpu"), _after(MATMUL.replace("A[i, k]", "A[k, i]"), "cpu"),
        _after(MATMUL, "cpu", "parallel<loop=0>"), _after(MATMUL, "cpu", "split<loop=0;factor=8>"),
        _after(MATMUL, "cpu", "split<loop=0;factor=12>"), _after(MATMUL, "cpu", "fuse<loop=0>"),
        _after(MATMUL, "cuda", "stage<loop=2;tensor=0>"), _after(MATMUL, "cuda", "stage<loop=2;tensor=1>"),
    ]  # fmt: skip
    assert len({schedule.digest for schedule in schedules}) == len(schedules)


def test_digest_is_the_same_in_every_process() -> None:
    script = (
        "import sys; from aiocg.workers.loops._language import parse; from aiocg.workers.loops._schedule import *\n"
        "s = Schedule.of(parse(sys.argv[1]), 'cuda').apply(Step('stage', 2, 0)).apply(Step('split', 0, 8))\n"
        "print(s.digest)"
    )
    found = subprocess.run([sys.executable, "-P", "-c", script, MATMUL], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == _after(MATMUL, "cuda", "stage<loop=2;tensor=0>", "split<loop=0;factor=8>").digest
