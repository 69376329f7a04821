"""The engine, which applies actions to states and keeps states as modules in memory."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._action_text import UNMARK, ActionText, parse, split_mark
from aiocg.workers.llvm._attributes import (
    FRAME_POINTER,
    MARKS,
    MINSIZE,
    OPTSIZE,
    Attributes,
    defined_function,
    forbids_frame_pointers,
    mark,
    mark_all,
    mark_function,
)
from aiocg.workers.llvm._canonical import Facts, Surveyor
from aiocg.workers.llvm._codegen_options import PREFIX, set_options
from aiocg.workers.llvm._decisions import decide, decide_function, unmark
from aiocg.workers.llvm._inlining import inline, split
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm._object_code import CodeGenerator, FunctionSizes, count_after_split
from aiocg.workers.llvm._passes import CLANG_OZ, clang_oz
from aiocg.workers.llvm._pipeline_text import pass_builder_options, size_levels, without_size_levels
from aiocg.workers.llvm._program import Builder
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.module import LlvmError, Module, NoSuchTarget, TargetMachine, is_bitcode
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import REACH, Beginnings, State, States, Transitions
from aiocg.workers.programs.execution import Runner
from aiocg.workers.programs.linking import Tools

MOST_LEFT = 8  # modules of states without a session; the next action may need one
DISPLACING = 16  # when the shelf is full, one of this many new modules displaces an old one
CONTEXT_BYTES, INSTRUCTION_BYTES = 64 << 10, 220  # measured size of a module


class _Shelf:
    """Modules by state. Modules of states without a session are freed first, then the least recently used.

    If more sessions take turns than modules fit, the least recently used module is always the next one needed. A full
    shelf therefore admits only a few new modules and keeps the others (bimodal insertion: Qureshi et al., "Adaptive
    insertion policies for high performance caching", ISCA 2007).

    Attributes:
        limit: most bytes for all modules, estimated.
        size: bytes of the modules stored, estimated.
    """

    def __init__(self, limit: int, save: Callable[[State, Module], None]) -> None:
        """Create an empty shelf that calls `save` before it frees the module of a state with a session."""
        self.limit = limit
        self.size = 0
        self._save = save
        self._held: OrderedDict[State, Module] = OrderedDict()
        self._left: OrderedDict[State, Module] = OrderedDict()
        self._without_room = 0

    def __len__(self) -> int:
        return len(self._held) + len(self._left)

    def __contains__(self, state: State) -> bool:
        return state in self._held or state in self._left

    def get(self, state: State) -> Module | None:
        """Return the state's module, which stays on the shelf."""
        module = self._held.get(state)
        if module is None:
            return self._left.get(state)
        self._held.move_to_end(state)
        return module

    def take(self, state: State) -> Module | None:
        """Remove and return the state's module."""
        module = self._held.pop(state, None) or self._left.pop(state, None)
        if module is not None:
            self.size -= CONTEXT_BYTES + INSTRUCTION_BYTES * state.instructions
        return module

    def put(self, state: State, module: Module, *, keep: bool = False) -> None:
        """Store a module; if the state has another, free that one.

        A full shelf may free the module at once, unless it is told to `keep` it until the next call.
        """
        if state in self._held or state in self._left:
            self.discard(state)
        size = CONTEXT_BYTES + INSTRUCTION_BYTES * state.instructions
        if keep:
            self._fit(size)
        (self._held if state.holders else self._left)[state] = module
        self.size += size
        if not keep and (self.size > self.limit or len(self._left) > MOST_LEFT):
            self._fit()

    def hold(self, state: State) -> None:
        """Record that a state has a session."""
        module = self._left.pop(state, None)
        if module is not None:
            self._held[state] = module
            self._fit()

    def let_go(self, state: State) -> None:
        """Record that the last session has left a state."""
        if state in self._held:
            self._left[state] = self._held.pop(state)
            self._fit()

    def discard(self, state: State) -> None:
        """Free the state's module, if it has one."""
        module = self.take(state)
        if module is not None:
            module.close()

    def clear(self) -> None:
        """Free all modules, after saving those of states with sessions."""
        while self._held:
            self._save_and_free(next(iter(self._held)))
        while self._left:
            self.discard(next(iter(self._left)))

    def _fit(self, size: int = 0) -> None:
        """Free modules until so many more bytes fit; of those held, one may stay whatever its size."""
        limit = self.limit - size
        while len(self._left) > MOST_LEFT or (self._left and self.size > limit):
            self.discard(next(iter(self._left)))
        while self.size > limit and len(self._held) > (0 if size else 1):
            self._without_room += 1
            newest = self._without_room % DISPLACING != 0
            self._save_and_free(next(reversed(self._held) if newest else iter(self._held)))

    def _save_and_free(self, state: State) -> None:
        self._save(state, self._held[state])
        self.discard(state)


def _run_on_each(
    module: Module, each: Sequence[tuple[bytes, str]], options: int, attributes: Callable[[str], Attributes]
) -> None:
    """Run a separate pipeline on each of several functions, one after the other.

    A pipeline may begin with what is inlined, and end with a mark.

    Args:
        module: contains the functions.
        each: pairs of function name and pipeline.
        options: an `LLVMPassBuilderOptionsRef`.
        attributes: returns those of a mark.

    Raises:
        NoSuchTarget: if a function is missing; nothing has been run then.
        LlvmError: if a pass fails.
    """
    c, machine = module.library.c, module.machine.pointer if module.machine else None
    module.context.runs += len(each) // 16  # such a run is short compared with `default<O2>`
    jobs = []
    for name, pipeline in each:
        unmarked, chosen = split_mark(pipeline)
        callees, rest = split(unmarked)
        function = defined_function(module, name)
        jobs.append((function, [defined_function(module, callee) for callee in callees], rest.encode(), chosen))
    for function, inlined, passes, chosen in jobs:
        if inlined:
            inline(module, function, inlined, options)
        if passes:
            error = c.LLVMRunPassesOnFunction(function, passes, machine, options)
            if error or module.context.errors:
                module.raise_errors(error)
        if chosen in MARKS:
            mark_function(module, function, attributes(chosen))
        elif chosen:
            decide_function(module, function, chosen)


TRANSITION_CACHE_BYTES = 256 << 20
MODULE_CACHE_BYTES = 1 << 30
_FRAMES = "frames"  # in the memo of a state: whether functions may have frame pointers
MOST_CLONED = 3_000  # instructions; larger modules are written once and parsed, which is faster than cloning


_Seen = tuple[int, int, bytes | None]
"""A module's fingerprint, its instruction count, and its bitcode if the fingerprint is a hash of that."""


class Engine:
    """Applies passes to states and observes states. Not thread-safe.

    A pass changes a module in place. If other sessions are at the state before, the engine first keeps a clone of the
    module for them, or bitcode if a clone would not behave identically. If there is no surveyor, or it does not
    understand a program, the engine writes the program as bitcode after each pass and parses it before the next; the
    fingerprint is then a hash of the bitcode.

    Attributes:
        surveyor: brings modules into canonical order; None if LLVM's memory layout is not as expected.
        verifies: whether LLVM's verifier checks the result of every pass.
        runs: number of pipelines run, without those answered from memory.
        clones, parses, writes: how many modules were cloned, parsed and written.
    """

    def __init__(
        self,
        library: Library,
        natives: NativeLibraries,
        transition_cache_bytes: int = TRANSITION_CACHE_BYTES,
        module_cache_bytes: int = MODULE_CACHE_BYTES,
        *,
        verifies: bool = False,
    ) -> None:
        self.library = library
        self.natives = natives
        self.surveyor = Surveyor.find(natives)
        self._clones_are_exact = self.surveyor is not None and self.surveyor.clones_are_exact
        self.verifies = verifies
        self.walker = Walker(natives.load("walker"))
        self.code = CodeGenerator(library, self.bitcode)
        self.function_sizes = FunctionSizes(self.code)
        self.builder = Builder(self.code, Tools(natives.clang))
        self.runner = Runner()
        self.states = States()
        self.transitions = Transitions(transition_cache_bytes)
        self.shelf = _Shelf(module_cache_bytes, self._save)
        self.runs = self.clones = self.parses = self.writes = 0
        self._no_options: int = library.c.LLVMCreatePassBuilderOptions()
        self._machines: dict[bytes, TargetMachine | None] = {}
        self._spare: tuple[State, Module] | None = None
        self.beginnings = Beginnings(self.hold, self.let_go)

    def load(self, content: bytes) -> State:
        """Return the state of a program given as bitcode or text. Names of local values are dropped.

        Raises:
            LlvmError: if LLVM cannot read it, or its verifier rejects it.
        """
        with Module.parse(self.library, content, names=not is_bitcode(content)) as module:
            layout = self._missing_data_layout(module)
            if not layout or is_bitcode(content):
                if layout:
                    module.data_layout = layout
                return self._admit(module)
        # The parser needs the layout before the text.
        with Module.parse(self.library, b'target datalayout = "%s"\n' % layout.encode() + content) as module:
            return self._admit(module)

    def apply(self, state: State, action: str, *, moving: bool = False) -> State:
        """Return the state after an action: the same object if and only if the program does not change.

        Args:
            state: where to start.
            action: a canonical action text (see `action_text`), such as a pipeline.
            moving: whether a session moves from `state` to the returned state.

        Raises:
            CompilationError: with `FailureCode.ACTION` if LLVM reports an error or the verifier rejects the result,
                and `FailureCode.ACTION_UNKNOWN` if the program lacks the function, call or loop that the action names.
        """
        if not action or action in state.inert:
            return state
        after = self.transitions.get(state, action)
        if after is not None:
            if after.content is None and state.distance < after.distance:
                after.origin = state, action  # the shorter way to rebuild its module
            if moving:
                self.hold(after)
                self.let_go(state)
            return after
        try:
            after = self._run(state, action, moving)
        except NoSuchTarget as error:
            raise CompilationError(FailureCode.ACTION_UNKNOWN, f"{action}: {error}") from None
        except LlvmError as error:
            raise CompilationError(FailureCode.ACTION, f"{action}: {error}", pipeline=action) from None
        self.transitions.put(state, action, after)
        if moving and after is not state:
            self.let_go(state)
        return after

    def hold(self, state: State) -> State:
        """Record that a session is at a state, and return the state."""
        state.holders += 1
        self.shelf.hold(state)
        return state

    def let_go(self, state: State) -> None:
        """Record that a session has left a state."""
        state.holders -= 1
        if state.holders:
            return
        self.shelf.let_go(state)
        if state.origin is not None:
            state.content = None
        if self._spare is not None and self._spare[0] is state:
            self._free_spare()

    @cached_property
    def loops(self) -> Loops:
        """Finds and unrolls loops."""
        return Loops(self.natives.load("loops"))

    @cached_property
    def clang_oz(self) -> str:
        """The pipeline of the action `clang<Oz>`."""
        return clang_oz(self.library)

    def bitcode(self, state: State) -> bytes:
        """Return the state as bitcode: always the same bytes, free of metadata kinds left over in the context."""
        module = self.module(state)
        if self.surveyor is None or not self.surveyor.strange_kinds(module):
            return state.content if state.content is not None else self._write(module)
        with Module.parse(self.library, module.write_text()) as alone:
            return self._write(alone)

    def text(self, state: State) -> str:
        """Return the state as textual IR."""
        return self.module(state).to_text()

    def inst_count(self, state: State) -> bytes:
        """Return InstCount, as packed little-endian int64."""
        return state.memo.get("inst_count") or self._walk(state, "inst_count", self.walker.inst_count)

    def autophase(self, state: State) -> bytes:
        """Return Autophase, as packed little-endian int64."""
        return state.memo.get("autophase") or self._walk(state, "autophase", self.walker.autophase)

    def module(self, state: State) -> Module:
        """Return a module with the state's program; its text and bitcode depend on the program alone.

        The engine owns the module: use it before the next call, and do not change it.
        """
        module = self.shelf.get(state)
        if module is None or not module.fresh:
            module = self._bring_back(state)
            self.shelf.put(state, module, keep=True)
        return module

    def release(self) -> None:
        """Free all modules."""
        self._free_spare()
        self.shelf.clear()

    # ------------------------------------------------------------------------------------------ from state to state

    def _admit(self, module: Module) -> State:
        if problem := module.verify():
            raise LlvmError(problem)
        if module.context.names:
            with Module.parse(self.library, self._write(module), names=False) as nameless:
                return self._admit(nameless)
        content = self._write(module)
        with Module.parse(self.library, content, names=False) as read:
            fingerprint, instructions, known_by = self._see(read, self.surveyor.survey(read) if self.surveyor else None)
        state = self.states.intern(fingerprint)
        state.anchor(known_by or content)
        state.opaque = known_by is not None
        state.instructions = instructions
        return state

    def _run(self, state: State, action: str, moving: bool) -> State:
        """Run an action on the state's module and return the resulting state, held if a session moves there."""
        module = self._module_to_change(state, state.holders - moving)
        self.runs += 1
        try:
            seen = self._transform(module, parse(action), state)
            if seen is None or seen[0] == state.fingerprint:
                self._keep(state, module)
                return state
            if self.verifies and (problem := module.verify()):
                raise LlvmError(f"the result is not valid IR: {problem}")
        except NoSuchTarget:
            self._keep(state, module)
            raise
        except BaseException:
            module.close()
            raise
        fingerprint, instructions, content = seen
        after = self.states.intern(fingerprint, (state, action))
        after.instructions = instructions
        if content is not None:
            after.content, after.opaque = content, True
        elif not after.memo and self.surveyor is not None:
            facts = self.surveyor.facts
            after.memo["inst_count"], after.memo["autophase"] = bytes(facts.inst_count), bytes(facts.autophase)
        if after.distance >= REACH:
            after.anchor(after.content or self._write(module))
        after.holders += moving
        self.shelf.put(after, module)
        return after

    def _module_to_change(self, state: State, others: int) -> Module:
        """Return a module that the caller may change; for `others` at the state, keep a clone or bitcode."""
        module = self.shelf.take(state) if self._spare is None or self._spare[0] is not state else self._take_spare()
        if module is None:
            module = self._bring_back(state)
        context = module.context
        if not module.canonical or module.renamings != context.renamings:
            module.close()
            module = self._bring_back(state)
        if context.worn:
            self._save(state, module)
            module.close()
            module = self._parse(state)
        if others and state not in self.shelf:
            if module.clonable and (state.instructions <= MOST_CLONED or "cloned" not in state.memo):
                state.memo["cloned"] = True
                self.shelf.put(state, self._clone(module))
            else:
                self._save(state, module)
        return module

    def _bring_back(self, state: State) -> Module:
        """Make the state's module anew, from its bitcode or by the action that led to it."""
        if state.content is not None:
            return self._parse(state)
        assert state.origin is not None
        before, action = state.origin
        module = self._module_to_change(before, before.holders)
        self.runs += 1
        try:
            seen = self._transform(module, parse(action), before)
            if seen is None or seen[0] != state.fingerprint:
                self.transitions.doubt(action)
                raise LlvmError(f"{action} is not deterministic: it led to another program when it was run again")
        except BaseException:
            module.close()
            raise
        if seen[2] is None:
            return module
        module.close()
        state.content = seen[2]
        return self._parse(state)

    def _parse(self, state: State) -> Module:
        self.parses += 1
        assert state.content is not None
        module = Module.parse(self.library, state.content, names=False)
        module.machine = self._machine(module.triple)
        self._survey(module)
        return module

    def _clone(self, module: Module) -> Module:
        self.clones += 1
        clone = module.clone()
        self._survey(clone)
        return clone

    def _write(self, module: Module) -> bytes:
        self.writes += 1
        return module.write_bitcode()

    def _save(self, state: State, module: Module) -> None:
        """Write the state's bitcode, if there is none, so that its module can be freed."""
        if state.content is None and module.fresh:
            state.content = self._write(module)
            if module.context.worn:
                state.anchor(state.content)

    def _keep(self, state: State, module: Module) -> None:
        """Keep a module that a pass did not change; if the state has one already, keep this one for the next pass."""
        if not module.canonical:
            module.close()
        elif state in self.shelf:
            self._free_spare()
            self._spare = state, module
        else:
            self.shelf.put(state, module)

    def _take_spare(self) -> Module:
        assert self._spare is not None
        (_, module), self._spare = self._spare, None
        return module

    def _free_spare(self) -> None:
        if self._spare is not None:
            self._spare[1].close()
            self._spare = None

    # ------------------------------------------------------------------------------------------------------ modules

    def _survey(self, module: Module) -> None:
        """Bring a parsed or cloned module into canonical order."""
        if self.surveyor is not None:
            self._note(module, self.surveyor.survey(module))
        module.canonical = True  # if the survey fails, a fresh module still counts as canonical for one pass

    def _see(self, module: Module, facts: Facts | None) -> _Seen:
        """Identify a module by the surveyor's facts, or by its bitcode if the surveyor does not understand it."""
        if facts is not None and self._note(module, facts):
            return facts.high << 64 | facts.low, count_after_split(module, facts.instructions, self.walker), None
        module.canonical = module.clonable = False
        content = self._write(module)
        digest = hashlib.blake2b(content, digest_size=16).digest()
        count = count_after_split(module, self.walker.instruction_count(module.pointer), self.walker)
        return int.from_bytes(digest, "little"), count, content

    def _note(self, module: Module, facts: Facts) -> bool:
        """Record how the module may be used next; return whether the surveyor understands it."""
        context, types = module.context, facts.types
        if types > context.types and context.types:
            context.names_taken = True  # LLVM would rename the next type that wants the same name
        context.types = types
        module.renamings = context.renamings = facts.renamings
        module.canonical = not facts.unknown
        module.clonable = module.canonical and not facts.shared and self._clones_are_exact
        return module.canonical

    def _missing_data_layout(self, module: Module) -> str:
        """Return the data layout that `opt` since LLVM 18 assumes for a module with a target and no layout."""
        if self.library.version[0] < 18 or module.data_layout:
            return ""
        machine = self._machine(module.triple)
        return machine.data_layout() if machine else ""

    def _transform(self, module: Module, action: ActionText, state: State) -> _Seen | None:
        """Apply an action to the module of a state and identify the result; return None if it has no effect."""
        module.context.runs += 1
        function = None if action.function is None else defined_function(module, action.function)
        if action.pipeline in MARKS:
            mark_all(module, self._attributes(action.pipeline, module, state))
        elif action.decisions:
            decide(module, self.loops, action.decisions)
        elif action.pipeline == UNMARK:
            unmark(module, self.loops)
        elif action.pipeline.startswith(PREFIX):
            set_options(module, self.code.options.resolve(action.pipeline))
        elif action.each:
            _run_on_each(module, action.each, self._no_options, lambda chosen: self._attributes(chosen, module, state))
        elif function is None or action.loop is None:
            return self._run_passes(module, action, function)
        elif not self.loops.unroll(module, function, action.loop, action.factor, module.machine):
            module.canonical = False
            return None
        return self._see(module, self.surveyor.survey(module) if self.surveyor else None)

    def _run_passes(self, module: Module, action: ActionText, function: int | None) -> _Seen:
        machine, surveyor = module.machine, self.surveyor
        pipeline = self.clang_oz if action.pipeline == CLANG_OZ else action.pipeline
        if not self.library.has_size_levels and (levels := size_levels(action.pipeline)):
            mark(module, MINSIZE if "z" in levels else OPTSIZE)
            pipeline = without_size_levels(pipeline)
        if surveyor is None:
            module.run_passes(pipeline, machine, action.options, function)
            return self._see(module, None)
        text, pointer = pipeline.encode(), machine.pointer if machine else None
        if action.options:
            with pass_builder_options(self.library, action.options) as options:
                error, facts = surveyor.run(module, function, text, pointer, options)
        else:
            error, facts = surveyor.run(module, function, text, pointer, self._no_options)
        if error or module.context.errors:
            module.raise_errors(error)
        return self._see(module, facts)

    def _attributes(self, chosen: str, module: Module, state: State) -> Attributes:
        """Return the attributes of a mark, without a frame pointer where that may be wrong."""
        attributes = MARKS[chosen]
        if FRAME_POINTER in attributes:
            if _FRAMES not in state.memo:  # no pass makes it so
                state.memo[_FRAMES] = not forbids_frame_pointers(module)
            if not state.memo[_FRAMES]:
                return tuple(name for name in attributes if name != FRAME_POINTER)
        return attributes

    def _walk(self, state: State, name: str, count: Callable[[int], bytes]) -> bytes:
        counts = state.memo[name] = count((self.shelf.get(state) or self.module(state)).pointer)
        return counts

    def _machine(self, triple: bytes) -> TargetMachine | None:
        if triple not in self._machines:
            self._machines[triple] = TargetMachine.create(self.library, triple)
        return self._machines[triple]
