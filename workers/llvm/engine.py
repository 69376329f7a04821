"""The engine that turns one state into the next, and shows states as modules in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.action_text import ActionText, parse, quote
from aiocg.workers.llvm.equality import Equality, digest
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.loops import Loops
from aiocg.workers.llvm.module import LlvmError, Module, NoSuchTarget, TargetMachine, is_bitcode
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.object_code import CodeGenerator
from aiocg.workers.llvm.program import Builder
from aiocg.workers.llvm.seal import Seals
from aiocg.workers.llvm.settle import Settler
from aiocg.workers.llvm.shelf import Parsed, Shelf
from aiocg.workers.llvm.states import State, States, Transitions
from aiocg.workers.llvm.walker import Walker
from aiocg.workers.programs.execution import Runner
from aiocg.workers.programs.linking import Tools

TRANSITION_CACHE_BYTES = 256 << 20
MODULE_CACHE_BYTES = 128 << 20
MOST_SETTLED = 64  # times in a row: a context keeps what was ever made in it
MOST_INERT = 1 << 14  # actions that a state remembers to do nothing to it: with parameters there are many
DISPLACING = 16  # of so many modules that there is no room for, one displaces another

_read_action = lru_cache(maxsize=4096)(parse)


@dataclass(slots=True)
class _Left:
    """The module that the last pass left behind: it has the instructions of the state, but more than they is in it.

    Attributes:
        state: whose content the module was written to.
        module: the engine's.
        roots: what settling it takes; 0 where it is not to be settled.
        settled: as of the parse that the pass was run on.
    """

    state: State
    module: Module
    roots: int
    settled: int


class Engine:
    """Applies passes to states and observes states. Not for use by several threads at once.

    A pass is run on a parse of the state's content. Most passes do nothing to most programs; where the module's seal
    says that a pass has left it exactly as it was, the module is as good as a fresh parse, and the next pass gets it.
    So it does where the module could be settled, which makes it what a parse would be.

    Attributes:
        runs: pipelines that were run, not remembered.
        traceless: how many of them left the module as it was.
        settled: how many of them left a module that was settled.
        parses: of a state's content.
        writes: of a module to bitcode.
    """

    def __init__(
        self,
        library: Library,
        natives: NativeLibraries,
        transition_cache_bytes: int = TRANSITION_CACHE_BYTES,
        module_cache_bytes: int = MODULE_CACHE_BYTES,
    ) -> None:
        self.library = library
        self.natives = natives
        self.walker = Walker(natives.load("walker"))
        self.code = CodeGenerator(library)
        self.builder = Builder(self.code, Tools(natives.clang))
        self.runner = Runner()
        self.states = States()
        self.transitions = Transitions(transition_cache_bytes)
        self.shelf = Shelf(module_cache_bytes)
        self.runs = self.traceless = self.settled = self.parses = self.writes = 0
        self._machines: dict[bytes, TargetMachine | None] = {}
        self._left: _Left | None = None
        self._without_room = 0

    def load(self, content: bytes) -> State:
        """Make the state of a program given as bitcode or text.

        Raises:
            LlvmError: when LLVM cannot read it, or its verifier rejects it.
        """
        self._put_away()
        with Module.parse(self.library, content) as module:
            layout = self._missing_data_layout(module)
            if not layout:
                return self._admit(content, module)
            if is_bitcode(content):
                module.data_layout = layout
                content = module.write_bitcode()
            else:  # the layout decides how the text is read
                content = b'target datalayout = "%s"\n' % layout.encode() + content
        with Module.parse(self.library, content) as module:
            return self._admit(content, module)

    def apply(self, state: State, action: str, *, last: bool = False) -> State:
        """Return the state after an action: the same object exactly when the program stays what it is.

        Args:
            state: where to start.
            action: a canonical action text (see `action_text`), such as a pipeline.
            last: whether no action is to be expected after this one, so that nothing is prepared for it.

        Raises:
            CompilationError: with `FailureCode.ACTION` when LLVM refuses, or the verifier rejects the result, and
                `FailureCode.ACTION_UNKNOWN` when the program does not have the function or loop of the action.
        """
        if not action or action in state.inert:
            return state
        known = self.transitions.get(state, action)
        if known is not None:
            return known
        try:
            after = self._run(state, _read_action(action))
        except NoSuchTarget as error:
            raise CompilationError(FailureCode.ACTION_UNKNOWN, f"{action}: {error}") from None
        except LlvmError as error:
            raise CompilationError(FailureCode.ACTION, f"{action}: {error}", pipeline=action) from None
        if self._left is not None and last:
            self._left.roots = 0
        if after is state:
            if len(state.inert) >= MOST_INERT:
                state.inert.clear()
            state.inert.add(action)
        else:
            self.transitions.put(state, action, after)
        return after

    @cached_property
    def equality(self) -> Equality:
        """Tells programs apart."""
        return Equality(self.natives.load("equality"))

    @cached_property
    def seals(self) -> Seals | None:
        """Tells whether a module is what it was; None where LLVM's memory is not as expected."""
        return Seals.find(self.natives)

    @cached_property
    def settler(self) -> Settler | None:
        """Makes of what a pass has left what a parse would be; None where LLVM's memory is not as expected."""
        return Settler.find(self.natives) if self.seals is not None else None

    @cached_property
    def loops(self) -> Loops:
        """Finds and unrolls loops."""
        return Loops(self.natives.load("loops"))

    def bitcode(self, state: State) -> bytes:
        """Return the state as bitcode."""
        if state.content.startswith(b"BC"):
            return state.content
        return self.parsed(state).write_bitcode()

    def text(self, state: State) -> str:
        """Return the state as textual IR."""
        return self.parsed(state).to_text()

    def instruction_count(self, state: State) -> int:
        """Return the number of IR instructions."""
        if "instruction_count" not in state.memo:
            state.memo["instruction_count"] = self.walker.instruction_count(self._counted(state).pointer)
        count: int = state.memo["instruction_count"]
        return count

    def inst_count(self, state: State) -> bytes:
        """Return InstCount, as packed little-endian int64."""
        return self._walk(state, "inst_count", self.walker.inst_count)

    def autophase(self, state: State) -> bytes:
        """Return Autophase, as packed little-endian int64."""
        return self._walk(state, "autophase", self.walker.autophase)

    def module(self, state: State) -> Module:
        """Return a module with the state's instructions: what a pass has just left, or a parse.

        It is the engine's: read it before the next call, do not change it.
        """
        if self._left is not None and self._left.state is state:
            self._left.roots = 0  # others may leave something in it
            return self._left.module
        return self.parsed(state)

    def parsed(self, state: State) -> Module:
        """Return a parse of the state's content: its text and bitcode depend on nothing else.

        It is the engine's: read it before the next call, do not change it.
        """
        parsed = self.shelf.get(state)
        if parsed is None:
            parsed = self._parse(state)
            self.shelf.put(state, parsed)
        parsed.shown = True
        return parsed.module

    def prepare(self, state: State) -> None:
        """Do ahead what the next pass or observation of this state needs."""
        self._put_away()
        if state not in self.shelf:
            parsed = self._parse(state)
            self._describe(state, parsed.module)
            self.shelf.put(state, parsed)

    def release(self) -> None:
        """Free the modules that are kept in memory."""
        left, self._left = self._left, None
        if left is not None:
            left.module.close()
        self.shelf.clear()

    def _missing_data_layout(self, module: Module) -> str:
        """Return what `opt` since LLVM 18 assumes when a module names a target but no data layout."""
        if self.library.version[0] < 18 or module.data_layout:
            return ""
        machine = self._machine(module.triple)
        return machine.data_layout() if machine else ""

    def _admit(self, content: bytes, module: Module) -> State:
        if problem := module.verify():
            raise LlvmError(problem)
        state = self.states.intern(content)
        state.memo["instruction_count"] = self.walker.instruction_count(module.pointer)
        return state

    def _run(self, state: State, action: ActionText) -> State:
        self._put_away()
        self.runs += 1
        parsed = self._take(state)
        module = parsed.module
        try:
            self._describe(state, module)
            types = self._types(parsed)
            changed = self._transform(module, action)
            if types != self._types(parsed):  # names of types that a parse would have forgotten were in the way
                module.close()
                self.runs -= 1
                return self._run(state, action)
            count = self.walker.instruction_count(module.pointer)
            if parsed.seal and count == state.memo["instruction_count"] and self._seal(module) == parsed.seal:
                self.traceless += 1
                self.shelf.put(state, parsed)
                return state
            bitcode = self._write(module)
            changed = changed and not self._is_unchanged(state, module, bitcode, count)
            if changed and (problem := module.verify()):
                raise LlvmError(f"the result is not valid IR: {problem}")
        except BaseException:
            module.close()
            raise
        if not changed:
            module.close()
            return state
        after = self.states.intern(bitcode)
        after.memo.update(instruction_count=count, written=True)
        self._left = _Left(after, module, parsed.roots, parsed.settled)
        return after

    def _take(self, state: State) -> Parsed:
        """Take a parse of the state from the shelf, or make one."""
        parsed = self.shelf.take(state)
        if parsed is not None and parsed.shown:
            if not parsed.seal or self._seal(parsed.module) != parsed.seal:
                parsed.module.close()
                return self._parse(state)
            parsed.shown = False
        return parsed or self._parse(state)

    def _parse(self, state: State) -> Parsed:
        self.parses += 1
        module = Module.parse(self.library, state.content)
        parsed = Parsed(module, self._seal(module))
        # What others wrote may also say in which order uses are to be; clang does that.
        if self.settler is not None and parsed.seal and "written" in state.memo:
            parsed.roots = self.settler.roots(module)
        return parsed

    def _describe(self, state: State, module: Module) -> None:
        """Remember what tells the state from others at little cost, while there is a parse of it."""
        if "fingerprint" not in state.memo:
            state.memo["fingerprint"] = self.equality.fingerprint(module)
        if "instruction_count" not in state.memo:
            state.memo["instruction_count"] = self.walker.instruction_count(module.pointer)

    def _seal(self, module: Module) -> int:
        return self.seals.take(module) if self.seals is not None else 0

    def _write(self, module: Module) -> bytes:
        self.writes += 1
        return module.write_bitcode()

    def _types(self, parsed: Parsed) -> int:
        """Return what tells whether a pass gives names to types, where it matters."""
        return self.settler.types(parsed.module) if parsed.settled and self.settler is not None else 0

    def _put_away(self) -> None:
        """Settle the module that the last pass left behind, for the next pass on its state, or free it."""
        left, self._left = self._left, None
        if left is None:
            return
        if left.state not in self.shelf and left.settled < MOST_SETTLED and self._pays(left) and self._settle(left):
            self.settled += 1
            self.shelf.put(left.state, Parsed(left.module, self._seal(left.module), left.roots, left.settled + 1))
        else:
            left.module.close()

    def _pays(self, left: _Left) -> bool:
        """Will the module stay until it is used? Where more states are in turn than there is room for, none would.

        So few are let in there, and those that are in are used; and few are enough for old ones to go in the end
        (bimodal insertion: Qureshi et al., "Adaptive insertion policies for high performance caching", ISCA 2007).
        """
        if self.shelf.has_room(left.state):
            return True
        self._without_room += 1
        return self._without_room % DISPLACING == 0

    def _settle(self, left: _Left) -> bool:
        count: int = left.state.memo["instruction_count"]
        return self.settler is not None and self.settler.settle(left.module, left.roots, count)

    def _transform(self, module: Module, action: ActionText) -> bool:
        """Apply an action to a module in memory, and say whether the result counts, if it is another program."""
        machine = self._machine(module.triple)
        function = None if action.function is None else defined_function(module, action.function)
        if function is not None and action.loop is not None:
            return self.loops.unroll(module, function, action.loop, action.factor, machine)
        module.run_passes(action.pipeline, machine, action.options, function)
        return True

    def _is_unchanged(self, state: State, module: Module, bitcode: bytes, count: int) -> bool:
        """Say whether a module, and the bitcode that it was written to, are still the state; cheapest evidence first.

        Most passes that do nothing leave the state's own bitcode, or what that becomes when it is only read and
        written: the two differ when the order of tables inside shows how the module came to be. The text decides.
        """
        if bitcode == state.content:
            return True
        if count != state.memo["instruction_count"]:
            return False
        if self.equality.fingerprint(module) != state.memo["fingerprint"]:
            return False
        if "rewritten" not in state.memo:
            state.memo["rewritten"] = digest(self._write(self.parsed(state)))
        if digest(bitcode) == state.memo["rewritten"]:
            return True
        if "text" not in state.memo:
            state.memo["text"] = self.equality.text_digest(self.parsed(state))
        with Module.parse(self.library, bitcode) as canonical:
            return bool(self.equality.text_digest(canonical) == state.memo["text"])

    def _walk(self, state: State, name: str, count: Callable[[int], bytes]) -> bytes:
        if name not in state.memo:
            state.memo[name] = count(self._counted(state).pointer)
        counts: bytes = state.memo[name]
        return counts

    def _counted(self, state: State) -> Module:
        """Return a module with the state's instructions, for who leaves nothing in it."""
        left = self._left
        return left.module if left is not None and left.state is state else self.parsed(state)

    def _machine(self, triple: bytes) -> TargetMachine | None:
        if triple not in self._machines:
            self._machines[triple] = TargetMachine.create(self.library, triple)
        return self._machines[triple]


def defined_function(module: Module, name: bytes) -> int:
    """Return the function with this name, which has a body.

    Raises:
        NoSuchTarget: when there is none.
    """
    function = module.function(name)
    if function is None:
        raise NoSuchTarget(f"the program has no function {quote(name)}")
    if module.library.c.LLVMIsDeclaration(function):
        raise NoSuchTarget(f"the program only declares {quote(name)}")
    return function
