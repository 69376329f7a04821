"""Access to tensor elements, as scalars or vectors, as LLVM IR."""

from collections.abc import Sequence

from llvmlite import ir

from aiocg.workers.loops.cpu._functions import FLOAT, intrinsic, lanes, splat
from aiocg.workers.loops.cpu._loops import BIT, INDEX, Condition, Loops, Scope
from aiocg.workers.loops.cpu.indices import Form
from aiocg.workers.loops.nest import Loop

ALIGNMENT = 4  # bytes
LANE = ir.IntType(32)
ALIGNED = ir.Constant(LANE, ALIGNMENT)
POINTER = ir.PointerType()


class Memory:
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
            pointer = self.builder.gep(
                pointer, [ir.Constant(INDEX, offset.constant)], inbounds=whole, source_etype=FLOAT
            )
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
