"""Whole programs of a given size."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Parameter, Record, Scope, Structure
from aiocg.datasets.generators.random_c._statements import Body, estimate, mixed
from aiocg.datasets.generators.random_c._values import (
    F64,
    I16,
    I32,
    I64,
    INTEGERS,
    REALS,
    U8,
    U32,
    U64,
    WORDS,
    Integer,
    Rng,
    Scalar,
    Value,
)
from aiocg.datasets.generators.random_c.idioms import idiom

ROUND_WORK = 30_000_000  # instructions, not optimised, that one round may execute, on the whole

_WORK = 30_000_000  # that the rounds of an argument of 1 execute at most, unless a single one is more
_STATE = Lvalue("state", U64, U64.low, U64.high, addressable=False)
_CALLS_IN_A_PHASE = 10
_IN_SIGHT = 16  # variables, and functions, that random code sees
_CALL = 9  # instructions of a call from a phase
_BUDGETS = (30, 60, 80, 120, 160, 240, 320)  # instructions of a function of random statements
_LENGTHS = (8, 16, 16, 32, 32, 64)

# --------------------------------------------------------------------------------- Random functions and structure types

_SCALARS = (U8, I16, I32, I32, U32, I64, U64, *INTEGERS, F64, *REALS)
_NAMES = ("update", "step", "process", "combine", "advance", "adjust", "visit", "resolve", "compute", "scan")
_PARTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("program.toml").read_text(encoding="utf-8"))
_MAIN, _DIGEST = Template(_PARTS["main"]), Template(_PARTS["digest"])
_BOUNDED: str = _PARTS["bounded"]


_FIELDS: tuple[Scalar, ...] = (*INTEGERS, *WORDS, I32, U32, *REALS)


def _helper(rng: Rng, name: str, functions: Sequence[Function], budget: int) -> Function:
    """Write a small function of about `budget` instructions on numbers, which is there to be inlined."""
    parameters = tuple(_scalar_parameter(rng, letter) for letter in "abc"[: rng.between(1, 3)])
    scope = Scope(functions=[function for function in functions if function.pure])
    scope.add(parameters)
    result = _result(rng)
    body = Body(rng, scope, 400, result)
    body.fill(min(budget - 3 - 2 * len(parameters), rng.choice((0, 0, 8, 16))))
    body.finish(rng.between(1, 3))
    inline = "inline " if rng.chance(50) else ""
    text = _definition(f"static {inline}", name, result, parameters, body)
    return Function(name, result, parameters, text, body.work, True)


def _routine(rng: Rng, name: str, globals: Scope, budget: int, work: int) -> Function:
    """Write a function of about `budget` random statements; a call executes `work` instructions at most."""
    count = rng.between(1, 3 if budget > 30 else 1)
    parameters: list[Parameter] = [_scalar_parameter(rng, f"x{n}") for n in range(count)]
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
    kind = rng.choice(_FIELDS)
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


def _structure(rng: Rng, name: str, known: Sequence[Structure]) -> Structure:
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
            array = Array(field, rng.choice(_FIELDS), (rng.choice((4, 8, 16)),))
            lines.append(f"{array.element.name} {field}[{array.length}];")
            arrays.append(array)
        elif choice == 3:
            bits = rng.between(2, 20)
            lines.append(f"uint32_t {field} : {bits};")
            lvalues.append(Lvalue(field, Integer(32, True), 0, 2**bits - 1, addressable=False))
        else:
            lvalue = Lvalue(field, kind := rng.choice(_FIELDS), kind.low, kind.high)
            lines.append(f"{lvalue.declaration()};")
            lvalues.append(lvalue)
    text = f"struct {name} {{\n" + "".join(f"    {line}\n" for line in lines) + "};\n"
    return Structure(name, text, tuple(lvalues), tuple(arrays))


# --------------------------------------------------------------------------------------- Whole programs of a given size


def random_program(seed: int, size: int) -> str:
    """Write a program in C.

    Args:
        seed: any whole number; the same seed and size give the same text, everywhere.
        size: about how many IR instructions it is to have, unoptimised; 50 or more.
    """
    return _Program(Rng(seed), size).text(f"seed {seed}, size {size}")


class _Program:
    """A program that grows by one function after the other, each with what it needs."""

    def __init__(self, rng: Rng, size: int) -> None:
        self._rng = rng
        self._size = size
        self._globals = Scope()
        self._structures: list[Structure] = []
        self._declarations: list[str] = []
        self._digests: dict[str, str] = {}  # the functions that mix arrays into the state, by their names
        self._digest = Body(rng, Scope(), 0, _STATE, whole=False)
        self._phases = [Body(rng, Scope(), ROUND_WORK, _STATE, whole=False)]
        self._called: set[str] = set()
        self._spent = estimate(_MAIN.substitute(rounds=1, body="", end=""))
        self._names = 0
        self._bounds = size >= 200  # nearly all of these use `bounded`
        self._grow_to_size()

    def _grow_to_size(self) -> None:
        limit = max(4000, min(60_000, ROUND_WORK * 60 // self._size))
        while self._left() >= 40:
            self._declare_something()
            self._add(self._unit(max(20, min(self._left() - 12, 320)), limit))
        for function in self._globals.functions:
            if function.name not in self._called:
                self._call(function)
        if (left := self._left()) > 4:
            self._phases[-1].scope = self._seen()
            self._phases[-1].fill(left)

    def _left(self) -> int:
        digest = self._digest.spent + _CALL if self._digest.lines else 0
        uncalled = len(self._globals.functions) - len(self._called)
        return self._size - self._spent - self._phases[-1].spent - digest - self._prelude_cost() - uncalled * _CALL

    def _prelude_cost(self) -> int:
        """Find out whether `bounded` is used, and remember it."""
        if not self._bounds:
            self._bounds = any("bounded(" in function.text for function in self._globals.functions[-1:])
            self._bounds = self._bounds or any("bounded(" in line for line in self._phases[-1].lines)
        return estimate(_BOUNDED) if self._bounds else 0

    def _unit(self, budget: int, limit: int) -> Function:
        """Write one function: an idiom of real code, a small helper, or random statements."""
        choice = self._rng.below(100)
        if choice < 66:
            for _ in range(4):
                found = idiom(self._rng, self._name, limit)
                if found.work <= limit and self._price(found) <= budget:
                    return found
        budget = min(budget, self._rng.choice(_BUDGETS))
        if choice < 74:
            return _helper(self._rng, self._name("helper"), self._globals.functions[-_IN_SIGHT:], min(budget, 40))
        return _routine(self._rng, self._name(self._rng.choice(_NAMES)), self._globals, budget, limit)

    def _price(self, function: Function) -> int:
        """Estimate the instructions of a function, and of the digests of the arrays that it wants declared."""
        arrays = [p for p in function.parameters if isinstance(p, Array)]
        missing = [p for p in arrays if not any(p.is_like(array) for array in self._globals.arrays)]
        bounds = 0 if self._bounds or "bounded(" not in function.text else estimate(_BOUNDED)
        return estimate(function.text) + bounds + sum(8 if _digest_name(p) in self._digests else 40 for p in missing)

    def _add(self, function: Function) -> None:
        self._spent += estimate(function.text)
        self._globals.functions.append(function)
        if not function.pure or self._rng.chance(50):  # others may call it first
            self._call(function)

    def _call(self, function: Function) -> None:
        """Call a function from the phase at hand, with everything it wants."""
        phase = self._phases[-1]
        if self._size > 600 and len(phase.lines) >= _CALLS_IN_A_PHASE:
            self._spent += phase.spent + _CALL
            phase = Body(self._rng, Scope(), ROUND_WORK, _STATE, whole=False)
            self._phases.append(phase)
        self._called.add(function.name)
        self._provide(function)
        phase.scope = self._seen()
        phase.accumulate(_STATE.text, function)

    def _seen(self) -> Scope:
        """Return what a phase sees: the state that is handed on, the latest variables, and all arrays."""
        lvalues = [*self._globals.lvalues[-_IN_SIGHT:], _STATE, _STATE]
        return Scope(lvalues, self._globals.arrays, self._globals.records, self._globals.functions[-_IN_SIGHT:])

    def _provide(self, function: Function) -> None:
        """Declare arrays and structures until there is one for each parameter."""
        arrays = [parameter for parameter in function.parameters if isinstance(parameter, Array)]
        for index, parameter in enumerate(arrays):
            wanted = [other for other in arrays[: index + 1] if other.is_like(parameter)]
            have = [a for a in self._globals.arrays if a.is_like(parameter) and a.text.isidentifier()]
            if len(have) < len(wanted):
                self._declare_array(parameter.element, parameter.shape)

    def _declare_something(self) -> None:
        """Declare a variable, an array or a structure, unless there are many in relation to the size."""
        room = self._size // 80 - len(self._declarations)
        if room <= 0 or self._left() < 120 or not self._rng.chance(60):
            return
        choice = self._rng.below(100)
        if choice < 35:
            kind = self._rng.choice(_SCALARS)
            lvalue = Lvalue(self._name("g"), kind, kind.low, kind.high)
            self._declare(lvalue, f"{lvalue.declaration()} = {self._rng.below(100)};")
            self._digest.write(f"state = state * 31 + {mixed(lvalue.value)};")
        elif choice < 80 or self._size < 400:
            shape: tuple[int, ...] = (self._rng.choice(_LENGTHS),)
            if self._rng.chance(20):
                shape = (self._rng.choice((4, 6, 8)), self._rng.choice((4, 8, 12)))
            self._declare_array(self._rng.choice(_SCALARS), shape)
        else:
            self._declare_record()

    def _declare(self, item: Parameter, text: str) -> None:
        storage = "" if self._rng.chance(15) else "static "
        self._declarations.append(f"{storage}{text}\n")
        self._globals.add([item])

    def _declare_array(self, kind: Scalar, shape: tuple[int, ...]) -> None:
        array = Array(self._name("g"), kind, shape)
        lengths = "".join(f"[{length}]" for length in shape)
        self._declare(array, f"{kind.name} {array.text}{lengths} = {self._initializer(shape)};")
        self._digest_array(array)

    def _initializer(self, shape: tuple[int, ...]) -> str:
        if len(shape) > 1:
            return "{" + ", ".join(self._initializer(shape[1:]) for _ in range(shape[0])) + "}"
        return "{" + ", ".join(str(self._rng.below(128)) for _ in range(min(shape[0], 16))) + "}"

    def _declare_record(self) -> None:
        if not self._structures or self._rng.chance(40):
            made = _structure(self._rng, self._name("s"), self._structures)
            self._structures.append(made)
        record = Record(self._name("g"), self._rng.choice(self._structures))
        self._declare(record, f"{record.declaration()} = {{{self._rng.below(2)}}};")
        for lvalue in record.lvalues():
            self._digest.write(f"state = state * 31 + {mixed(lvalue.value)};")
        for array in record.arrays():
            self._digest_array(array)

    def _digest_array(self, array: Array) -> None:
        """Mix an array into the state when the program ends."""
        kind = array.element
        name = _digest_name(array)
        if name not in self._digests:
            element = mixed(Value("data[i]", kind, kind.low, kind.high, True))
            self._digests[name] = _DIGEST.substitute(suffix=kind.suffix, name=kind.name, element=element)
            self._spent += estimate(self._digests[name])
        if len(array.shape) == 1:
            self._digest.write(f"state = {name}(state, {array.text}, {array.length});")
        else:
            self._digest.write(f"for (int32_t i = 0; i < {array.length}; i++)")
            self._digest.write(f"    state = {name}(state, {array.text}[i], {array.shape[1]});")

    def _name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}_{self._names}"

    def text(self, title: str) -> str:
        """Write the program down."""
        functions = [function.text for function in self._globals.functions]
        body = self._phases[0].lines
        if len(self._phases) > 1:
            functions += [_function(f"phase_{number}", phase.lines) for number, phase in enumerate(self._phases)]
            body = [f"    state = phase_{number}(state);" for number in range(len(self._phases))]
        if self._digest.lines:
            functions += [*self._digests.values(), _function("digest", self._digest.lines)]
        work = sum(phase.work for phase in self._phases) + 10
        rounds, end = max(1, min(_WORK // work, 10**6)), "    state = digest(state);\n" if self._digest.lines else ""
        main = _MAIN.substitute(rounds=rounds, body="\n".join(f"    {line}" for line in body), end=end)
        parts = [*(structure.text for structure in self._structures), "".join(self._declarations), *functions, main]
        program = "\n".join(part for part in parts if part)
        known = _PARTS["headers"].items()
        headers = [header for header, words in known if any(f"{word}(" in program for word in words)]
        includes = "".join(f"#include <{header}>\n" for header in sorted([*headers, "stdint.h"]))
        prelude = [_BOUNDED] if "bounded(" in program else []
        return "\n".join([f"/* {title} */\n{includes}", *prelude, program])


def _digest_name(array: Array) -> str:
    return f"digest_{array.element.suffix}"


def _function(name: str, lines: list[str]) -> str:
    return f"static uint64_t {name}(uint64_t state)\n{{\n" + "\n".join([*lines, "    return state;"]) + "\n}\n"
