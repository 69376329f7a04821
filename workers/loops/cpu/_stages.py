"""One nest as a function in LLVM IR.

Loops are generated from the outermost to the innermost. An unrolled loop's body is generated once per iteration; a
vectorised loop disappears, since its body works on vectors. Remainders of splits shorten loops where possible. For
unrolled and vectorised loops there are two versions of the code: one for full tiles, without tests, and one that tests
each copy and masks vectors.

Reduction results are kept in local variables, which become registers, around the outermost reduction loop that contains
only unrolled and vectorised loops over the result. If there are reduction loops further out, the results in memory are
initialised before them, and the local ones added.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from llvmlite import ir

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import REDUCERS, Call, Expression, Number, Read, Tensor
from aiocg.workers.loops._nest import Loop, Nest
from aiocg.workers.loops.cpu._functions import FLOAT, call, intrinsic, lanes, splat
from aiocg.workers.loops.cpu._loops import BIT, INDEX, Body, Condition, Form, Loops, Scope, constant, forms

LARGEST = 1 << 14  # hardware vector operations in one kernel; more would take LLVM too long
MOST_INSTRUCTIONS = 1 << 15  # of LLVM IR in one kernel; many compute addresses, and compile time grows quadratically
LONG_FUNCTIONS = {"exp": 16, "log": 24, "tanh": 40}  # operations that each expands to
MOST_APART = 64  # copies of the code with separate tests; with more, loops are not unrolled
KINDS = ("serial", "unrolled", "vectorized", "parallel", "joined")


# --------------------------------------------------------- Access to tensor elements, as scalars or vectors, as LLVM IR

ALIGNMENT = 4  # bytes
LANE = ir.IntType(32)
ALIGNED = ir.Constant(LANE, ALIGNMENT)
POINTER = ir.PointerType()


class _Memory:
    """Reads and writes elements; those of a vectorised loop as one vector.

    Attributes:
        width: the number of lanes of a vector; 0 without a vectorised loop.
        kind: the type of computed values: a vector, or a scalar without a vectorised loop.
    """

    def __init__(self, code: Loops, vectorized: Loop | None) -> None:
        self.code = code
        self.builder = code.builder
        self.lane = vectorized.variable if vectorized else ""
        self.width = vectorized.extent if vectorized else 0
        self.kind = ir.VectorType(FLOAT, self.width) if self.width else FLOAT

    def widened(self, value: ir.Value) -> ir.Value:
        """Return a scalar, broadcast to a vector if vectors are used."""
        if not self.width or lanes(value.type):
            return value
        return self._splat(value, self.kind)

    def load(self, pointer: ir.Value, offset: Form, scope: Scope) -> ir.Value:
        """Read an element, or a vector if it depends on the vectorised loop."""
        stride = offset.factor(self.lane)
        if stride == 0:
            return self.builder.load(self._address(pointer, offset, scope), typ=FLOAT, align=ALIGNMENT)
        if stride == 1:
            address = self._address(pointer, offset.without(self.lane), scope)
            if scope.mask is None:
                return self.builder.load(address, typ=self.kind, align=ALIGNMENT)
            name = f"llvm.masked.load.v{self.width}f32.p0"
            return intrinsic(self.builder, name, self.kind, address, ALIGNED, scope.mask, splat(self.kind, 0.0))
        if scope.mask is not None:
            addresses = self._addresses(pointer, offset, scope)
            name = f"llvm.masked.gather.v{self.width}f32.v{self.width}p0"
            return intrinsic(self.builder, name, self.kind, addresses, ALIGNED, scope.mask, splat(self.kind, 0.0))
        vector: ir.Value = ir.Constant(self.kind, ir.Undefined)
        for number in range(self.width):
            address = self._address(pointer, offset, scope.number(self.lane, number))
            element = self.builder.load(address, typ=FLOAT, align=ALIGNMENT)
            vector = self.builder.insert_element(vector, element, ir.Constant(LANE, number))
        return vector

    def store(self, pointer: ir.Value, offset: Form, value: ir.Value, scope: Scope) -> None:
        """Write an element, or a vector if it depends on the vectorised loop."""
        stride = offset.factor(self.lane)
        if stride == 0:
            self.builder.store(value, self._address(pointer, offset, scope), align=ALIGNMENT)
            return
        value = self.widened(value)
        if stride == 1:
            address = self._address(pointer, offset.without(self.lane), scope)
            if scope.mask is None:
                self.builder.store(value, address, align=ALIGNMENT)
            else:
                name = f"llvm.masked.store.v{self.width}f32.p0"
                intrinsic(self.builder, name, ir.VoidType(), value, address, ALIGNED, scope.mask)
        elif scope.mask is not None:
            addresses = self._addresses(pointer, offset, scope)
            name = f"llvm.masked.scatter.v{self.width}f32.v{self.width}p0"
            intrinsic(self.builder, name, ir.VoidType(), value, addresses, ALIGNED, scope.mask)
        else:
            for number in range(self.width):
                element = self.builder.extract_element(value, ir.Constant(LANE, number))
                address = self._address(pointer, offset, scope.number(self.lane, number))
                self.builder.store(element, address, align=ALIGNMENT)

    def mask(self, conditions: Sequence[Condition], scope: Scope) -> tuple[ir.Value, ir.Value]:
        """Return the lanes for which all conditions hold, and whether there is one."""
        mask = self._holding(conditions[0], scope)
        for one in conditions[1:]:
            mask = self.builder.and_(mask, self._holding(one, scope))
        some = intrinsic(self.builder, f"llvm.vector.reduce.or.v{self.width}i1", BIT, mask)
        return mask, some

    def _holding(self, condition: Condition, scope: Scope) -> ir.Value:
        """Return the lanes for which a condition holds."""
        form = self.code.resolved(condition.form, scope)
        factor = form.factor(self.lane)
        if factor:
            room = self.builder.sub(
                ir.Constant(INDEX, condition.bound), self.code.index(form.without(self.lane), scope), flags=("nsw",)
            )
            kind = ir.VectorType(INDEX, self.width)
            steps = ir.Constant(kind, [ir.Constant(INDEX, factor * number) for number in range(self.width)])
            return self.builder.icmp_signed("<", steps, self._splat(room, kind))
        mask: ir.Value = ir.Constant(ir.VectorType(BIT, self.width), ir.Undefined)
        for number in range(self.width):
            holds = self.code.below(form, condition.bound, scope.number(self.lane, number))
            holds = ir.Constant(BIT, int(holds)) if isinstance(holds, bool) else holds
            mask = self.builder.insert_element(mask, holds, ir.Constant(LANE, number))
        return mask

    def _address(self, pointer: ir.Value, offset: Form, scope: Scope) -> ir.Value:
        """Return the address of an element; the constant is added last, since unrolled copies share the rest.

        Intermediate addresses are inside the tensor, unless an index counts backwards or the element is skipped.
        """
        offset = self.code.resolved(offset, scope)
        moving = self.code.moving(offset, scope)
        whole = scope.mask is None and offset.natural
        if moving is not None:
            pointer = self.builder.gep(pointer, [moving], inbounds=whole, source_etype=FLOAT)
        if offset.constant:
            further = ir.Constant(INDEX, offset.constant)
            pointer = self.builder.gep(pointer, [further], inbounds=whole, source_etype=FLOAT)
        return pointer

    def _addresses(self, pointer: ir.Value, offset: Form, scope: Scope) -> ir.Value:
        """Return the address of each lane's element, including inactive lanes."""
        addresses: ir.Value = ir.Constant(ir.VectorType(POINTER, self.width), ir.Undefined)
        for number in range(self.width):
            address = self._address(pointer, offset, scope.number(self.lane, number))
            addresses = self.builder.insert_element(addresses, address, ir.Constant(LANE, number))
        return addresses

    def _splat(self, value: ir.Value, kind: ir.VectorType) -> ir.Value:
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(LANE, 0))
        every = ir.Constant(ir.VectorType(LANE, kind.count), None)
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), every)


# ------------------------------------------------------------------------------------ One nest as a function in LLVM IR


class Room:
    """The remaining budget of generated code, which is known only as it is generated.

    Attributes:
        operations: hardware vector operations.
        instructions: instructions of LLVM IR.
    """

    def __init__(self) -> None:
        self.operations = LARGEST
        self.instructions = MOST_INSTRUCTIONS

    def take(self, operations: int, instructions: int) -> None:
        """Consume part of the budget.

        Raises:
            CompilationError: with `FailureCode.ACTION` if too little is left.
        """
        self.operations -= operations
        self.instructions -= instructions
        if self.operations < 0 or self.instructions < 0:
            raise _refuse("this needs too much code: unroll less, or vectorise where elements lie beside each other")


class _Builder(ir.IRBuilder):  # type: ignore[misc]
    """Generates instructions within the budget."""

    def __init__(self, block: ir.Block, room: Room) -> None:
        super().__init__(block)
        self._room = room

    def _insert(self, instruction: ir.Instruction) -> None:
        self._room.take(0, 1)
        super()._insert(instruction)


def write_stage(
    function: ir.Function, nest: Nest, tensors: Sequence[Tensor], room: Room, *, in_parts: bool = False
) -> None:
    """Write a nest into an empty function.

    The function takes a pointer for each tensor, and the first and end iteration of the outermost loop, which count if
    that is parallel or `in_parts`.

    Raises:
        CompilationError: with `FailureCode.ACTION` if no code can be generated for it, or too much would be.
    """
    _Stage(function, nest, tensors, room, in_parts).write()


def _refuse(message: str) -> CompilationError:
    return CompilationError(FailureCode.ACTION, message)


class _Stage:
    def __init__(
        self, function: ir.Function, nest: Nest, tensors: Sequence[Tensor], room: Room, in_parts: bool
    ) -> None:
        self.nest = nest
        self.stage = nest.stage
        self.loops = nest.loops
        self.divided = nest.loops[0] if nest.loops and (in_parts or nest.loops[0].kind == "parallel") else None
        self.forms = forms(nest)
        *pointers, self.begin, self.end = function.args
        self.pointers = {tensor.name: pointer for tensor, pointer in zip(tensors, pointers, strict=True)}
        self.shapes = {tensor.name: tensor.shape for tensor in tensors}
        self.room = room
        self.builder = _Builder(function.append_basic_block(), room)
        self.code = Loops(self.builder, nest.extent)
        self.vector = self._vector()
        self.memory = _Memory(self.code, self.vector)
        self.copied = frozenset(loop.variable for loop in self.loops if loop.kind in ("unrolled", "vectorized"))
        self.offsets: dict[Read, Form] = {}

    def write(self) -> None:
        """Write the whole stage."""
        reduced = self.nest.reductions
        known = [Condition(self.forms[name], bound, name in reduced) for name, bound in self.nest.guards]
        self._walk(0, Scope(conditions=tuple(known)))
        self.builder.ret_void()

    # ------------------------------------------------------------------------------------------- properties of the nest

    def _vector(self) -> Loop | None:
        for position, loop in enumerate(self.loops):
            if loop.kind not in KINDS:
                raise _refuse(f"loop {loop.variable} is {loop.kind}, which a processor does not have")
            if loop.kind == "vectorized" and position != len(self.loops) - 1:
                raise _refuse(f"loop {loop.variable} is vectorized and not the innermost one")
            if loop.kind in ("parallel", "joined") and (position or self._reduced(loop)):
                raise _refuse(f"loop {loop.variable} is {loop.kind} and not the outermost one of the result")
        if self.nest.stagings:
            raise _refuse("a processor has no shared memory to copy to")
        return self.loops[-1] if self.loops and self.loops[-1].kind == "vectorized" else None

    def _reduced(self, loop: Loop) -> bool:
        return loop.variable in self.nest.reductions

    @cached_property
    def first_reduced(self) -> int | None:
        """The position of the outermost reduction loop."""
        return next((position for position, loop in enumerate(self.loops) if self._reduced(loop)), None)

    def _root(self, rolled: bool) -> int | None:
        """Return the position of the loop around which results are kept in local variables."""
        kinds = ("vectorized",) if rolled else ("unrolled", "vectorized")
        for position, loop in enumerate(self.loops):
            inside = (one for one in self.loops[position:] if not self._reduced(one))
            if self._reduced(loop) and all(one.kind in kinds for one in inside):
                return position
        return None

    # ------------------------------------------------------------------------------------------- loops

    def _walk(self, position: int, scope: Scope, leaf: Body | None = None, *, results_only: bool = False) -> None:
        """Write the loops from a position on, with their conditions, reductions and bodies.

        Args:
            position: the position of the outermost one.
            scope: what is known there.
            leaf: writes the innermost code; by default the stage's body, with the code for reductions.
            results_only: omit the reduction loops.
        """
        tiles = () if results_only else self._tiles(scope)
        if tiles:
            self._versions(position, scope, tiles, leaf)
            return
        if leaf is None:
            if position == self._root(scope.rolled):
                self._keep_results(position, scope)
                return
            if position == self.first_reduced:
                self._walk(position, self._of_results(scope), self._initialize, results_only=True)
        if position == len(self.loops):
            self._leaf(scope, leaf or (self._store_body if self.first_reduced is None else self._accumulate))
            return

        def inside(inner: Scope) -> None:
            self._walk(position + 1, inner, leaf, results_only=results_only)

        loop = self.loops[position]
        if (results_only and self._reduced(loop)) or loop.kind == "vectorized":
            inside(scope)
        elif loop.kind == "unrolled" and not scope.rolled:
            for turn in range(loop.extent):
                self._bound(scope.number(loop.variable, turn), inside)
        else:
            first = self.begin if loop is self.divided else ir.Constant(INDEX, 0)
            end, scope = self._end(loop, scope)
            self.code.count(first, end, lambda turn: self._bound(scope.value(loop.variable, turn), inside))

    def _bound(self, scope: Scope, inside: Body) -> None:
        """Test the conditions whose variables are all known now."""
        known = next((one for one in scope.conditions if scope.knows(one.form.variables)), None)
        if known is None:
            inside(scope)
        else:
            holds = self.code.below(known.form, known.bound, scope)
            self.code.when(holds, scope.without((known,)), lambda inner: self._bound(inner, inside))

    def _end(self, loop: Loop, scope: Scope) -> tuple[ir.Value, Scope]:
        """Return the end of a loop, shortened by the conditions whose last variable it is."""
        end = self.end if loop is self.divided else ir.Constant(INDEX, loop.extent)
        cutting = []
        for one in scope.conditions:
            factor = one.form.factor(loop.variable)
            rest = one.form.without(loop.variable)
            if factor and scope.knows(rest.variables):
                cutting.append(one)
                end = self._least(end, self._turns(self.code.resolved(rest, scope), one.bound, factor, scope))
        return end, scope.without(cutting)

    def _turns(self, rest: Form, bound: int, factor: int, scope: Scope) -> ir.Value:
        """Return the number of natural n with factor * n + rest < bound; below 1 if there are none."""
        moving = self.code.moving(rest, scope)
        room = bound - rest.constant + factor - 1
        if moving is None:
            return ir.Constant(INDEX, room // factor)
        left = self.builder.sub(ir.Constant(INDEX, room), moving, flags=("nsw",))
        return left if factor == 1 else self.builder.sdiv(left, ir.Constant(INDEX, factor))

    def _least(self, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(a, ir.Constant) and isinstance(b, ir.Constant):
            return min(a, b, key=lambda one: one.constant)
        return intrinsic(self.builder, "llvm.smin.i64", INDEX, a, b)

    # ------------------------------------------------------------------------------------------- versions

    def _tiles(self, scope: Scope) -> tuple[Condition, ...]:
        """Return the conditions that one test here can decide for all copies of the code."""
        for reduced in (False, True):
            own = [one for one in scope.conditions if not one.apart and one.reduced == reduced]
            waiting = tuple(one for one in own if self._copies(one, scope))
            if waiting and all(scope.knows(one.form.variables - self.copied) for one in waiting):
                return waiting
        return ()

    def _copies(self, condition: Condition, scope: Scope) -> frozenset[str]:
        """Return a condition's variables in which copies of the code still differ; none if it is not a sum of them."""
        names = frozenset(name for name in condition.form.variables & self.copied if name not in scope.numbers)
        return names if all(condition.form.factor(name) for name in names) else frozenset()

    def _versions(self, position: int, scope: Scope, tiles: tuple[Condition, ...], leaf: Body | None) -> None:
        """Write the code twice: for conditions that hold for all copies, and with a test in each copy.

        The second version serves only the last iterations of loops. With many copies LLVM would take longer for it than
        for everything else.
        """
        holds: ir.Value | bool = True
        for one in tiles:
            last = {name: self.nest.extent[name] - 1 for name in self._copies(one, scope)}
            farthest = one.form.where(last, self.nest.extent)
            holds = self.code.both(holds, self.code.below(farthest, one.bound, scope))
        apart = (replace(one, apart=True) if one in tiles else one for one in scope.conditions)
        copies = math.prod(loop.extent for loop in self.loops[position:] if loop.kind == "unrolled")
        rolled = scope.rolled or (leaf is None and copies > MOST_APART)
        partial = replace(scope.inner(), conditions=tuple(apart), rolled=rolled)
        self.code.either(
            holds,
            lambda: self._walk(position, scope.without(tiles).inner(), leaf),
            lambda: self._walk(position, partial, leaf),
        )

    # ------------------------------------------------------------------------------------------- bodies

    def _leaf(self, scope: Scope, leaf: Body) -> None:
        """Write a body, with a mask if lanes of its vectors may be inactive."""
        if not scope.conditions:
            leaf(scope)
            return
        mask, some = self.memory.mask(scope.conditions, scope)
        self.code.when(some, replace(scope, conditions=(), mask=mask), leaf)

    def _store_body(self, scope: Scope) -> None:
        self.memory.store(self.pointers[self.stage.tensor], self._result, self._value(self.stage.body, scope), scope)

    def _initialize(self, scope: Scope) -> None:
        identity = ir.Constant(FLOAT, REDUCERS[self.stage.reducer])
        self.memory.store(self.pointers[self.stage.tensor], self._result, identity, scope)

    def _accumulate(self, scope: Scope) -> None:
        """Add to the result in memory."""
        pointer = self.pointers[self.stage.tensor]
        so_far = self.memory.load(pointer, self._result, scope)
        self.memory.store(pointer, self._result, self._combined(so_far, scope), scope)

    def _keep_results(self, position: int, scope: Scope) -> None:
        """Write the loops from a position on, keeping all their results in local variables meanwhile."""
        names = [one.variable for one in self.loops[position:] if one.kind == "unrolled" and not self._reduced(one)]
        extents = [range(self.nest.extent[name]) for name in names]
        kept = {turns: self._local() for turns in itertools.product(*extents)}
        for local in kept.values():
            self.builder.store(splat(self.memory.kind, REDUCERS[self.stage.reducer]), local)

        def local_of(inner: Scope) -> ir.Value:
            return kept[tuple(inner.numbers[name] for name in names)]

        def accumulate(inner: Scope) -> None:
            local = local_of(inner)
            so_far = self.builder.load(local, typ=self.memory.kind)
            self.builder.store(self._combined(so_far, inner), local)

        def write(inner: Scope) -> None:
            value = self.builder.load(local_of(inner), typ=self.memory.kind)
            if self.vector and self._reduced(self.vector):
                value = self._horizontal(value)
            pointer = self.pointers[self.stage.tensor]
            if position != self.first_reduced:
                so_far = self.memory.load(pointer, self._result, inner)
                value = self._both(so_far, value)
            self.memory.store(pointer, self._result, value, inner)

        self._walk(position, scope, accumulate)
        self._walk(position, self._of_results(scope), write, results_only=True)

    def _of_results(self, scope: Scope) -> Scope:
        """Return the scope without the conditions of reduction loops."""
        return scope.without([one for one in scope.conditions if one.reduced])

    def _local(self) -> ir.Value:
        with self.builder.goto_entry_block():
            return self.builder.alloca(self.memory.kind)

    # ------------------------------------------------------------------------------------------- values

    def _combined(self, so_far: ir.Value, scope: Scope) -> ir.Value:
        """Return the result so far with one more element, or a vector of them."""
        body = self.stage.body
        if self.stage.reducer == "sum" and isinstance(body, Call) and body.function == "mul":
            a, b = (self._widened(self._value(one, scope), so_far.type) for one in body.arguments)
            value = call(self.builder, "fma", (a, b, so_far))
        else:
            value = self._both(so_far, self._widened(self._value(body, scope), so_far.type))
        masked = scope.mask is not None and lanes(so_far.type)
        return self.builder.select(scope.mask, value, so_far) if masked else value

    def _both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        if self.stage.reducer == "sum":
            return self.builder.fadd(a, b, flags=("reassoc", "contract", "nsz"))
        return call(self.builder, self.stage.reducer, (a, b))

    def _horizontal(self, vector: ir.Value) -> ir.Value:
        suffix = f"v{lanes(vector.type)}f32"
        if self.stage.reducer == "sum":
            name, arguments = "fadd", [ir.Constant(FLOAT, 0.0), vector]
        else:
            name, arguments = {"max": "fmaximum", "min": "fminimum"}[self.stage.reducer], [vector]
        name = f"llvm.vector.reduce.{name}.{suffix}"
        return intrinsic(self.builder, name, FLOAT, *arguments, flags=("reassoc", "nsz"))

    def _value(self, expression: Expression, scope: Scope) -> ir.Value:
        """Compute an expression: a vector if it depends on the vectorised loop, otherwise a scalar."""
        operations = LONG_FUNCTIONS.get(expression.function, 1) if isinstance(expression, Call) else 1
        self.room.take(operations * max(1, self.memory.width // 16), 0)
        if isinstance(expression, Number):
            return ir.Constant(FLOAT, expression.value)
        if isinstance(expression, Read):
            return self.memory.load(self.pointers[expression.tensor], self._offset(expression), scope)
        arguments = [self._value(one, scope) for one in expression.arguments]
        widest = max((one.type for one in arguments), key=lanes)
        return call(self.builder, expression.function, [self._widened(one, widest) for one in arguments])

    def _widened(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        return self.memory.widened(value) if lanes(kind) else value

    @cached_property
    def _result(self) -> Form:
        """Return the indices of the result element that a body computes."""
        return self._place(self.shapes[self.stage.tensor], [self.forms[axis.name] for axis in self.stage.spatial])

    def _offset(self, read: Read) -> Form:
        found = self.offsets.get(read)
        if found is None:
            indices = []
            for index in read.indices:
                form = constant(index.constant)
                for axis, factor in index.terms:
                    form = form.plus(self.forms[axis], factor)
                indices.append(form)
            found = self.offsets[read] = self._place(self.shapes[read.tensor], indices)
        return found

    def _place(self, shape: Sequence[int], indices: Sequence[Form]) -> Form:
        """Return the position of an element in an array in C order."""
        form = constant(0)
        for extent, index in zip(shape, indices, strict=True):
            form = constant(0).plus(form, extent).plus(index)
        return form
