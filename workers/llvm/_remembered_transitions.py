"""Transitions that are looked up in a memory as well, and put there: see `aiocg.workers.memory`.

A state that comes from there has a fingerprint, its costs, and the action that led to it, as any other state whose
module was freed. So its module is made when something needs it, and not before.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.transport import elf
from aiocg.workers.files import replace_file
from aiocg.workers.llvm._action_text import LONG
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import UNSTEADY
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import REACH, State, States, Transitions
from aiocg.workers.memory.memory import PATIENCE, Memory, open_tier
from aiocg.workers.memory.records import FORMAT, Record, Step, Trust, facts_of

logger = logging.getLogger(__name__)

MOST_ASKED = 10_000  # steps of which it is remembered that they were asked for
_SOURCES = Path(__file__).parent
_ITSELF = ""  # the action of the record with the facts of a state that a program begins with


class RememberedTransitions(Transitions):
    """Transitions in the worker's own memory, and behind it in one that others share.

    Attributes:
        checked: transitions that the memory had, and that were computed all the same.

    Args:
        limit: most bytes in the worker's own memory.
        states: the states in use.
        memory: the memory that others share.
        trust: says what is taken from there.
    """

    shared = True

    def __init__(self, limit: int, states: States, memory: Memory, trust: Trust) -> None:
        super().__init__(limit)
        self.checked = 0
        self._states = states
        self._memory = memory
        self._trust = trust
        self._asked: dict[Step, State] = {}  # of late; the memory need not be asked again
        self._claims: dict[Step, Record] = {}  # answers that are being checked

    def begin(self, state: State) -> None:
        """Look up what is known of the state that a program begins with."""
        self._memory.start()
        self._asked.clear()
        self._ask({(state.fingerprint, _ITSELF): state})

    def get(self, state: State, action: str) -> State | None:
        """Return the state that an action leads to, or None if neither memory knows it."""
        after = super().get(state, action)
        if after is None:
            if self._is_asked_for(state, action):
                self._ask({(state.fingerprint, action): state})
            elif late := self._memory.arrived():
                self._take(late)
            after = self._known(state, action)
        return after

    def put(self, state: State, action: str, after: State) -> None:
        """Add a transition to both memories, unless it is the check of one."""
        super().put(state, action, after)
        claim = self._claims.pop((state.fingerprint, action), None)
        if claim is None:
            self._share(state, action, after)
        elif not claim.agrees(Record(after.fingerprint, after.instructions, facts_of(after.memo))):
            self.doubt(action)

    def foresee(self, state: State, lists: Iterable[Sequence[str]]) -> None:
        """Look up where lists of actions lead, the next action of all lists at once."""
        self._asked.clear()
        self._claims.clear()
        ways = [(state, actions) for actions in lists]
        while ways:
            ahead: dict[Step, State] = {}
            stuck = []
            for here, actions in ways:
                here, rest = self._follow(here, actions)
                if rest and self._is_asked_for(here, rest[0]):
                    ahead[here.fingerprint, rest[0]] = here
                    stuck.append((here, rest))
            ways = stuck if ahead and self._ask(ahead) else []

    def learned(self, state: State) -> None:
        """Share what was observed of a state after it was reached."""
        before, action = state.origin or (state, _ITSELF)
        self._share(before, action, state)

    def doubt(self, action: str) -> None:
        """Forget all transitions by an action, and neither look up nor share any more of them."""
        super().doubt(action)
        if self._trust.mistrust(action):
            logger.warning("%s leads to other states than remembered: it is computed from now on", action)

    def statistics(self) -> dict[str, Any]:
        """Return counters of the shared memory."""
        return {
            "memory_hits": self._memory.hits,
            "memory_misses": self._memory.misses,
            "memory_late": self._memory.late,
            "memory_checked": self.checked,
            "memory_written": self._memory.written,
            "memory_waiting": self._memory.written - self._memory.done,
            "memory_mistrusted": sorted(self._trust.mistrusted),
            "memory_problems": self._memory.problems,
        }

    def _is_asked_for(self, state: State, action: str) -> bool:
        """Return whether the shared memory is to be asked: not for states that will need bitcode."""
        return (
            (state.fingerprint, action) not in self._asked
            and state.distance + 1 < REACH
            and not state.opaque
            and len(action) <= LONG
            and self._trust.trusts(action)
        )

    def _known(self, state: State, action: str) -> State | None:
        """Return what the worker's own memory knows."""
        if not action or action in state.inert:
            return state
        entry = self._entries.get((state.fingerprint, action))
        return entry[0] if entry is not None else None

    def _follow(self, state: State, actions: Sequence[str]) -> tuple[State, Sequence[str]]:
        """Return the last state on the way of some actions that is known, and the actions after it."""
        for done, action in enumerate(actions):
            after = self._known(state, action)
            if after is None:
                return state, actions[done:]
            state = after
        return state, ()

    def _ask(self, steps: dict[Step, State]) -> bool:
        """Look up steps, each with its state; return whether any outcome was taken."""
        if len(self._asked) > MOST_ASKED:
            self._asked.clear()
        self._asked |= steps
        return self._take(self._memory.find(list(steps)))

    def _take(self, found: Mapping[Step, Record]) -> bool:
        """Believe what was found, but for what is to be checked; return whether there was anything."""
        taken = False
        for step, record in found.items():
            state = self._asked.get(step)
            if self._trust.is_checked(step):
                self.checked += 1
                self._claims[step] = record
            elif state is not None and self._trust.trusts(step[1]):
                taken = True
                self._learn(state, step[1], record)
        return taken

    def _learn(self, state: State, action: str, record: Record) -> None:
        after = state if record.after == state.fingerprint else self._states.intern(record.after, (state, action))
        after.instructions = record.instructions
        for name, value in record.facts.items():
            after.memo.setdefault(name, value)
        if action != _ITSELF:
            super().put(state, action, after)

    def _share(self, state: State, action: str, after: State) -> None:
        if not (state.opaque or after.opaque) and len(action) <= LONG and self._trust.trusts(action):
            self._memory.put((state.fingerprint, action), after.fingerprint, after.instructions, after.memo)


def share(engine: Engine, places: Sequence[str], options: Mapping[str, Any]) -> None:
    """Look up transitions in places that others use as well, and put them there."""
    natives = engine.natives
    memory = Memory(
        lambda: [open_tier(place) for place in places],
        lambda: _identity(engine.library, natives.folder, engine.verifies),
        float(options.get("memory_patience", PATIENCE)),
    )
    trust = Trust(os.urandom(8), UNSTEADY)
    engine.transitions = shared = RememberedTransitions(engine.transitions.limit, engine.states, memory, trust)
    engine.code.learned = shared.learned


def _identity(library: Library, cache: Path, *choices: object) -> bytes:
    """Return a hash that is the same only where all actions have the same outcomes.

    Args:
        library: the libLLVM, which counts by its content.
        cache: folder that keeps the hash of the content, since it takes a tenth of a second.
        choices: all else that matters.
    """
    found = hashlib.blake2b(repr((FORMAT, library.version, *choices)).encode(), digest_size=20)
    found.update(_content(library.path, cache))
    sources = (path for pattern in ("*.py", "*.toml", "native/*") for path in _SOURCES.glob(pattern))
    for path in sorted([*sources, Path(elf.__file__)]):
        found.update(path.read_bytes())
    return found.digest()


def _content(path: Path, cache: Path) -> bytes:
    """Return the hash of a file, remembered for as long as it does not change."""
    about = path.stat()
    name = hashlib.blake2b(repr((str(path), about.st_size, about.st_mtime_ns, about.st_ino)).encode(), digest_size=16)
    known = cache / f"{name.hexdigest()}.hash"
    with contextlib.suppress(OSError):
        if len(content := known.read_bytes()) == 32:
            return content
    with path.open("rb") as file:
        content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).digest()
    with contextlib.suppress(OSError):
        replace_file(known, content)
    return content
