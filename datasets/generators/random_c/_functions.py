"""Random functions and structure types."""

from collections.abc import Sequence

from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Parameter, Record, Scope, Structure
from aiocg.datasets.generators.random_c._statements import Body
from aiocg.datasets.generators.random_c.rng import Rng
from aiocg.datasets.generators.random_c.types import F64, I32, INTEGERS, REALS, U32, U64, WORDS, Integer, Scalar

_SCALARS: tuple[Scalar, ...] = (*INTEGERS, *WORDS, I32, U32, *REALS)


def helper(rng: Rng, name: str, functions: Sequence[Function], budget: int) -> Function:
    """Write a small function of about `budget` instructions on numbers, which is there to be inlined."""
    parameters = tuple(_scalar_parameter(rng, letter) for letter in "abc"[: rng.between(1, 3)])
    scope = Scope(functions=[function for function in functions if function.pure])
    scope.add(parameters)
    result = _result(rng)
    body = Body(rng, scope, 400, result)
    body.fill(min(budget - 3 - 2 * len(parameters), rng.choice((0, 0, 8, 16))))
    body.finish(rng.between(1, 3))
    inline = "inline " if rng.chance(50) else ""
    return Function(
        name, result, parameters, _definition(f"static {inline}", name, result, parameters, body), body.work, True
    )


def routine(rng: Rng, name: str, globals: Scope, budget: int, work: int) -> Function:
    """Write a function of about `budget` random statements; a call executes `work` instructions at most."""
    parameters: list[Parameter] = [
        _scalar_parameter(rng, f"x{n}") for n in range(rng.between(1, 3 if budget > 30 else 1))
    ]
    if globals.arrays and rng.chance(45):
        like = rng.choice(globals.arrays)
        parameters.append(Array("data", like.element, like.shape, rng.chance(75)))
    if globals.records and rng.chance(35):
        pointer = rng.chance(70)
        parameters.append(Record("s", rng.choice(globals.records).structure, pointer, not pointer or rng.chance(70)))
    result = _result(rng)
    body = Body(rng, _seen_inside(rng, globals, parameters), work, result)
    body.fill(budget - 8 - 2 * len(parameters))
    body.finish(2 if budget > 20 else 1)
    storage = "" if rng.chance(15) else "static "
    return Function(name, result, tuple(parameters), _definition(storage, name, result, parameters, body), body.work)


def _seen_inside(rng: Rng, globals: Scope, parameters: Sequence[Parameter]) -> Scope:
    """Choose what a function uses. An array that could be its argument is not used by its own name, too."""
    scope = Scope(functions=globals.functions[-24:])
    shapes = [(p.element, p.shape) for p in parameters if isinstance(p, Array)]
    members = {array.text for record in globals.records for array in record.arrays()}
    arrays = [a for a in globals.arrays if (a.element, a.shape) not in shapes and a.text not in members]
    scope.add(rng.sample([lvalue for lvalue in globals.lvalues if lvalue.text.isidentifier()], 3))
    scope.add(rng.sample(arrays, 3))
    scope.add(rng.sample(globals.records, 1))
    scope.add(parameters)
    return scope


def _scalar_parameter(rng: Rng, name: str) -> Lvalue:
    kind = rng.choice(_SCALARS)
    low, high = kind.low, kind.high
    if kind == I32 and rng.chance(60):
        low, high = rng.choice(((0, 63), (0, 1000), (-1000, 1000)))
    return Lvalue(name, kind, low, high)


def _result(rng: Rng) -> Lvalue:
    kind = rng.choice((*WORDS, U64, U32, I32, F64, *INTEGERS))
    if kind == I32 and rng.chance(50):
        return Lvalue("", kind, -(10**6), 10**6)
    return Lvalue("", kind, kind.low, kind.high)


def _definition(storage: str, name: str, result: Lvalue, parameters: Sequence[Parameter], body: Body) -> str:
    declared = ", ".join(parameter.declaration() for parameter in parameters)
    return f"{storage}{result.type.name} {name}({declared})\n{{\n" + "\n".join(body.lines) + "\n}\n"


def structure(rng: Rng, name: str, known: Sequence[Structure]) -> Structure:
    """Make a structure type of numbers, bit-fields, small arrays, and perhaps one of the known types."""
    lines: list[str] = []
    lvalues: list[Lvalue] = []
    arrays: list[Array] = []
    for number in range(rng.between(2, 5)):
        field = f"f{number}"
        choice = rng.below(10)
        if choice == 0 and known:
            inner = rng.choice(known)
            lines.append(f"struct {inner.name} {field};")
            whole = Record(field, inner)
            lvalues += whole.lvalues()
            arrays += whole.arrays()
        elif choice <= 2:
            array = Array(field, rng.choice(_SCALARS), (rng.choice((4, 8, 16)),))
            lines.append(f"{array.element.name} {field}[{array.length}];")
            arrays.append(array)
        elif choice == 3:
            bits = rng.between(2, 20)
            lines.append(f"uint32_t {field} : {bits};")
            lvalues.append(Lvalue(field, Integer(32, True), 0, 2**bits - 1, addressable=False))
        else:
            lvalue = Lvalue(field, kind := rng.choice(_SCALARS), kind.low, kind.high)
            lines.append(f"{lvalue.declaration()};")
            lvalues.append(lvalue)
    text = f"struct {name} {{\n" + "".join(f"    {line}\n" for line in lines) + "};\n"
    return Structure(name, text, tuple(lvalues), tuple(arrays))
