"""Expansions: several candidates in one request, or single ones in requests of their own, to find who does harm."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.fleet.death import Death
from aiocg.fleet.pending import Pending, Receiver
from aiocg.transport.messages import Expand, Expanded, Reply, Request
from aiocg.transport.status import NO_CANDIDATE, SEVERAL

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["PendingCandidate", "PendingExpand"]


class PendingExpand(Pending):
    """Evaluates candidates. When it is sent again, candidates that killed a worker are left out.

    Attributes:
        combine: turns the reply and the crashes into the caller's result.
        crashes: the errors of the candidates left out, by index.
        alone: evaluate each candidate by itself, because a worker died while preparing several at once.
        only: index of the candidate to evaluate, `NO_CANDIDATE` for all of them.
    """

    __slots__ = (
        "_answers",
        "_deaths",
        "_missing",
        "alone",
        "candidates",
        "combine",
        "crashes",
        "observe",
        "only",
        "timeout",
    )
    answer = Expanded
    doing = "a candidate of an expansion"
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        candidates: Sequence[tuple[Any, ...]],
        observe: tuple[str, ...],
        timeout: float,
        future: Receiver,
        combine: Callable[[Expanded, dict[int, Exception]], Any],
    ) -> None:
        super().__init__(session, future)
        self.candidates = tuple(candidates)
        self.observe = observe
        self.timeout = timeout
        self.combine = combine
        self.crashes: dict[int, Exception] = {}
        self.alone = False
        self._deaths: Counter[int] = Counter()
        self.only = NO_CANDIDATE
        self._answers: dict[int, Expanded] = {}  # of candidates that were evaluated in requests of their own
        self._missing: set[int] = set()

    @property
    def candidates_left(self) -> set[int]:
        """The indices of the candidates that have not killed a worker."""
        return set(range(len(self.candidates))).difference(self.crashes)

    def parts(self) -> "list[PendingCandidate]":
        """Divide this request into one per candidate; it is answered when all of them are."""
        self._missing = self.candidates_left
        return [PendingCandidate(self, index) for index in sorted(self._missing)]

    def part(self, index: int) -> "PendingCandidate":
        """Return a request for one candidate, which this request leaves out once that is answered."""
        return PendingCandidate(self, index)

    def settle_part(self, index: int, reply: Expanded) -> None:
        """Record the reply to one of the parts; if this request was divided, deliver all of them after the last."""
        self._answers[index] = reply
        if index in self._missing:
            self._missing.remove(index)
            if not self._missing:
                self.settle(Expanded(reply.request, (None,) * len(self.candidates), 0.0))

    def settle(self, reply: Reply) -> None:
        if isinstance(reply, Expanded) and self._answers:
            results = list(reply.candidates)
            for index, answer in self._answers.items():
                results[index] = answer.candidates[index]
            seconds = reply.compiler_time + sum(answer.compiler_time for answer in self._answers.values())
            reply = Expanded(reply.request, tuple(results), seconds)
        super().settle(reply)

    def reject_parts(self, error: Exception) -> None:
        """Deliver the first error of a part, and ignore later ones."""
        if self._missing:
            self._missing.clear()
            self.reject(error)

    def message(self, number: int) -> Request:
        failed = tuple(sorted({*self.crashes, *self._answers}))
        return Expand(number, self.session.number, self.candidates, self.timeout, self.observe, failed, self.alone)

    def died(self, candidate: int, death: Death, limit: int) -> bool:
        """Record that the worker died over a candidate, or SEVERAL; return whether the candidate is blamed.

        Args:
            candidate: its index.
            death: how the worker died.
            limit: number of deaths of this kind after which it is blamed.
        """
        if candidate == SEVERAL:
            self.alone = True
            return False
        self._deaths[candidate] += 1
        if self._deaths[candidate] < limit:
            return False
        self.crashes[candidate] = death.error(self.doing)
        return True

    def result(self, reply: Any) -> Any:
        return self.combine(reply, self.crashes)

    def accepts(self, reply: Reply) -> bool:
        if not isinstance(reply, Expanded):
            return super().accepts(reply)
        return len(reply.candidates) == len(self.candidates) and all(
            result is None or bool(result.code) or len(result.observations) == len(self.observe)
            for result in reply.candidates
        )


class PendingCandidate(PendingExpand):
    """Evaluates one candidate of an expansion over which workers die."""

    __slots__ = ("_whole",)
    counted = False

    def __init__(self, whole: PendingExpand, index: int) -> None:
        """Make the part of an expansion that evaluates one candidate."""
        assert whole.future is not None
        super().__init__(whole.session, whole.candidates, whole.observe, whole.timeout, whole.future, whole.combine)
        self._whole = whole
        self.only = index
        self.crashes = whole.crashes
        self.alone = True
        self.independent = whole.independent
        self.attempts, self.deaths = whole.attempts, whole.deaths

    def message(self, number: int) -> Request:
        failed = tuple(index for index in range(len(self.candidates)) if index != self.only or index in self.crashes)
        return Expand(number, self.session.number, self.candidates, self.timeout, self.observe, failed, self.alone)

    def settle(self, reply: Reply) -> None:
        if isinstance(reply, Expanded):
            self._whole.settle_part(self.only, reply)
        else:
            super().settle(reply)

    def reject(self, error: Exception) -> None:
        self._whole.reject_parts(error)
