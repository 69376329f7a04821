"""Distributes a tuner's proposals over all workers, until the budget is used up.

One evaluation can take a hundred times as long as another, so workers do not wait for each other. The result still
does not depend on the number of workers or their speed, because the sequence of calls to the tuner does not depend on
time. If fewer than `Pace.ahead` batches are outstanding, and the tuner does not wait for outcomes, it is asked for
another batch; otherwise it is told the outcomes of the oldest batch. A slow evaluation holds up the others only when it
is `Pace.ahead` batches behind."""

import functools
import itertools
import math
import statistics
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint

from aiocg.search._checking import Checker
from aiocg.search._prefix_evaluation import Lane
from aiocg.search.budget import Meter
from aiocg.search.lanes import CHUNK, spread
from aiocg.search.result import Record, SearchState
from aiocg.search.tuner import FAILED, Outcome, Proposal, Tuner

Actions = tuple[str, ...]


class Memory:
    """Gives each list of actions the one form in which it is evaluated.

    Two lists that lead to the same state go on alike: where that is known, both get the form of the first one.
    """

    def __init__(self, *, merging: bool) -> None:
        """Begin with nothing known.

        Args:
            merging: whether the reward of an episode depends on nothing but the state that it comes to; otherwise
                every list is a form of its own.
        """
        self._merging = merging
        self._forms: dict[Actions, Actions] = {}  # of lists whose state is known
        self._first: dict[int, Actions] = {}  # the first list that led to a state
        self._failed: set[Actions] = set()

    def form(self, actions: Actions) -> Actions:
        """Return the form of a list, as far as is known by now."""
        if not self._merging:
            return actions
        known = self._forms
        form: Actions = ()
        for action in actions:
            longer = (*form, action)
            form = known.get(longer, longer)
        return form

    def learn(self, actions: Actions, form: Actions, outcome: Outcome) -> None:
        """Take note of the state that a list and its form lead to."""
        if outcome.failed:
            self._failed.add(form)
        if outcome.failed or not self._merging:
            return
        first = self._first.setdefault(outcome.state, outcome.actions)
        for one in (actions, form, outcome.actions):
            if one:
                self._forms[one] = first

    def fails(self, form: Actions) -> bool:
        """Is it known that a list fails, since it begins with one that does?"""
        return bool(self._failed) and any(form[:length] in self._failed for length in range(1, len(form) + 1))


IsRight = Callable[[Actions, int], Awaitable[bool]]

FINAL = 0.1  # part of the time that is kept for the finals
FINALISTS = 4
ROUNDS, LEAST_ROUNDS = 9, 3


class Finals:
    """The best few lists of actions of a search."""

    def __init__(self) -> None:
        self._rewards: dict[Actions, float] = {}

    def offer(self, actions: Actions, reward: float) -> None:
        """Let a list take part if it is among the best so far; the one without actions never does."""
        if not actions:
            return
        self._rewards[actions] = reward
        if len(self._rewards) > FINALISTS:
            self._rewards.pop(min(self._rewards, key=self._rewards.__getitem__))

    async def decide(self, lane: Lane, meter: Meter, is_right: IsRight) -> tuple[Actions, float]:
        """Measure the finalists in turns.

        Args:
            lane: evaluates them.
            meter: of the budget; there are three rounds even if the time is up, and nine at most.
            is_right: whether a program does what it should, given the actions and the hash of the state.

        Returns:
            The actions with the highest median of those that are right, and that reward; no actions and 0 if that is
            no gain.

        Raises:
            ServiceError: if the worker fails.
        """
        measured: dict[Actions, list[Outcome]] = {actions: [] for actions in self._rewards}
        for number in range(ROUNDS):
            if number >= LEAST_ROUNDS and meter.out_of_time:
                break
            for actions, outcomes in measured.items():
                outcomes += await lane.evaluate([actions])
        medians = {actions: statistics.median(one.reward for one in found) for actions, found in measured.items()}
        for actions in sorted(medians, key=medians.__getitem__, reverse=True):
            state = next((one.state for one in measured[actions] if not one.failed), 0)
            if medians[actions] > 0 and await is_right(actions, state):
                return actions, medians[actions]
        return (), 0.0


STALE = 2000  # repeated proposals in a row after which the search ends
OVERTIME = 1.1  # share of the time after which evaluations are cut off
LEVELS = 2.0  # seconds that the baselines may take whatever the budget
STRONGEST = "OzMinsize"  # the baseline that is nearly always the best
FAR, LEAST = 5.0, 2.0  # a job takes too long at so many times its usual time, and so many seconds


@dataclass(slots=True, eq=False)
class _Evaluation:
    """The evaluation of a list of actions.

    Attributes:
        number: its place in the sequence of evaluations; -1 for baselines, looks and lists known to fail.
        form: the list.
        outcome: None until it is known.
        look: whether the state is only looked at.
        judged: whether it was offered to the record.
    """

    number: int
    form: tuple[str, ...]
    outcome: Outcome | None = None
    look: bool = False
    judged: bool = False


def _effects_of(form: tuple[str, ...], outcome: Outcome) -> str:
    """Return a digit for each action of a list: 1 if it has an effect, else 0."""
    left = deque(outcome.actions)
    return "".join("1" if left and left[0] == text and left.popleft() else "0" for text in form)


def _checksum_of(done: Sequence[_Evaluation]) -> int:
    """Return a checksum of the lists of evaluations, in order."""
    found = 0
    for one in done:
        found = zlib.crc32("\0".join((*one.form, "")).encode("utf-8", "surrogatepass"), found)
    return found


@dataclass(frozen=True, slots=True)
class Pace:
    """How many proposals a tuner is asked for, independent of the number of workers.

    Attributes:
        batch: most proposals per call of `ask`.
        ahead: most outstanding batches. More keep more workers busy; with fewer, a tuner knows more when it is asked.
    """

    batch: int = 16
    ahead: int = 2


@dataclass(slots=True, eq=False)
class _Run:
    """A job that a lane works on, and perhaps a second one, too."""

    job: list[_Evaluation]
    started: float
    scope: anyio.CancelScope
    twice: bool = False


@dataclass(slots=True, eq=False)
class Dispatcher:
    """Distributes a tuner's proposals to the lanes, and tells the tuner the outcomes in order.

    Attributes:
        exhausted: the tuner has finished, or repeats itself.

    Args:
        record: keeps the best result; its meter is the budget.
        tuner: makes the proposals.
        memory: what is known of actions without effect, and of those that fail.
        pace: how many proposals the tuner is asked for.
        lanes: evaluate lists of actions, one per worker.
        checker: runs new bests.
        before: the state of an earlier search to go on from.
        finals: collects the best few if rewards are measured.
    """

    _record: Record
    _tuner: Tuner
    _memory: Memory
    _pace: Pace
    _lanes: Sequence[Lane]
    _checker: Checker
    _before: SearchState | None
    _finals: Finals | None  # if rewards are measured
    _known: dict[tuple[str, ...], _Evaluation] = field(default_factory=dict, init=False)
    _numbered: list[_Evaluation] = field(default_factory=list, init=False)
    _open: deque[list[tuple[Proposal, _Evaluation]]] = field(default_factory=deque, init=False)
    _jobs: deque[list[list[_Evaluation]]] = field(default_factory=deque, init=False)  # by batch; no lane has them
    _left: Sequence[Proposal] = field(default=(), init=False)  # proposals that the budget did not allow
    _waits: bool = field(default=False, init=False)  # the tuner waits for outcomes
    _ended: bool = field(default=False, init=False)  # the budget allows no more
    _judging: bool = field(default=False, init=False)  # a lane is about to tell the tuner of outcomes
    _stale: int = field(default=0, init=False)
    _seconds: float = field(default=0.0, init=False)  # that an evaluation takes, about
    _news: anyio.Event = field(default_factory=anyio.Event, init=False)
    _running: dict[Lane, _Run] = field(default_factory=dict, init=False)
    exhausted: bool = field(default=False, init=False)

    async def begin(self, baselines: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Evaluate and run the baselines; return what those earn that succeed, also if they break the program.

        Those that would take longer than the budget are left out, but for the program as it is and the strongest one.
        """
        await self._checker.begin(baselines)
        started, found = time.monotonic(), dict[tuple[str, ...], Outcome]()
        strongest = baselines.get(STRONGEST, ())
        waiting = deque(sorted(baselines.values(), key=lambda actions: bool(actions) + (actions != strongest)))

        async def evaluate(lane: Lane) -> None:
            while waiting:
                actions = waiting.popleft()
                left = max(self._record.meter.left(), started + LEVELS - time.monotonic())
                always = not actions or actions == strongest
                if not always and left <= 0:
                    return
                with anyio.move_on_after(math.inf if always else left) as scope:
                    (found[actions],) = await lane.evaluate([actions])
                if scope.cancelled_caught:
                    await lane.start_again()

        await spread([functools.partial(evaluate, lane) for lane in self._lanes])
        lists = [actions for actions in baselines.values() if actions in found]
        self._seconds = (time.monotonic() - started) * min(len(self._lanes), len(lists)) / len(lists)
        known = {actions: _Evaluation(-1, actions, found[actions]) for actions in lists}
        self._known |= known
        await self._judge(list(known.values()))
        for actions, one in known.items():
            self._memory.learn(actions, actions, one.outcome or found[actions])
        return {name: found[one].reward for name, one in baselines.items() if one in found and not found[one].failed}

    async def run(self) -> None:
        """Search until the budget is used up or the tuner has finished; may be called again with more budget."""
        self._ended = False
        limit = math.inf if self._before is not None else self._record.meter.left(OVERTIME)
        with anyio.move_on_after(limit) as scope:  # some evaluations take as long as all others together
            await spread([functools.partial(self._work, lane) for lane in self._lanes])
        if scope.cancelled_caught:
            await spread([lane.start_again for lane in self._lanes])
        await self._judge(self._numbered)

    async def _judge(self, evaluations: Sequence[_Evaluation]) -> None:
        """Offer outcomes to the record that were not offered yet; those that break the program have failed."""
        new = [one for one in evaluations if one.outcome is not None and not (one.judged or one.look)]
        found = [one.outcome for one in new if one.outcome is not None and not one.outcome.failed]
        wrong = {id(outcome) for outcome in await self._checker.offer(self._record, found)}
        for one in new:
            one.judged = True
            if id(one.outcome) in wrong:
                one.outcome = Outcome(FAILED)
            elif self._finals is not None and one.outcome is not None and not one.outcome.failed:
                self._finals.offer(one.outcome.actions, one.outcome.reward)
        self._record.report()

    def state(self) -> SearchState:
        """Return the state to resume from; evaluations that it does not contain are not counted."""
        done = list(itertools.takewhile(lambda one: one.outcome is not None, self._numbered))
        outcomes = [one.outcome for one in done if one.outcome is not None]
        before = len(self._before.outcomes) if self._before is not None else 0
        if len(done) < before:
            raise ValueError("the state to resume from was made with other arguments or by another version")
        self._record.meter.evaluations = len(done) - before
        return self._record.state(
            outcomes=tuple([None if one.failed else one.reward for one in outcomes]),
            states=tuple([one.state for one in outcomes]),
            effects=tuple([_effects_of(one.form, outcome) for one, outcome in zip(done, outcomes, strict=True)]),
            targets=tuple([one.targets or () for one in outcomes]) if any(one.targets for one in outcomes) else (),
            costs=tuple([one.costs for one in outcomes]) if any(one.costs for one in outcomes) else (),
            checksum=_checksum_of(done),
        )

    async def _work(self, lane: Lane) -> None:
        """Evaluate jobs on a lane until the search ends."""
        while (job := await self._next(lane)) is not None:
            forms, looking = [one.form for one in job], job[0].look
            run = self._running[lane] = _Run(job, time.monotonic(), anyio.CancelScope(), self._is_running(job))
            try:
                with run.scope:
                    outcomes = await (lane.look(forms) if looking else lane.evaluate(forms))
            finally:
                del self._running[lane]
            if run.scope.cancelled_caught:
                await lane.start_again()
                continue
            for other in self._running.values():
                if other.job is job:
                    other.scope.cancel()
            self._seconds = self._seconds if looking else (time.monotonic() - run.started) / len(job)
            for one, outcome in zip(job, outcomes, strict=True):
                if one.outcome is not None:  # another lane was first
                    continue
                if self._finals is not None and not looking and outcome.reward > self._record.reward:
                    (outcome,) = await lane.evaluate([one.form])
                one.outcome = outcome
            self._announce()
            self._record.report()

    async def _next(self, lane: Lane) -> list[_Evaluation] | None:
        """Return the next job for a lane, as much of it as there is time for, or None when the search is over."""
        while self._repeats or not self._record.meter.out_of_time:
            while self._jobs and not self._jobs[0]:
                self._jobs.popleft()
            if self._jobs:
                jobs = self._jobs[0]
                job = jobs.pop(max(range(len(jobs)), key=lambda index: (lane.nearness(jobs[index][0].form), -index)))
                most = len(job) if job[0].look else self._record.meter.fitting(self._seconds)
                jobs += [job[most:]] if job[most:] else []
                return job[:most]
            if await self._advance():
                await checkpoint()  # otherwise the loop might not yield if all proposals were known
            elif (late := self._straggler()) is not None:
                late.twice = True
                return late.job
            elif self._open:
                with anyio.move_on_after(LEAST):
                    await self._news.wait()
            else:
                break
        self._announce()
        return None

    def _straggler(self) -> _Run | None:
        """Return a job that takes far longer than others, so that a lane without work begins it as well.

        The first answer counts, and the other is not waited for. What is measured is never measured twice at once.
        """
        now = time.monotonic()
        for run in self._running.values():
            usual = self._seconds * len(run.job)
            if self._finals is None and not run.twice and now - run.started > max(LEAST, FAR * usual):
                return run
        return None

    def _is_running(self, job: list[_Evaluation]) -> bool:
        return any(run.job is job for run in self._running.values())

    async def _advance(self) -> bool:
        """Ask the tuner, or judge outcomes, in order, and tell it; return False if neither is possible now."""
        if not (self._ended or self._waits or self.exhausted) and len(self._open) < self._pace.ahead:
            self._ask()
            return True
        if self._judging:
            return False
        if not self._open or any(one.outcome is None for _, one in self._open[0]):
            self.exhausted = self.exhausted or (self._waits and not self._open)
            return False
        self._judging = True
        try:
            await self._judge([one for _, one in self._open[0]])
        finally:
            self._judging = False
        for proposal, one in self._open.popleft():
            assert one.outcome is not None
            if not one.look:
                self._memory.learn(proposal.actions, one.form, one.outcome)
            self._tuner.tell(proposal, one.outcome)
            self._record.round += 1
        self._waits = False
        self._announce()
        return True

    def _ask(self) -> None:
        """Ask for a batch, and divide its new lists among the lanes."""
        proposals = self._left or self._tuner.ask(self._pace.batch)
        self._waits, self._left = not proposals, []
        batch, new = [], []
        for index, proposal in enumerate(proposals):
            if proposal.look:
                new.append(_Evaluation(-1, proposal.actions, look=True))
                batch.append((proposal, new[-1]))
                continue
            form = self._memory.form(proposal.actions)
            one = self._known.get(form)
            if one is None and self._memory.fails(form):
                one = _Evaluation(-1, form, Outcome(FAILED))
            self._stale = self._stale + 1 if one is not None else 0
            if one is None:
                if not self._allowed():
                    self._ended, self._left = True, proposals[index:]
                    break
                one = self._known[form] = _Evaluation(len(self._numbered), form)
                self._numbered.append(one)
                self._replay(one)
                if one.outcome is None:
                    new.append(one)
            batch.append((proposal, one))
        self.exhausted = self._stale >= STALE
        if batch:
            self._open.append(batch)
        if new:
            new.sort(key=lambda one: one.form)
            size = min(math.ceil(len(new) / len(self._lanes)), CHUNK)
            self._jobs.append([new[start : start + size] for start in range(0, len(new), size)])
            self._announce()

    def _allowed(self) -> bool:
        """Count one more evaluation and return whether the budget allows it; replayed evaluations are free."""
        if self._repeats:
            return True
        if not self._record.meter.allows(1):
            return False
        self._record.meter.evaluations += 1
        return True

    @property
    def _repeats(self) -> bool:
        """Whether the next evaluation is replayed from an earlier search."""
        return self._before is not None and len(self._numbered) < len(self._before.outcomes)

    def _replay(self, one: _Evaluation) -> None:
        """Settle an evaluation with the outcome of an earlier search, if it has one."""
        before = self._before
        if before is None or one.number >= len(before.outcomes):
            return
        if one.number + 1 == len(before.outcomes):
            if _checksum_of(self._numbered) != before.checksum:
                raise ValueError(
                    "the state to resume from was made with another seed, with other arguments or by another version"
                )
            self._record.meter.restart()
        reward, effects = before.outcomes[one.number], before.effects[one.number]
        actions = tuple([text for text, effect in zip(one.form, effects, strict=False) if effect == "1"])
        targets = before.targets[one.number] if before.targets else None
        costs = before.costs[one.number] if before.costs else ()
        known = Outcome(reward or 0.0, actions, before.states[one.number], targets, costs)
        one.outcome = Outcome(FAILED) if reward is None else known

    def _announce(self) -> None:
        """Wake the waiting lanes."""
        self._news.set()
        self._news = anyio.Event()
