"""Layouts: whole schedules as one action."""

import pytest

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops._schedule import MAX_LOOPS, Layout, Place, Schedule, Step, arrange, read_layouts, write_layout

MATMUL = "C[i:24, j:40] = sum(k:20) A[i, k] * B[k, j]"
TWO = f"{MATMUL}\nY[i:24, j:40] = exp(C[i, j])"


def arranged(expression: str, text: str) -> Schedule:
    layouts = read_layouts(text)
    assert layouts is not None
    return arrange(Schedule.of(parse(expression), "cpu"), layouts)


def test_a_layout_is_the_schedule_that_steps_lead_to() -> None:
    schedule = Schedule.of(parse(MATMUL), "cpu")
    for text in (
        "split<loop=0;factor=12>", "split<loop=1;factor=4>", "split<loop=3;factor=16>",  # i.0 i.1.0 i.1.1 j.0 j.1 k
        "reorder<loop=4>", "reorder<loop=2>", "reorder<loop=3>", "vectorize<loop=5>", "unroll<loop=4>",
        "parallel<loop=0>",
    ):  # fmt: skip
        schedule = schedule.apply(Step.parse(text))
    same = arranged(MATMUL, "nests<i=parallel,i:3,j,k,i:4=unroll,j:16=vectorize>")
    assert same == schedule and same.digest == schedule.digest


def test_what_is_written_is_read_and_other_actions_are_not_layouts() -> None:
    layouts: tuple[Layout, ...] = (
        (Place("i"), Place("j", 8, "unroll"), Place("j", 1)),
        (),
        (Place("x_1", 0, "block.x"), Place("k", 4, "pipeline", ("A", "B_2")), Place("l", 0, "serial", ("A",))),
    )
    texts = ["i,j:8=unroll,j:1", "", "x_1=block.x,k:4=pipeline@A@B_2,l=serial@A"]
    assert [write_layout(layout) for layout in layouts] == texts
    assert read_layouts(f"nests<{';'.join(texts)}>") == layouts
    assert read_layouts("split<loop=0;factor=2>") is None is read_layouts("nests")
    for text in (
        "nests<i,,j>",
        "nests<i:0>",
        "nests<i=fast>",
        "nests<i:-1>",
        "nests< i>",
        "nests<i@A>",
        "nests<i=unroll@>",
    ):
        with pytest.raises(ValueError, match="no loop of a layout"):
            read_layouts(text)


def test_the_loop_that_has_what_is_left_is_around_the_others_wherever_it_stands() -> None:
    schedule = Schedule.of(parse("R[i:40] = sum(k:100) A[i, k]"), "cuda")
    for step in ("split<loop=1;factor=8>", "reorder<loop=1>", "bind<loop=0;to=block.x>", "bind<loop=1;to=thread.x>",
                 "stage<loop=2;tensor=0>"):  # fmt: skip
        schedule = schedule.apply(Step.parse(step))
    layouts = read_layouts("nests<i=block.x,k:8=thread.x,k=serial@A>")
    assert layouts is not None
    assert arrange(Schedule.of(schedule.computation, "cuda"), layouts) == schedule


def test_a_statement_without_loops_keeps_those_of_the_start() -> None:
    schedule = arranged(TWO, "nests<;j,i>")
    assert [[loop.variable for loop in nest.loops] for nest in schedule.nests] == [["i", "j", "k"], ["j", "i"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nests<i,j,k>", "1 layouts and 2 statements"),
        ("nests<i,j;i,j>", "the axes of C are i, j, k"),
        ("nests<i,j,k,x;i,j>", "the axes of C are i, j, k"),
        ("nests<i,i,j,k;i,j>", "only one loop of i"),
        ("nests<i:5,i:4,j,k;i,j>", "the loops of i have 20 turns, and i has 24"),
        ("nests<i,i:48,j,k;i,j>", "cannot be split by 48"),
        ("nests<i,k,j,j:12=vectorize;i,j>", "power of two"),
        ("nests<i,k=parallel,j;i,j>", "only the outermost loop"),
        ("nests<i=block.x,j,k;i,j>", "no loop is block.x on cpu"),
        (f"nests<{'i,' + 'i:1,' * MAX_LOOPS}j,k;i,j>", "more than 24 loops"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        arranged(TWO, text)
