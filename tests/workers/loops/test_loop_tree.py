"""The text of loop nests says what is carried out: it is read back, line by line, and does the same."""

import re
from collections.abc import Callable, Iterator, Sequence

from hypothesis import given

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest
from aiocg.workers.loops._observations import loop_tree
from aiocg.workers.loops._schedule import Schedule, Step

from . import strategies
from .interpreter import iterations

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME


def _tree(text: str, target_name: str, *steps: str) -> str:
    schedule = Schedule.of(parse(text), target_name)
    for step in steps:
        schedule = schedule.apply(Step.parse(step))
    return loop_tree(schedule.nests)


def test_text_at_first_is_the_loops_of_the_axes() -> None:
    assert _tree("C[i:64, j:96] = sum(k:128) A[i, k] * B[k, j]", "cpu") == (
        "for i in 64 : L0\n"
        "  for j in 96 : L1\n"
        "    for k in 128 : L2\n"
        "      C[i, j] <- sum(A[i, k] * B[k, j])\n"
    )  # fmt: skip


def test_numbers_go_through_all_stages() -> None:
    assert _tree("R[i:8] = A[i] * 2\nS[o:1] = max(i:8) R[i] - 1", "cpu", "parallel<loop=0>", "vectorize<loop=2>") == (
        "for i in 8 : L0 [parallel]\n"
        "  R[i] <- A[i] * 2\n"
        "for o in 1 : L1\n"
        "  for i in 8 : L2 [vectorized]\n"
        "    S[o] <- max(R[i] - 1)\n"
    )  # fmt: skip


def test_variables_are_computed_where_they_can_be_and_guarded() -> None:
    steps = ("split<loop=0;factor=8>", "reorder<loop=1>", "split<loop=1;factor=4>", "unroll<loop=2>")
    assert _tree("B[i:500, j:8] = A[i, j]", "cpu", *steps) == (
        "for i.0 in 63 : L0\n"
        "  for j.0 in 2 : L1\n"
        "    for j.1 in 4 : L2 [unrolled]\n"
        "      where j = j.0*4 + j.1\n"
        "      for i.1 in 8 : L3\n"
        "        where i = i.0*8 + i.1 < 500\n"
        "        B[i, j] <- A[i, j]\n"
    )


def test_fused_loops_say_what_they_were_made_of() -> None:
    assert _tree("B[i:5, j:6] = A[j, i]", "cpu", "fuse<loop=0>", "split<loop=0;factor=7>", "parallel<loop=0>") == (
        "for (i*j).0 in 5 : L0 [parallel]\n"
        "  for (i*j).1 in 7 : L1\n"
        "    where (i*j) = (i*j).0*7 + (i*j).1 < 30\n"
        "    where i = (i*j) // 6\n"
        "    where j = (i*j) % 6\n"
        "    B[i, j] <- A[j, i]\n"
    )


def test_staged_tiles_are_shown_in_their_loop() -> None:
    steps = ("split<loop=2;factor=32>", "bind<loop=0;to=block.x>", "bind<loop=1;to=thread.x>", "stage<loop=2;tensor=0>",
             "stage<loop=2;tensor=1>")  # fmt: skip
    assert _tree("C[i:64, j:96] = sum(k:128) A[i, k] * B[k, j]", "cuda", *steps) == (
        "for i in 64 : L0 [block.x]\n"
        "  for j in 96 : L1 [thread.x]\n"
        "    for k.0 in 4 : L2\n"
        "      stage A[1, 32] : 128 bytes\n"
        "      stage B[32, 96] : 12288 bytes\n"
        "      for k.1 in 32 : L3\n"
        "        where k = k.0*32 + k.1\n"
        "        C[i, j] <- sum(A[i, k] * B[k, j])\n"
    )


def _program(lines: Sequence[str], nest: Nest) -> str:
    """Return a program of Python that yields the axes as often as the text of a nest says."""
    program = ["def turns(v):"]
    for line in lines:
        indent, text = re.fullmatch(r"( *)(.*)", line).groups()
        if loop := re.match(r"for (\S+) in (\d+) : L\d+", text):
            program.append(f" {indent}for v['{loop[1]}'] in range({loop[2]}):")
        elif computed := re.fullmatch(r"where (\S+) = (\S+?)( // | % |\*)(\d+)(?: \+ (\S+))?(?: < (\d+))?", text):
            made, source, operator, number, rest, bound = computed.groups()
            added = f" + v['{rest}']" if rest else ""
            program.append(f" {indent}v['{made}'] = v['{source}']{operator}{number}{added}")
            if bound:
                program.append(f" {indent}if v['{made}'] >= {bound}: continue")
        elif " <- " in text:
            program.append(f" {indent}yield tuple(v[axis] for axis in {[axis.name for axis in nest.stage.axes]})")
        else:
            assert text.startswith("stage "), text
    return "\n".join(program)


@ALWAYS_THE_SAME
@given(schedule=strategies.schedules("cuda"))
def test_text_does_what_the_nest_does(schedule: Schedule) -> None:
    lines = loop_tree(schedule.nests).splitlines()
    assert sum(line.lstrip().startswith("for ") for line in lines) == len(schedule.loops)
    for number, (stage, position) in enumerate(schedule.loops):
        loop = schedule.nests[stage].loops[position]
        kind = "" if loop.kind == "serial" else f" [{loop.kind}]"
        assert f"{'  ' * position}for {loop.variable} in {loop.extent} : L{number}{kind}" in lines
    for nest in schedule.nests:
        end = next(number for number, line in enumerate(lines) if " <- " in line) + 1
        program, lines = _program(lines[:end], nest), lines[end:]
        scope: dict[str, Callable[[dict[str, int]], Iterator[tuple[int, ...]]]] = {}
        exec(program, scope)
        expected = [tuple(values[axis.name] for axis in nest.stage.axes) for values in iterations(nest)]
        assert sorted(scope["turns"]({})) == sorted(expected)
    assert lines == []
