"""Schedules: how a computation is executed. A schedule is an immutable value; steps derive new ones.

Loops are numbered across all stages: those of the first stage from the outermost to the innermost, then those of the
second, and so on. A step is a primitive, the number of a loop, and the primitive's other arguments. It has a text:

    split<loop=3;factor=8>    loop 3 becomes two, the inner one of 8 turns
    reorder<loop=3>           loop 3 changes places with the next inner loop of its stage
    fuse<loop=3>              loop 3 and the next inner loop become one
    unroll<loop=3> vectorize<loop=3> parallel<loop=3> serial<loop=3> pipeline<loop=3>
    tensorize<loop=3>         loop 3 and the next two inner ones are carried out by tensor cores
    join<loop=3>              the turns of loop 3 follow those of the outermost loop of the stage before, one by one
    bind<loop=3;to=block.x>   the turns of loop 3 are those of a grid's blocks, or of a block's threads
    stage<loop=3;tensor=1>    what each turn of loop 3 reads of tensor 1, by `Computation.tensors`, is copied first

`nests<i,j,k,i:8=unroll,j:16=vectorize;i=parallel,j>` has the loops of two statements, each from the outermost to the
innermost. `axis:turns` is a loop of so many turns, and an axis alone has as many as its other loops leave, rounded up.
Each loop of an axis goes over what those after it do in one turn, and the one without turns over what all others do,
wherever it stands: in `nests<i=block.x,k:64=thread.x,k>` neighbouring threads have neighbouring elements. `=` gives its
kind, and `@` names tensors that are staged in it: `k=pipeline@A@B`. A statement without loops keeps those of the start.
In `nests<i,j;i=join,j>` the second statement is computed in the turns of the first one's outermost loop.
"""

import hashlib
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops import _nest as nests
from aiocg.workers.loops._expression import Affine, Axis, Computation, Expression, Number, Read, Stage
from aiocg.workers.loops._nest import BLOCKS, THREADS, Kind, Loop, Nest, Refusal, Split, initial_nest
from aiocg.workers.loops._rules import LONGEST_BOUND, RULES, Rules, check, check_joins, tensor_loops

MAX_LOOPS = 24  # of all stages together
MOST_ALONE = 1 << 24  # operations that one thread of a GPU carries out in about a second
MAX_STAGED = 4  # only the first tensors can be staged
FACTORS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
BINDINGS = (*BLOCKS, *THREADS)
MAKING = frozenset({"split", "fuse"})  # serial loops replace serial ones in the same place, which breaks no rule

KINDS: Mapping[str, Kind] = {
    "unroll": "unrolled", "vectorize": "vectorized", "parallel": "parallel", "serial": "serial",
    "pipeline": "pipelined", "join": "joined", "tensorize": "tensor",
}  # fmt: skip
ARGUMENTS: Mapping[str, str] = {"split": "factor", "bind": "to", "stage": "tensor"}
TEXT = re.compile(r"(?P<primitive>[a-z]+)<loop=(?P<loop>[0-9]{1,6})(?:;(?P<name>[a-z]+)=(?P<value>[a-z0-9.]{1,16}))?>")


# ------------------------------------------------------------------- The text of a computation, which `language` parses


def unparse(computation: Computation) -> str:
    """Return the text of a computation; parsing it gives an equal one.

    The inputs must have the smallest possible shapes and be in the order of their first reads.
    """
    return "".join(f"{_stage_text(stage)}\n" for stage in computation.stages)


def _stage_text(stage: Stage) -> str:
    reduction = f"{stage.reducer}({_axes_text(stage.reduction)}) " if stage.reducer else ""
    return f"{stage.tensor}[{_axes_text(stage.spatial)}] = {reduction}{_text(stage.body, 0)}"


def _axes_text(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name}:{axis.extent}" for axis in axes)


_OPERATORS = {"add": ("+", 0), "sub": ("-", 0), "mul": ("*", 1), "div": ("/", 1)}  # with their precedence


def _text(expression: Expression, tightness: int) -> str:
    """Return the text of an operand, in parentheses if its precedence is lower than this."""
    if isinstance(expression, Number):
        return _number_text(expression.value)
    if isinstance(expression, Read):
        return f"{expression.tensor}[{', '.join(map(_index_text, expression.indices))}]"
    operands = expression.arguments
    if expression.function in _OPERATORS:
        sign, own = _OPERATORS[expression.function]
        text = f"{_text(operands[0], own)} {sign} {_text(operands[1], own + 1)}"
        return f"({text})" if own < tightness else text
    if expression.function == "neg" and not isinstance(operands[0], Number):  # `-1` is a number
        return f"-{_text(operands[0], 2)}"
    return f"{expression.function}({', '.join(_text(one, 0) for one in operands)})"


def _number_text(value: float) -> str:
    """Return the shortest text that rounds to this `float32`."""
    return next(text for digits in range(6, 18) if _rounded(text := f"{value:.{digits}g}") == value)


def _rounded(text: str) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    except OverflowError:  # the largest `float32`, rounded up
        return math.inf


def _index_text(index: Affine) -> str:
    terms = [(factor, axis if abs(factor) == 1 else f"{abs(factor)}*{axis}") for axis, factor in index.terms]
    if index.constant or not terms:
        terms.append((index.constant, str(abs(index.constant))))
    (first, text), *rest = terms
    return ("-" if first < 0 else "") + text + "".join(f" {'-' if sign < 0 else '+'} {term}" for sign, term in rest)


# -------------------- Schedules: how a computation is executed. A schedule is an immutable value; steps derive new ones


class Step(NamedTuple):
    """A change of a schedule.

    Attributes:
        primitive: `split`, `reorder`, `fuse`, `unroll`, `vectorize`, `parallel`, `serial`, `pipeline`, `join`,
            `tensorize`, `bind` or `stage`.
        loop: the number of a loop.
        argument: the factor of a split, the index that a loop is bound to, or the number of the tensor to stage.
    """

    primitive: str
    loop: int
    argument: int | str | None = None

    @property
    def text(self) -> str:
        """The step as text for `parse`."""
        rest = "" if self.argument is None else f";{ARGUMENTS[self.primitive]}={self.argument}"
        return f"{self.primitive}<loop={self.loop}{rest}>"

    @classmethod
    def parse(cls, text: str) -> "Step":
        """Parse a step.

        Raises:
            ValueError: if the text is not a step.
        """
        found = TEXT.fullmatch(text)
        if not found or found["primitive"] not in ("reorder", "fuse", *KINDS, *ARGUMENTS):
            raise ValueError(f"{text!r} is not a step of a schedule")
        primitive, loop, value = found["primitive"], int(found["loop"]), found["value"]
        if found["name"] != ARGUMENTS.get(primitive):
            raise ValueError(f"{text!r} is not a step of a schedule: {primitive} takes {_takes(primitive)}")
        if primitive == "bind" and value not in BINDINGS:
            raise ValueError(f"{text!r} is not a step of a schedule: loops are bound to {', '.join(BINDINGS)}")
        if primitive in ("split", "stage"):
            if not value.isdecimal():
                raise ValueError(f"{text!r} is not a step of a schedule: {value} is no number")
            return cls(primitive, loop, int(value))
        return cls(primitive, loop, value)


@cache
def steps(target_name: str, *, loops: int = MAX_LOOPS) -> tuple[Step, ...]:
    """Return all steps that are offered for a target, in a fixed order.

    Other steps may be legal: a loop can be split by any factor.

    Args:
        target_name: `cpu` or `cuda`.
        loops: limits the steps to loops with lower numbers.
    """
    numbers = range(loops)
    kinds = [name for name, kind in KINDS.items() if kind in RULES[target_name].kinds]
    found = [Step("split", loop, factor) for loop in numbers for factor in FACTORS]
    found += [Step(name, loop) for name in ("reorder", "fuse", *kinds) for loop in numbers]
    if RULES[target_name].shared_memory:
        found += [Step("bind", loop, index) for loop in numbers for index in BINDINGS]
        found += [Step("stage", loop, tensor) for loop in numbers for tensor in range(MAX_STAGED)]
    return tuple(found)


@dataclass(frozen=True)
class Schedule:
    """A computation with a loop nest for each stage.

    Attributes:
        computation: what is computed.
        nests: the loops of each stage.
        rules: the rules of the target.
    """

    computation: Computation
    nests: tuple[Nest, ...]
    rules: Rules

    @classmethod
    def of(cls, computation: Computation, target_name: str) -> "Schedule":
        """Return the initial schedule: each stage's loops in the order of its axes, all serial.

        Raises:
            Refusal: if there are more than `MAX_LOOPS` loops.
        """
        schedule = cls(computation, tuple(map(initial_nest, computation.stages)), RULES[target_name])
        if len(schedule.loops) > MAX_LOOPS:
            raise Refusal(f"there are {len(schedule.loops)} loops, more than {MAX_LOOPS}")
        return schedule

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """The stage of each loop and its position in that stage's nest, by the loop's number."""
        return tuple((stage, at) for stage, nest in enumerate(self.nests) for at in range(len(nest.loops)))

    @cached_property
    def on_tensor_cores(self) -> frozenset[str]:
        """The tensors that tensor cores compute."""
        return frozenset(nest.stage.tensor for nest in self.nests if tensor_loops(nest))

    @cached_property
    def left_alone(self) -> str:
        """The first stage that one thread of a GPU would compute for seconds or minutes, "" if there is none."""
        if not self.rules.shared_memory:
            return ""
        stages = (nest.stage for nest in self.nests if not any(loop.kind in LONGEST_BOUND for loop in nest.loops))
        return next((stage.tensor for stage in stages if stage.flops > MOST_ALONE), "")

    def apply(self, step: Step) -> "Schedule":
        """Return the schedule after a step.

        Raises:
            Refusal: if the step is not legal.
        """
        if not 0 <= step.loop < len(self.loops):
            raise Refusal(f"there is no loop {step.loop}, but {len(self.loops)} loops")
        stage, position = self.loops[step.loop]
        nest = self._changed(self.nests[stage], position, step)
        if len(self.loops) + len(nest.loops) - len(self.nests[stage].loops) > MAX_LOOPS:
            raise Refusal(f"there would be more than {MAX_LOOPS} loops")
        if step.primitive not in MAKING:
            check(nest, self.rules)
        nests = (*self.nests[:stage], nest, *self.nests[stage + 1 :])
        check_joins(nests, self.rules)
        return replace(self, nests=nests)

    def legal(self) -> NDArray[np.uint8]:
        """Return 1 for each of the target's `steps` that is legal and 0 for the others: uint8, shape (steps,)."""
        offered, count = steps(self.rules.target), len(self.loops)
        legal = (step.loop < count and self._refusal(step) is None for step in offered)
        return np.fromiter(legal, dtype=np.uint8, count=len(offered))

    def refusals(self) -> dict[str, str]:
        """Return the reason why each illegal one of `steps` is refused, by its text."""
        reasons = ((step, self._refusal(step)) for step in steps(self.rules.target))
        return {step.text: reason for step, reason in reasons if reason is not None}

    @cached_property
    def text(self) -> str:
        """A complete description, for people and for `digest`. Equal schedules have equal texts.

        cuda
        input A[64, 128]
        input B[128, 96]
        C[i:64, j:96] = sum(k:128) A[i, k] * B[k, j]
          loops i:64 block.x, j:96 thread.x, k.0:16, k.1:8 unrolled
          k = k.0*8 + k.1
          stage A in k.0
        """
        lines = [self.rules.target]
        lines += [f"input {tensor.name}[{', '.join(map(str, tensor.shape))}]" for tensor in self.computation.inputs]
        for statement, nest in zip(unparse(self.computation).splitlines(), self.nests, strict=True):
            lines += (statement, *(f"  {line}" for line in _described(nest)))
        return "".join(f"{line}\n" for line in lines)

    @cached_property
    def digest(self) -> str:
        """A name for this schedule: 32 hexadecimal digits, the same in every process."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    def _changed(self, nest: Nest, position: int, step: Step) -> Nest:
        argument = step.argument
        match step.primitive:
            case "split":
                assert isinstance(argument, int)
                loop = nest.loops[position]
                if not 1 < argument < loop.extent:
                    raise Refusal(f"{loop.variable} has {loop.extent} turns, and {argument} is not between 1 and that")
                return nests.split(nest, position, argument)
            case "reorder":
                return nests.swap(nest, position)
            case "fuse":
                return nests.fuse(nest, position)
            case "stage":
                assert isinstance(argument, int)
                if argument >= len(self.computation.tensors):
                    raise Refusal(f"there is no tensor {argument}, but {len(self.computation.tensors)} tensors")
                return nests.stage(nest, position, self.computation.tensors[argument].name)
            case kind:  # which `bind` has as its argument
                return nests.set_kind(nest, position, _KINDS[str(argument or kind)])

    def _refusal(self, step: Step) -> str | None:
        try:
            self.apply(step)
        except Refusal as refusal:
            return refusal.reason
        return None


def _takes(primitive: str) -> str:
    return f"a loop and a {name}" if (name := ARGUMENTS.get(primitive)) else "a loop alone"


def _described(nest: Nest) -> Iterator[str]:
    """Describe a nest without its stage."""
    kinds = {loop.variable: "" if loop.kind == "serial" else f" {loop.kind}" for loop in nest.loops}
    yield "loops " + ", ".join(f"{loop.variable}:{loop.extent}{kinds[loop.variable]}" for loop in nest.loops)
    for relation in nest.relations:
        if isinstance(relation, Split):
            yield f"{relation.parent} = {relation.outer}*{relation.factor} + {relation.inner}"
        else:
            yield f"{relation.outer}, {relation.inner} = divmod({relation.fused}, {relation.extent})"
    for staging in nest.stagings:
        yield f"stage {staging.tensor} in {staging.variable}"


NESTS = "nests"
_TEXT = re.compile(rf"{NESTS}<([^<>]*)>")
_LOOP = re.compile(r"(?P<axis>\w+)(?::(?P<turns>[1-9][0-9]{0,8}))?(?:=(?P<kind>[a-z.]+)(?P<staged>(?:@\w+)*))?")
_KINDS: dict[str, Kind] = {**KINDS, **{kind: kind for kind in BINDINGS}}


class Place(NamedTuple):
    """A loop of a layout.

    Attributes:
        axis: the axis that it goes over.
        turns: its turns; 0 for as many as the axis' other loops leave.
        kind: a primitive that gives a loop its kind, such as `unroll`, or the index that it is bound to; "" for none.
        staged: the tensors that are staged in it.
    """

    axis: str
    turns: int = 0
    kind: str = ""
    staged: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The loop as text."""
        kind = "@".join([self.kind or "serial" * bool(self.staged), *self.staged])
        return self.axis + (f":{self.turns}" if self.turns else "") + (f"={kind}" if kind else "")


Layout = tuple[Place, ...]


def write_layout(layout: Layout) -> str:
    """Return the loops of a statement as text."""
    return ",".join(place.text for place in layout)


def read_layouts(text: str) -> tuple[Layout, ...] | None:
    """Return the layouts of an action, None if it is another action.

    Raises:
        ValueError: if a loop is none.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    return tuple(tuple(map(_place, part.split(",") if part else ())) for part in found[1].split(";"))


def arrange(first: Schedule, layouts: tuple[Layout, ...]) -> Schedule:
    """Return the schedule with these layouts.

    Args:
        first: the initial schedule.
        layouts: one for each statement.

    Raises:
        Refusal: if there are more or fewer layouts than statements, one does not fit its statement, or the target does
            not support the loops.
    """
    if len(layouts) != len(first.nests):
        raise Refusal(f"there are {len(layouts)} layouts and {len(first.nests)} statements")
    nests = tuple(arranged(nest, layout) if layout else nest for nest, layout in zip(first.nests, layouts, strict=True))
    if sum(len(nest.loops) for nest in nests) > MAX_LOOPS:
        raise Refusal(f"there would be more than {MAX_LOOPS} loops")
    for nest in nests:
        check(nest, first.rules)
    check_joins(nests, first.rules)
    return replace(first, nests=nests)


def arranged(nest: Nest, layout: Layout) -> Nest:
    """Return a statement's loops in a layout; whether a target supports them is for `check` to say.

    Args:
        nest: the loops at the start.
        layout: the layout.

    Raises:
        Refusal: if it does not fit the statement.
    """
    if {place.axis for place in layout} != nest.axes.keys():
        raise Refusal(f"the axes of {nest.stage.tensor} are {', '.join(nest.axes)}")
    variables: dict[int, str] = {}
    for axis in nest.axes:
        places = [index for index, place in enumerate(layout) if place.axis == axis]
        places.sort(key=lambda index: layout[index].turns != 0)  # the one that has what is left goes over the others
        nest = _cut(nest, axis, [layout[index].turns for index in places])
        halves = [f"{axis}{'.1' * depth}.0" for depth in range(len(places) - 1)]
        variables |= zip(places, [*halves, axis + ".1" * len(halves)], strict=True)
    loops = {loop.variable: loop for loop in nest.loops}
    ordered = tuple(_of_kind(loops[variables[index]], place.kind) for index, place in enumerate(layout))
    nest = replace(nest, loops=ordered)
    for index, place in enumerate(layout):
        for tensor in place.staged:
            nest = nests.stage(nest, index, tensor)
    return nest


def _cut(nest: Nest, axis: str, turns: list[int]) -> Nest:
    """Split an axis into loops of so many turns, 0 for what is left, the outermost first."""
    if 0 in turns[1:]:
        raise Refusal(f"only one loop of {axis} has as many turns as are left")
    extent = nest.extent[axis]
    inside = math.prod(turns[1:])
    if turns[0] not in (0, -(-extent // inside)):
        raise Refusal(f"the loops of {axis} have {turns[0] * inside} turns, and {axis} has {extent}")
    variable = axis
    for index in range(1, len(turns)):
        position = next(at for at, loop in enumerate(nest.loops) if loop.variable == variable)
        nest = nests.split(nest, position, math.prod(turns[index:]))
        variable = f"{variable}.1"
    return nest


def _of_kind(loop: Loop, kind: str) -> Loop:
    return loop._replace(kind=_KINDS[kind]) if kind else loop


def _place(text: str) -> Place:
    found = _LOOP.fullmatch(text)
    if found is None or (found["kind"] or "serial") not in _KINDS:
        raise ValueError(f"{text!r} is no loop of a layout, such as i, i:8 or i:8=unroll")
    staged = tuple((found["staged"] or "").split("@")[1:])
    return Place(found["axis"], int(found["turns"] or 0), found["kind"] or "", staged)
