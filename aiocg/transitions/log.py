"""Logs a runtime's transitions to a file."""

import atexit
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiocg.datasets.uri import BenchmarkUri
from aiocg.host.threads import in_thread
from aiocg.transitions._schema import TransitionsError
from aiocg.transitions._writer import Compiler, Observation, Row, Start, Step, Writer
from aiocg.transitions.reading import Transitions


class TransitionLog:
    """A file of transitions that a runtime writes, made by `Runtime.log_to`.

    Attributes:
        names: the observation spaces that are logged of each state, in addition to what rewards need.

    Args:
        path: the file; transitions are added to those that it has.
        observations: names of observation spaces.
        block: when too many transitions wait for the disk, wait; if False, drop them, and count them in `dropped`.

    Raises:
        TransitionsError: if the file cannot be used, or another log writes to it.
    """

    def __init__(self, path: str | Path, observations: Iterable[str] = (), *, block: bool = True) -> None:
        if isinstance(observations, str):
            raise TypeError(f"observations is a list of names, not {observations!r}")
        self._path = Path(path)
        self.names = frozenset(observations)
        self._writer = Writer(self._path, block=block)
        try:
            with Transitions(self._path) as known:
                self._compiler = known.compiler
                self._observed = defaultdict[str, set[int]](set)
                self._observed.update({name: known.observed_states(name) for name in self.names})
        except BaseException:
            self._writer.close()
            raise
        self._put = self._writer.put  # looked up for every step
        atexit.register(self._writer.close)

    @property
    def dropped(self) -> int:
        """Number of rows that were not written, because too many waited or the file could not be written."""
        return self._writer.dropped

    @property
    def clock(self) -> int:
        """The clock of the processor time of the thread that writes, for `time.clock_gettime`."""
        return self._writer.clock

    def accept(self, compiler: str) -> None:
        """Check that the file is of a compiler, as hashes of different compilers mean different things.

        Raises:
            TransitionsError: if it is of another one.
        """
        if self._compiler is None:
            self._writer.put(Compiler(compiler))
            self._compiler = compiler
        elif self._compiler != compiler:
            raise TransitionsError(
                f"{self._path} has transitions of {self._compiler}; log those of {compiler} to a file of their own"
            )

    def start(self, benchmark: BenchmarkUri | str, state: int, values: Mapping[str, Any]) -> None:
        """Log a reset."""
        self._put(Start(benchmark, state))
        self.observe(state, values)

    def step(
        self,
        benchmark: BenchmarkUri | str,
        before: int,
        actions: tuple[str, ...],
        after: int | None,
        rewards: dict[str, float],
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Log a transition, and observations of the state after it, which is None if the compiler refused."""
        self._put(Step(benchmark, before, actions, after, rewards))
        if values and after is not None:
            self.observe(after, values)

    def later(self, arguments: Callable[..., tuple[Any, ...]], *facts: Any) -> None:
        """Log a transition whose arguments the writing thread works out, of many at a time, as a step should not wait.

        Args:
            arguments: returns those of `step`, with the observations as pairs of name and value.
            facts: what it is called with, none of which changes.
        """
        self._put((self._rows, arguments, facts))

    def _rows(self, arguments: Callable[..., tuple[Any, ...]], facts: tuple[Any, ...]) -> list[Row]:
        *step, values = arguments(*facts)
        rows: list[Row] = [Step(*step)]
        after = step[3]
        for name, value in values:
            if after not in (seen := self._observed[name]):
                seen.add(after)
                rows.append(Observation(after, name, value))
        return rows

    def observe(self, state: int, values: Mapping[str, Any]) -> None:
        """Log observations of a state, once."""
        for name, value in values.items():
            if state not in (seen := self._observed[name]):
                seen.add(state)
                self._put(Observation(state, name, value))

    def read(
        self, state: int, spaces: Iterable[tuple[str, Callable[[Sequence[Any]], Any]]], observed: Sequence[Any]
    ) -> None:
        """Log the spaces of a worker's reply of which nothing is logged yet; the others' values are not computed."""
        for name, get in spaces:
            if state not in (seen := self._observed[name]):
                seen.add(state)
                self._put(Observation(state, name, get(observed)))

    def missing(self, state: int) -> list[str]:
        """Return the names that are to be logged and have not been observed of a state."""
        return [name for name in self.names if state not in self._observed[name]]

    async def flush(self) -> None:
        """Wait until everything logged so far is in the file.

        Raises:
            TransitionsError: if it cannot be written.
        """
        await in_thread(self._writer.flush)

    def close(self) -> None:
        """Write what is left, and close the file; idempotent.

        Raises:
            TransitionsError: if it cannot be written.
        """
        atexit.unregister(self._writer.close)
        self._writer.close()
