"""Which passes of a libLLVM misbehave: random lists of them on programs whose output is known. `python -m bench.audit`.

Each list is applied to a program in two processes. Passes may crash, hang, or leave a program that is not valid; the
two results may differ; and the program may do something else than before. What is found is shrunk to the fewest
passes that show it (`aiocg.validation.minimize`), and `Report.blames` says which pass is the probable cause.
"""

import asyncio
import contextlib
import dataclasses
import enum
import functools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from aiocg.datasets.benchmark import Benchmark
from aiocg.env.env import Env
from aiocg.errors import ActionFailed, DeadlineExceeded, ServiceError, WorkerCrashed
from aiocg.fleet.restart_policy import Policy
from aiocg.runtime import Runtime
from aiocg.search.lanes import spread
from aiocg.states.executions import differences
from aiocg.transport.system import processors
from aiocg.validation.minimize import MinimizationError, minimize

# ---------------------------------------------------- Results of auditing LLVM's passes, with the passes to blame. Pure


class Kind(enum.StrEnum):
    """The ways in which passes misbehave."""

    CRASH = "crash"
    HANG = "hang"
    BROKEN_IR = "broken IR"
    NONDETERMINISM = "nondeterminism"
    MISCOMPILE = "miscompile"
    NO_CODE = "no machine code"


class Finding(msgspec.Struct, kw_only=True):
    """One misbehaviour.

    Attributes:
        actions: texts of the fewest actions that show it; the list that was tried when `minimal` is False.
        minimal: the list could be shrunk: it shows the same again.
        seen: how many trajectories showed it: lists with these actions in this order, on this program.
    """

    kind: Kind
    program: str
    actions: tuple[str, ...]
    tried: int
    evidence: str
    minimal: bool = True
    seen: int = 1

    def covers(self, kind: Kind, program: str, actions: Sequence[str]) -> bool:
        """Say whether a failure is probably this one again."""
        rest = iter(actions)
        return (kind, program) == (self.kind, self.program) and all(action in rest for action in self.actions)


class Blame(msgspec.Struct, kw_only=True):
    """A pass, and one kind of misbehaviour of which it is the probable cause; the shortest finding comes first."""

    action: str
    kind: Kind
    findings: list[Finding]
    uses: int


class Report(msgspec.Struct, kw_only=True):
    """An audit, as far as it has come.

    Attributes:
        suspects: passes of which each trajectory has at least one.
        trajectories: action lists that were tried, each in two processes.
        uses: how often each action was applied.
    """

    compiler_version: str = ""
    seed: int = 0
    suspects: tuple[str, ...] = ()
    programs: int = 0
    trajectories: int = 0
    uses: dict[str, int] = msgspec.field(default_factory=dict)
    findings: list[Finding] = msgspec.field(default_factory=list)
    walltime: float = 0.0

    def add(self, finding: Finding) -> None:
        """Take in a finding; one that is known is counted."""
        for known in self.findings:
            if (known.kind, known.program, known.actions) == (finding.kind, finding.program, finding.actions):
                known.seen += finding.seen
                return
        self.findings.append(finding)

    def blames(self) -> list[Blame]:
        """Return the passes to blame, most findings first.

        A list of several actions does not say which of them is wrong. So of each kind of misbehaviour the fewest
        passes are blamed that account for all lists: the one that is in most of them, then the one that is in most of
        the rest, and so on; a suspect before others, and the later in a list before the earlier.
        """
        blames = []
        for kind in Kind:
            rest = [finding for finding in self.findings if finding.kind == kind]
            while rest:
                action = self._most_common(rest)
                own = [finding for finding in rest if action in finding.actions]
                rest = [finding for finding in rest if action not in finding.actions]
                own.sort(key=lambda finding: (not finding.minimal, len(finding.actions), finding.actions))
                blames.append(Blame(action=action, kind=kind, findings=own, uses=self.uses.get(action, 0)))
        return sorted(blames, key=lambda blame: (-len(blame.findings), blame.action))

    def _most_common(self, findings: Sequence[Finding]) -> str:
        counts = Counter(action for finding in findings for action in set(finding.actions))
        places = {action: index for finding in findings for index, action in enumerate(finding.actions)}
        return max(counts, key=lambda action: (counts[action], action in self.suspects, places[action], action))

    def to_json(self) -> dict[str, Any]:
        """Return the report, with the blames, as a JSON object."""
        return {**msgspec.to_builtins(self), "blames": msgspec.to_builtins(self.blames())}

    def to_markdown(self) -> str:
        """Return the report as a table in Markdown."""
        total = sum(self.uses.values())
        lines = [
            f"{self.compiler_version}: {self.trajectories} random lists with {total} passes in all, on {self.programs} "
            f"programs, seed {self.seed}, in {self.walltime:.0f} s.",
            "",
            "| pass | misbehaviour | findings | programs | uses | shortest list | on | evidence |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for blame in self.blames():
            first = blame.findings[0]
            cells = (
                f"`{blame.action}`",
                str(blame.kind),
                sum(finding.seen for finding in blame.findings),
                len({finding.program for finding in blame.findings}),
                blame.uses,
                f"`{','.join(first.actions)}`" + ("" if first.minimal else " (not shown again)"),
                first.program.removeprefix("benchmark://"),
                first.evidence.replace("|", "\\|"),
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        if not self.findings:
            lines.append("| none | | | | | | | |")
        return "\n".join(lines) + "\n"


# ----- Finding the passes of a libLLVM that misbehave, by trying random lists of them on programs whose output is known

LENGTHS = (6, 21)  # of the lists, at least and at most
ROUND = 50  # lists after which the two processes are replaced by fresh ones
TRIES = 4  # before a difference between two processes counts as one that does not show again
TIMEOUT = 60.0  # seconds for the passes of a list
RUN_TIMEOUT = 10.0  # seconds for a run of a program, which takes 0.05 unoptimised
EXECUTION = "Execution"

Outcome = tuple[Kind, str]
ProgressCallback = Callable[[Report], None]


async def audit(
    *,
    seconds: float | None = None,
    trajectories: int | None = None,
    programs: Iterable[Benchmark] | None = None,
    suspects: Sequence[str] = (),
    seed: int = 0,
    pairs: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report | None = None,
) -> Report:
    """Try random lists of passes and report what misbehaves.

    The same seed gives the same lists. It ends at the first limit that is reached.

    Args:
        seconds: of wall time; None is no limit.
        trajectories: how many lists; None is no limit.
        programs: benchmarks whose programs can run, `programs-v0` if None. Of each, the first run is done.
        suspects: passes that need not be in the action space; each list then has one or more of them, among others.
        seed: of all random choices.
        pairs: how many pairs of processes work at once; half as many as there are processors if None.
        progress: called with the report after each list.
        report: filled as the audit goes on, so that it is at hand when this is cancelled.

    Raises:
        ValueError: when there is no limit, or a benchmark cannot be run.
        ServiceError: when no worker can be started.
    """
    if seconds is None and trajectories is None:
        raise ValueError("an audit needs a limit: give seconds, trajectories, or both")
    report = Report() if report is None else report
    auditor = _Auditor(report, tuple(suspects), seed, progress)
    auditor.limit(seconds, trajectories)
    await auditor.prepare(programs)
    count = max(1, len(processors()) // 2) if pairs is None else pairs
    await spread([auditor.work] * count)
    return report


class _Auditor:
    """Hands out lists to pairs of processes and keeps the report."""

    def __init__(self, report: Report, suspects: tuple[str, ...], seed: int, progress: ProgressCallback | None) -> None:
        self._report = report
        self._progress = progress
        self._started = time.monotonic()
        self._next = 0
        self._deadline = float("inf")
        self._trajectories = float("inf")
        self._benchmarks: list[Benchmark] = []
        self._expected: dict[str, Any] = {}
        self._actions: tuple[str, ...] = ()
        report.seed, report.suspects = seed, suspects

    def limit(self, seconds: float | None, trajectories: int | None) -> None:
        """Set when to stop."""
        if seconds is not None:
            self._deadline = self._started + seconds
        if trajectories is not None:
            self._trajectories = trajectories

    async def prepare(self, programs: Iterable[Benchmark] | None) -> None:
        """Find the programs and the passes, and what the programs do."""
        async with Runtime(workers=1) as runtime:
            chosen = runtime.datasets["programs-v0"].benchmarks() if programs is None else programs
            self._benchmarks = [_with_one_run(benchmark) for benchmark in chosen]
            env = await runtime.make("llvm-v0", benchmark=self._benchmarks[0])
            await env.check_actions(self._report.suspects)
            self._actions = tuple(env.action_space.names)
            self._report.compiler_version = env.compiler_version
            self._report.programs = len(self._benchmarks)
            for benchmark in self._benchmarks:
                await env.reset(benchmark=benchmark)
                self._expected[str(benchmark.uri)] = await env.observe(EXECUTION)

    async def work(self) -> None:
        """Try lists until the end, with fresh processes now and then."""
        while self._goes_on():
            async with _pair() as (one, other):
                for _ in range(ROUND):
                    if not self._goes_on():
                        return
                    await self._try(one, other)

    def _goes_on(self) -> bool:
        return self._next < self._trajectories and time.monotonic() < self._deadline

    async def _try(self, one: Env, other: Env) -> None:
        number, report = self._next, self._report
        self._next += 1
        benchmark = self._benchmarks[number % len(self._benchmarks)]
        actions = self._draw(number)
        pair = _Pair(one, other, benchmark, self._expected[str(benchmark.uri)])
        outcome = await pair.outcome(actions)
        if outcome is not None:
            await self._record(pair, actions, outcome)
        report.trajectories += 1
        for action in actions:
            report.uses[action] = report.uses.get(action, 0) + 1
        report.walltime = time.monotonic() - self._started
        if self._progress is not None:
            self._progress(report)

    def _draw(self, number: int) -> tuple[str, ...]:
        """Return the n-th list; it depends on nothing but the seed and n."""
        rng = random.Random(f"{self._report.seed}-{number}")
        actions = [rng.choice(self._actions) for _ in range(rng.randint(*LENGTHS))]
        suspects = self._report.suspects
        for suspect in rng.sample(suspects, rng.randint(min(1, len(suspects)), len(suspects))):
            actions.insert(rng.randint(0, len(actions)), suspect)
        return tuple(actions)

    async def _record(self, pair: "_Pair", actions: tuple[str, ...], outcome: Outcome) -> None:
        kind, evidence = outcome
        program = str(pair.benchmark.uri)
        for known in self._report.findings:
            if known.minimal and known.covers(kind, program, actions):
                known.seen += 1
                return
        finding = Finding(kind=kind, program=program, actions=actions, tried=len(actions), evidence=evidence)
        try:
            finding.actions = await pair.minimal(actions, kind)
        except (MinimizationError, ServiceError):
            finding.minimal = False
        self._report.add(finding)


@dataclasses.dataclass
class _Pair:
    """Two environments in two processes, and a program with what it does."""

    one: Env
    other: Env
    benchmark: Benchmark
    expected: Any

    async def outcome(self, actions: Sequence[str]) -> Outcome | None:
        """Apply a list in both processes and return what goes wrong, None if nothing does."""
        errors = await spread([functools.partial(self._apply, env, actions) for env in (self.one, self.other)])
        error = next(filter(None, errors), None)
        return _failure(error) if error is not None else await self._judge(self.one)

    async def _judge(self, env: Env) -> Outcome | None:
        """Return what is wrong with the state of the first environment, when the second has done the same."""
        if env.state_hash != self.other.state_hash:
            evidence = f"states {env.state_hash:016x} and {self.other.state_hash:016x}"
            return Kind.NONDETERMINISM, evidence
        assert self.benchmark.program is not None
        try:
            wrong = differences(self.expected, await env.observe(EXECUTION), self.benchmark.program.runs)
        except WorkerCrashed as error:
            return Kind.NO_CODE, f"the code generator died: {error.cause}"
        except ServiceError as error:
            return Kind.NO_CODE, _line(str(error))
        return (Kind.MISCOMPILE, _describe(wrong[0])) if wrong else None

    async def minimal(self, actions: tuple[str, ...], kind: Kind) -> tuple[str, ...]:
        """Return the fewest actions that go wrong in the same way."""

        async def same(env: Env) -> bool:
            if kind is Kind.NONDETERMINISM and await self._apply(self.other, env.action_texts) is not None:
                return False
            outcome = await self._judge_alone(env) if kind is not Kind.NONDETERMINISM else await self._judge(env)
            return outcome is not None and outcome[0] is kind

        await self.one.reset(benchmark=self.benchmark)
        result = await minimize(
            self.one,
            same,
            actions,
            flakiness=TRIES if kind is Kind.NONDETERMINISM else 1,
            failing=lambda error: _failure(error)[0] is kind,
            lanes=1,
        )
        return result.actions

    async def _judge_alone(self, env: Env) -> Outcome | None:
        return await dataclasses.replace(self, other=env)._judge(env)

    async def _apply(self, env: Env, actions: Sequence[str]) -> Exception | None:
        """Apply a list from the start and return the error that it ends with, if it does."""
        await env.reset(benchmark=self.benchmark)
        _, _, terminated, _, info = await env.step_texts(actions)
        error: Exception | None = info["error"] if terminated else None
        return error


@contextlib.asynccontextmanager
async def _pair() -> AsyncIterator[tuple[Env, Env]]:
    """Have two environments, each in a process of its own, that remember no transitions."""
    async with contextlib.AsyncExitStack() as stack:
        envs = []
        for _ in range(2):
            options = {"transition_cache_bytes": 0, "verify_passes": True}
            runtime = Runtime(workers=1, options=options, policy=Policy(max_delay=0.5))
            await stack.enter_async_context(runtime)
            env = await runtime.make("llvm-v0")
            env.timeout = TIMEOUT
            envs.append(env)
        yield envs[0], envs[1]


def _with_one_run(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark with the first run only, which may not take long; raise ValueError when it has none."""
    program = benchmark.program
    if program is None or not program.runs:
        raise ValueError(f"{benchmark.uri} does not say how it is run")
    name, run = next(iter(program.runs.items()))
    runs = {name: dataclasses.replace(run, timeout=min(run.timeout, RUN_TIMEOUT))}
    return benchmark.replace(program=dataclasses.replace(program, runs=runs, measured=name, carried=None))


def _failure(error: Exception) -> Outcome:
    """Say what it means when a list ends with an error.

    Raises:
        Exception: the error, when it is not the compiler's.
    """
    match error:
        case DeadlineExceeded():
            return Kind.HANG, f"not done after {error.timeout:.0f} s"
        case WorkerCrashed():
            return Kind.CRASH, _line(f"{error.cause}: {error.stderr}")
        case ActionFailed():
            return Kind.BROKEN_IR, _line(str(error))
        case _:
            raise error


def _describe(error: Any) -> str:
    return f"{error.type} ({error.data['run']})"


def _line(text: str, width: int = 160) -> str:
    """Return the beginning of a text, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= width else words[: width - 3] + "..."


def main(
    seconds: Annotated[float | None, typer.Option(help="Stop after this time; 60 without --trajectories.")] = None,
    trajectories: Annotated[int | None, typer.Option(help="Stop after this many lists of passes.")] = None,
    suspect: Annotated[list[str] | None, typer.Option(help="A pass to try more than others; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Worker processes, in pairs.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the table to this file, too.")] = None,
) -> None:
    """Look for passes that crash, hang, miscompile, or differ from one process to another, and print a table."""
    if seconds is None and trajectories is None:
        seconds = 60.0
    report = Report()
    pairs = None if workers is None else workers // 2
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            audit(
                seconds=seconds,
                trajectories=trajectories,
                suspects=suspect or (),
                seed=seed,
                pairs=pairs,
                progress=lambda report: print(
                    f"{len(report.findings)} findings in {report.trajectories} lists", end="\r"
                ),
                report=report,
            )
        )
    print(report.to_markdown(), end="")
    if output is not None:
        output.write_text(report.to_markdown(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
