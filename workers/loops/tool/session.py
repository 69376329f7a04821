"""The environment `loop_tool-v0` as a worker sees it."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.workers.compilation import CompilationError, Observation
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.kernel_session import KernelSession
from aiocg.workers.loops.observations import FLOPS
from aiocg.workers.loops.rules import RULES
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.session import initial_schedule
from aiocg.workers.loops.targets import TARGETS, threads
from aiocg.workers.loops.tool.structure import ACTIONS, Structure, listing, lowered

SIMPLE = tuple(ActionSpec(name, description) for name, description in ACTIONS.items() if name != "split")
MARKS = {"cpu": "cpu_parallel ", "cuda": ""}


class _Benchmark(NamedTuple):
    """A computation along one axis, and its target.

    Attributes:
        target: `cpu` or `cuda`.
        computation: has one stage.
    """

    target: str
    computation: Computation


def _action_state(session: "LoopToolSession") -> NDArray[np.int64]:
    loop = session.structure.current
    return np.array([session.structure.cursor, loop.size, loop.tail], np.int64)


OBSERVATIONS: dict[str, Observation] = {
    observation.spec.name: observation
    for observation in (
        Observation.of(
            "action_state",
            "array",
            "The cursor, and size and tail of the loop that it is at.",
            _action_state,
            shape=(3,),
            low=0,
        ),
        Observation.of(
            "loop_tree",
            "text",
            "The loops around each operation, parallel ones marked.",
            lambda session: listing(session.structure, session.stage, MARKS[session.benchmark.target]),
        ),
        FLOPS,
    )
}


class LoopToolSession(KernelSession):
    """One environment: a computation on vectors, the sizes of its loops, and which of them are parallel."""

    observations = OBSERVATIONS
    compiler_version = "loop_tool, as aiocg has it"
    action_spaces = (
        ActionSpaceSpec("simple", SIMPLE, description="the sizes of three loops, and which are parallel"),
        ActionSpaceSpec(
            "split",
            (*SIMPLE, ActionSpec("split", ACTIONS["split"])),
            description="the same, and making two loops of one",
        ),
    )

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Store the options, those of `targets.open_target`. A device is opened when a benchmark targets it."""
        cls.options = dict(options)
        cls.observation_spaces = tuple(observation.spec for observation in OBSERVATIONS.values())

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> _Benchmark:
        """Parse a first line, `target cpu` or `target cuda`, followed by a computation along one axis.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if it is not one.
        """
        head, _, text = content.partition(b"\n")
        word, _, target = head.decode(errors="replace").strip().partition(" ")
        if word != "target" or target not in TARGETS:
            expected = " or ".join(f"'target {name}'" for name in TARGETS)
            raise CompilationError(FailureCode.BENCHMARK, f"the first line is to be {expected}, not {head[:40]!r}")
        computation = initial_schedule(text, target).computation
        if len(computation.stages) != 1 or len(computation.stages[0].spatial) != 1 or computation.stages[0].reduction:
            raise CompilationError(
                FailureCode.BENCHMARK, "loop_tool has one statement without a reduction, for the elements of one vector"
            )
        return _Benchmark(target, computation)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise if an action is neither a name nor an index in the first space.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        if isinstance(action, str):
            if action not in ACTIONS:
                raise CompilationError(
                    FailureCode.ACTION_UNKNOWN, f"{action!r} is not an action: there are {', '.join(ACTIONS)}"
                )
        else:
            super().check_action(action)

    def __init__(self, benchmark: _Benchmark) -> None:
        super().__init__(benchmark.target)
        self.benchmark = benchmark
        (stage,) = benchmark.computation.stages
        self.stage = stage
        self.structure = Structure.initial(stage.result.size)
        self._schedule: Schedule | None = None

    @property
    def schedule(self) -> Schedule:
        """The current schedule."""
        if self._schedule is None:
            target = self.benchmark.target
            nest = lowered(self.structure, self.stage, target, threads(self.options))
            self._schedule = Schedule(self.benchmark.computation, (nest,), RULES[target])
        return self._schedule

    def apply_action(self, action: Any) -> bool:
        """Change the loops, the cursor or the mode, and return whether anything changed."""
        before = self.structure
        self.structure = before.after(SIMPLE[action].name if isinstance(action, int) else action)
        changed = self.structure.loops != before.loops
        self.acted(changed)
        if changed:
            self._schedule = None
        return self.structure != before

    def state_hash(self) -> int:
        """Return a hash of the computation, its loops, the cursor and the mode."""
        text = repr((self.benchmark, self.structure))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
