"""The worker's side of the environments of LLVM's decisions: one action is one answer to LLVM."""

import array
import copy
import dataclasses
import functools
import hashlib
import re
import resource
import struct
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from aiocg.transport import elf
from aiocg.transport.arrays import Array
from aiocg.transport.messages import ActionSpaceSpec, FailureCode, ObservationSpec
from aiocg.workers.compilation import CompilationError, CompilationSession, Observation
from aiocg.workers.decisions._channel import (
    KINDS,
    OWN_OPTIONS,
    Ended,
    Feature,
    Kind,
    Question,
    legal_actions,
    numbers,
    own_answer,
    own_decision,
    value_of,
)
from aiocg.workers.decisions._compiling import Compile, Compiler, Killed, NoRoom, pass_on
from aiocg.workers.llvm.baselines import MARKED_LEVELS, Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Context
from aiocg.workers.llvm.session import LlvmSession
from aiocg.workers.llvm.states import Transitions

LEVELS = ("O1", "O2", "O3", "Os", "Oz")
_MARKED = {"Os": "OsOptsize", "Oz": "OzMinsize"}
MOST_WAITING = 1_000  # processes that wait for a decision, of one worker; what they decided is repeated if they return
_T = TypeVar("_T")
_SPILLS = re.compile(r"([0-9.e+-]+) total (?:folded )?(?:spills|reloads) cost")
_NO_PLACE = "<unknown>:0:0: "
_DENSITY = "use_def_density"
_NOT_INLINED = "' not inlined into '"
_TAKEN = re.compile(r"[0-9-]{38,}(?:true|false)$")  # the name of the callee, all features, and what was decided
_PLACED = re.compile(r"(.*:[0-9]+:[0-9]+): (.*)", re.DOTALL)
_OF_FUNCTION = "generated in function"
_TINY = b"""
target triple = "%s"
define internal i32 @callee(i32 %%x) { ret i32 %%x }
define i32 @caller(i32 %%x) {
  %%y = call i32 @callee(i32 %%x)
  ret i32 %%y
}
"""


class _Answers(NamedTuple):
    """What was answered, the last one first."""

    before: "_Answers | None"
    value: bytes
    number: int

    def in_order(self) -> Iterator[bytes]:
        """Yield the values, the first one first."""
        values, one = [], self
        while one is not None:
            values.append(one.value)
            one = one.before  # type: ignore[assignment]
        yield from reversed(values)


class _Point:
    """A decision that LLVM waits for, or the end of a compile; sessions share it.

    Attributes:
        answers: those that led here; None at the first decision.
        state: the decision, or the end.
        answered: the decision that was taken last; None at the first one.
        holders: how many sessions are here.
        projected: what is measured if LLVM takes the decisions that are left; None while nobody has asked.
    """

    def __init__(
        self,
        answers: _Answers | None,
        before: bytes,
        state: Question | Ended,
        answered: Question | None = None,
    ) -> None:
        self.answers = answers
        self.digest = hashlib.blake2b(before + (answers.value if answers else b""), digest_size=16).digest()
        self.state = state
        self.answered = answered
        self.holders = 0
        self.projected: dict[str, Any] | None = None

    @property
    def count(self) -> int:
        """How many decisions were taken."""
        return self.answers.number if self.answers else 0


class _Root:
    """A loaded program: its first decision, in a process that waits there, and what LLVM alone makes of it.

    Args:
        benchmark: the program.
        begin: starts a process.
        own: compiles as LLVM alone does.
    """

    def __init__(
        self, benchmark: Benchmark, begin: Callable[[float], Compile], own: Callable[[float], Compile]
    ) -> None:
        self._begin, self._own = begin, own
        self._outcome: Ended | None = None
        self._process: Compile | None = None
        self._first: _Point | None = None
        self._fingerprint = benchmark.initial.fingerprint.to_bytes(16)

    def first(self, deadline: float) -> _Point:
        """Return the first decision."""
        if self._first is None:
            self._first = _Point(None, self._fingerprint, self._at_first(deadline).state)
        return self._first

    def own(self, deadline: float) -> Ended:
        """Return what LLVM makes of the program where it decides itself."""
        if self._outcome is None:
            ended = self._own(deadline).state
            assert isinstance(ended, Ended)
            self._outcome = ended
        return self._outcome

    def fork(self, deadline: float) -> Compile:
        """Return another process at the first decision."""
        forked = _forked(self._at_first(deadline))
        if forked is None:
            self._process = None
            forked = self._at_first(deadline).fork()
        return forked

    def _at_first(self, deadline: float) -> Compile:
        if self._process is None:
            self._process = self._begin(deadline)
        return self._process


def _forked(process: Compile) -> Compile | None:
    """Return a fork of a process, None if that has died.

    Raises:
        NoRoom: if the system has no room for another one.
    """
    try:
        return process.fork()
    except Killed:
        return None


class _Waiting:
    """The processes that wait for decisions; those that nobody has used for longest are ended where there are too many.

    Attributes:
        rebuilt: how many were brought back by repeating their answers.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._processes: OrderedDict[_Point, Compile] = OrderedDict()
        self.rebuilt = 0

    def __len__(self) -> int:
        return len(self._processes)

    def processes(self) -> Sequence[Compile]:
        """Return all that wait."""
        return tuple(self._processes.values())

    def put(self, point: _Point, process: Compile) -> None:
        """Keep the process that waits at a decision."""
        if isinstance(point.state, Question):
            self._processes[point] = process
        self._end_some()

    def _end_some(self) -> None:
        while len(self._processes) > self._most:
            self._processes.popitem(last=False)[1].close()

    def attempt(self, work: Callable[[], _T]) -> _T:
        """Do what takes processes: once more if somebody kills one, and with fewer that wait if there is no room."""
        killed = False
        while True:
            try:
                return work()
            except Killed:
                if killed:
                    raise
                killed = True
            except NoRoom:
                if not self._processes:
                    raise
                self._most = len(self._processes) // 2
                self._end_some()

    def drop(self, point: _Point) -> None:
        """End a process, if there is one."""
        if (process := self._processes.pop(point, None)) is not None:
            process.close()

    def take(self, root: _Root, point: _Point, deadline: float) -> Compile:
        """Return a process at a decision of a program, which the caller may have go on."""
        if point.answers is None or point.holders > 1:
            return self.fork(root, point, deadline)
        process = self._processes.pop(point, None)
        return process if process is not None and process.is_alive() else self._repeat(root, point, deadline)

    def fork(self, root: _Root, point: _Point, deadline: float) -> Compile:
        """Return another process at a decision of a program."""
        if point.answers is None:
            return root.fork(deadline)
        if point in self._processes:
            self._processes.move_to_end(point)
            if (forked := _forked(self._processes[point])) is not None:
                return forked
            self.drop(point)
        process = self._repeat(root, point, deadline)
        self.put(point, process)
        return process.fork()

    def _repeat(self, root: _Root, point: _Point, deadline: float) -> Compile:
        """Have a process come to a decision once more."""
        assert point.answers is not None
        self.rebuilt += 1
        process = root.fork(deadline)
        for value in point.answers.in_order():
            process.answer(value, deadline)
        if process.state != point.state:
            process.close()
            raise CompilationError(FailureCode.ACTION, "the same answers have led LLVM to another decision")
        return process


class DecisionSession(CompilationSession):
    """One compile, and the answers given to LLVM so far."""

    kind: ClassVar[Kind]
    level: ClassVar[str]
    engine: ClassVar[Engine]
    features: ClassVar[tuple[Feature, ...]] = ()
    waiting: ClassVar[_Waiting]
    _compiler: ClassVar[Compiler]

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Load libLLVM and find out the features of decisions.

        Args:
            options: those of `LlvmSession.start`, and `decision`, one of `KINDS`; `level`, one of `LEVELS`;
                `most_waiting`, how many processes may wait.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if there is no usable LLVM.
        """
        cls.kind, cls.level = KINDS[str(options.get("decision", "inline"))], str(options.get("level", "Oz"))
        if cls.level not in LEVELS:
            raise CompilationError(
                FailureCode.COMPILER, f"there is no level {cls.level!r}: there are {', '.join(LEVELS)}"
            )
        LlvmSession.start(options)
        cls.engine, cls.compiler_version = LlvmSession.engine, LlvmSession.compiler_version
        natives = cls.engine.natives
        cls._compiler = Compiler(
            natives.clang,
            natives.folder.parent,
            cls.engine.library.version_text,
            Path(tempfile.mkdtemp(prefix="aiocg-")),
        )
        cls.waiting = _Waiting(int(options.get("most_waiting", MOST_WAITING)))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        cls.features, asked = cls._find_features()
        if cls.kind.default and isinstance(asked, Question) and not own_decision(cls.kind, asked, cls.features):
            cls.kind = dataclasses.replace(cls.kind, tells_default=False)  # LLVM inlines the call of that program
        cls.action_spaces = (ActionSpaceSpec(cls.kind.name, cls.kind.actions, description=cls.kind.description),)
        cls.observations = {one.spec.name: one for one in _observations(cls.kind, cls.features)}
        cls.observation_spaces = tuple(one.spec for one in cls.observations.values())

    @classmethod
    def _find_features(cls) -> tuple[tuple[Feature, ...], Question | Ended]:
        """Compile a program with one call, which LLVM inlines; return the features of decisions, and the first one.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if this LLVM has no such channel.
        """
        library = cls.engine.library
        state = cls.engine.load(_TINY % library.default_triple())
        try:
            benchmark = Benchmark(cls.engine, state)
            process = cls.waiting.attempt(lambda: cls._begin(benchmark, cls.kind.options, cls.deadline))
        except CompilationError as error:
            raise CompilationError(FailureCode.COMPILER, error.message) from None
        if process.features is None:
            raise cls._lacking()
        return process.features, process.state

    @classmethod
    def _lacking(cls) -> CompilationError:
        return CompilationError(
            FailureCode.COMPILER,
            f"LLVM {cls.engine.library.version_text} does not ask {cls.kind.description}; LLVM 17 and later do",
        )

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> _Root:
        """Read and verify a program given as bitcode or textual IR; errors are those of `LlvmSession`."""
        benchmark = LlvmSession.load_benchmark(content, program)
        return _Root(
            benchmark,
            functools.partial(cls._begin, benchmark, cls.kind.options),
            functools.partial(cls._begin, benchmark, OWN_OPTIONS),
        )

    @classmethod
    def _begin(cls, benchmark: Benchmark, options: Sequence[str], deadline: float) -> Compile:
        """Start a compile with options of LLVM, and wait for its first decision or its end."""
        engine, asks_early = cls.engine, cls.kind.while_optimising
        *marks, pipeline = MARKED_LEVELS.get(_MARKED.get(cls.level, ""), (f"default<{cls.level}>",))
        state = benchmark.initial
        for action in marks if asks_early else (*marks, pipeline):
            state = engine.apply(state, action)
        options = [option.format(channel=cls._compiler.channel) for option in options]

        def work() -> tuple[dict[str, Any], bytes]:
            if not engine.code.options.set(options):
                raise cls._lacking()
            engine.transitions = Transitions(0)  # what LLVM has decided before does not count
            engine.code.forget()
            remarks = Context.remarks = _Remarks()
            after = engine.apply(state, pipeline) if asks_early else state
            content = engine.code.object_file(after)
            return {
                "IrInstructionCount": after.instructions,
                "ObjectImageSizeBytes": elf.image_size(content).stored,
                "ObjectTextSizeBytes": elf.text_size(content),
                "SpillCost": _spill_cost(remarks),
            }, content

        return cls._compiler.start(work, deadline)

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return how many processes wait, and how many were brought back."""
        return {"processes_waiting": len(cls.waiting), "processes_rebuilt": cls.waiting.rebuilt}

    def __init__(self, benchmark: _Root) -> None:
        self._root = benchmark
        self.point = self.waiting.attempt(lambda: benchmark.first(self.deadline))
        self.point.holders += 1

    def apply_action(self, action: Any) -> bool:
        """Answer; nothing is left to decide once a compile has ended.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` for an illegal answer, and with `FailureCode.ACTION` if
                the compile has ended, or LLVM dies over the answer or does not come back in time.
        """
        before = self.point
        if isinstance(before.state, Ended):
            raise CompilationError(FailureCode.ACTION, "the compile has ended: there is nothing left to decide")
        value = value_of(self.kind, action, before.state, self.features)

        def answered() -> Compile:
            process = self.waiting.take(self._root, before, self.deadline)
            process.answer(value, self.deadline)
            return process

        process = self.waiting.attempt(answered)
        point = _Point(_Answers(before.answers, value, before.count + 1), before.digest, process.state, before.state)
        self.waiting.put(point, process)
        self.close()
        self.point, point.holders = point, 1
        return True

    def fork(self) -> Self:
        """Return a session at the same decision; its process is forked once both go on."""
        child = copy.copy(self)
        child.point.holders += 1
        return child

    def close(self) -> None:
        """Leave the decision."""
        self.point.holders -= 1
        if not self.point.holders:
            self.waiting.drop(self.point)

    def state_hash(self) -> int:
        """Return 64 bits of a hash of the program and the answers."""
        return int.from_bytes(self.point.digest[:8])

    def projected(self) -> dict[str, Any]:
        """Return what is measured if LLVM takes the decisions that are left."""
        if self.point.projected is None:
            self.point.projected = self.rest().facts
        return self.point.projected

    def rest(self) -> Ended:
        """Return the end that LLVM comes to if it takes the decisions that are left."""
        return self.waiting.attempt(self._rest)

    def _rest(self) -> Ended:
        state = self.point.state
        if isinstance(state, Ended):
            return state
        process = self.waiting.fork(self._root, self.point, self.deadline)
        while isinstance(state := process.state, Question):
            process.answer(own_answer(self.kind, state, self.features), self.deadline)
        return state

    @property
    def outcome(self) -> Ended:
        """The end of the compile; that of LLVM's own while decisions are left."""
        state = self.point.state
        return state if isinstance(state, Ended) else self.waiting.attempt(lambda: self._root.own(self.deadline))


class _Remarks(list[str]):
    """LLVM's remarks in a process that compiles; those on a call that it would keep are passed on to the worker."""

    def append(self, remark: str) -> None:
        super().append(remark)
        if _TAKEN.search(remark):
            pass_on(taken=remark)
        elif _NOT_INLINED in remark:
            pass_on(remark=remark)


def _projected(name: str, session: DecisionSession) -> Any:
    return session.projected()[name]


def _call(point: _Point, features: tuple[Feature, ...]) -> dict[str, Any]:
    """Return place, callee and decision from LLVM's remark, which has the values of all features without a blank."""
    if point.answered is None:
        return {"place": "", "callee": "", "inlined": 0}
    written = [str(int(numbers(point.answered, features, one.name)[0])) for one in features]
    about, values, inlined = point.state.taken.rpartition("".join(written))
    if not values:  # until LLVM 21 without the last one
        about, _, inlined = point.state.taken.rpartition("".join(written[:-1]))
    told = _PLACED.fullmatch(about)
    place, callee = told.groups() if told else ("", about)
    return {"place": "" if place == _NO_PLACE[:-2] else place, "callee": callee, "inlined": int(inlined == "true")}


def _without_nan(data: bytes | memoryview) -> bytes:
    """Return numbers of 32 bits with 1 for each NaN: LLVM divides by the largest one even if that is infinite."""
    return array.array("f", [1.0 if one != one else one for one in array.array("f", bytes(data))]).tobytes()


def _spill_cost(remarks: list[str]) -> float:
    """Return the cost of spills and reloads of all functions, weighted by block frequency, as LLVM remarks it."""
    return sum(float(cost) for one in remarks if _OF_FUNCTION in one for cost in _SPILLS.findall(one))


def _observations(kind: Kind, features: tuple[Feature, ...]) -> Iterator[Observation]:
    """Yield the observations of a kind of decision."""

    def of_feature(one: Feature) -> ObservationSpec:
        low, high = (None, None) if one.dtype.startswith("int") else (0, kind.highest)
        return ObservationSpec(one.name, "array", dtype=one.dtype, shape=one.shape, low=low, high=high)

    def tensors(session: DecisionSession) -> dict[str, Array]:
        state = session.point.state
        values = state.values if isinstance(state, Question) else bytes(features[-1].end)
        found = {one.name: Array(one.dtype, one.shape, values[one.first : one.end]) for one in features}
        if _DENSITY in found:
            density = found[_DENSITY]
            found[_DENSITY] = Array(density.dtype, density.shape, _without_nan(density.data))
        return found

    def asked(session: DecisionSession, answer: Callable[[Question], Any], otherwise: Any) -> Any:
        state = session.point.state
        return answer(state) if isinstance(state, Question) else otherwise

    def fact(name: str) -> Callable[[DecisionSession], Any]:
        return lambda session: session.outcome.facts[name]

    count = len(kind.actions)
    nothing = Array("int64", (count,), bytes(8 * count))
    yield Observation.of(
        "Features", "record", "the decision at hand, by MLGO's names; zeros at the end", tensors,
        fields=tuple(map(of_feature, features)),
    )  # fmt: skip
    yield Observation.of(
        "LegalActions", "array", "1 for each action that is legal now", lambda session: asked(
            session,
            lambda state: Array("int64", (count,), struct.pack(f"{count}q", *legal_actions(kind, state, features))),
            nothing,
        ), shape=(count,), low=0, high=1,
    )  # fmt: skip
    yield Observation.of(
        "Function", "text", "the function being compiled; empty where LLVM does not say, and at the end",
        lambda session: asked(session, lambda state: state.context, ""),
    )  # fmt: skip
    if kind.default:
        yield Observation.integer(
            "DefaultAction", "what LLVM would decide",
            lambda session: asked(session, lambda state: own_decision(kind, state, features), 0),
        )  # fmt: skip
        yield Observation.of(
            "Remark", "text", "why LLVM would keep the call, with caller and callee; empty where it would inline it",
            lambda session: asked(session, lambda state: state.remark.removeprefix(_NO_PLACE), ""),
        )  # fmt: skip
        for name, projected, description in (
            ("ProjectedImageSizeBytes", "ObjectImageSizeBytes", "bytes that the object file brings into an image"),
            ("ProjectedIrInstructionCount", "IrInstructionCount", "IR instructions at the end of the passes"),
        ):
            yield Observation.integer(
                name, description + " if LLVM takes the decisions that are left",
                functools.partial(_projected, projected),
            )  # fmt: skip
        yield Observation.of(
            "ProjectedObject", "binary", "the object file if LLVM takes the decisions that are left",
            lambda session: session.rest().content,
        )  # fmt: skip
        yield Observation.of(
            "LastCall", "record", "the call that was decided on last, and its place where there is debug information",
            lambda session: _call(session.point, features),
            fields=(
                ObservationSpec("place", "text"), ObservationSpec("callee", "text"),
                ObservationSpec("inlined", "integer", low=0, high=1),
            ),
        )  # fmt: skip
    yield Observation.integer("Decisions", "how many decisions were taken", lambda session: session.point.count)
    yield Observation.integer(
        "Finished", "1 once the compile has ended", lambda session: int(isinstance(session.point.state, Ended)), high=1
    )
    own = "; of what LLVM itself decides while decisions are left"
    for name, description in (
        ("ObjectImageSizeBytes", "bytes that the object file brings into an image"),
        ("ObjectTextSizeBytes", "bytes of code and read-only data of the object file"),
        ("IrInstructionCount", "IR instructions at the end of the passes"),
    ):
        yield Observation.integer(name, description + own, fact(name))
    yield Observation.of(
        "SpillCost", "real", "spills and reloads, weighted by block frequency" + own, fact("SpillCost"), low=0,
        dtype="float64",
    )  # fmt: skip
    yield Observation.of("Object", "binary", "the object file" + own, lambda session: session.outcome.content)
