"""The reference behaviour of a program, as it came and at the compiler's levels.

Where these agree, an optimised program must agree with them, too. Where they do not, its behaviour is chance or
undefined, and an optimised program must at least agree with one of them.
"""

import dataclasses
import math
import re
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.env.base import Owner
from aiocg.env.env import Env
from aiocg.env.step import Candidate
from aiocg.errors import AiocgError, ResetNeeded, ServiceError, SessionLost, WorkerCrashed
from aiocg.search.lanes import bare_sibling
from aiocg.states.behaviour import Behaviour
from aiocg.states.executions import PLAIN, Run, differences, faults, in_words, ran_out_of_memory
from aiocg.states.result import ErrorKind, ValidationError

Levels = Mapping[str, tuple[str, ...]]
"""The compiler's own levels, by name."""

UNASKED = "without arguments or input"  # the name of the run of a program that says nothing of its runs
UNBOXED = " (without a box, in an empty folder: bubblewrap is missing, or may not be used)"
PATIENCE = 2.0  # seconds that such a run may take
SLOWER = 10.0  # times as long as the program as it came, after which a program is stopped
LEAST = 1.0  # seconds that it may take in any case
ENDLESS = 0.5  # seconds that a program is watched where the reference does not end
REMEMBERED = 256  # references
AGAIN, REPEATING = 12, 0.1  # times that a program is run again, and seconds until which another one begins
ATTEMPTS = 8  # at running a program while workers die
COMPARING = ("loops", "loop_tool")  # workers that compare what a kernel computes before they measure it
UBSAN_FLAGS = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined")

_SMALL, _FAST = ("OzMinsize", "Oz", "Os"), ("O3", "O2")  # levels to compare with, the first of each that there is
_CPLUSPLUS = b"__gxx_personality_v0", b"_ZNSt", b"_ZSt"
_OF_FRONT_END, _OF_INSTRUMENTED_LIBRARIES = "ExecutionUbsan", "ExecutionMsan"
_LINES = ("-gline-tables-only",)  # by which the place of a finding is known
_WATCHING = ((_OF_FRONT_END, UBSAN_FLAGS), ("ExecutionAsan", _LINES), (_OF_INSTRUMENTED_LIBRARIES, _LINES))
_DEFINED = (
    "leaked in",
    "stack-overflow",
    "out-of-memory",
    "allocation-size-too-big",
    "rss-limit",
    "rss limit",
)  # findings
_SAID = re.compile(r": runtime error: (.*)")
_LOCATED = re.compile(r"is located (\d+ bytes .*?)(?= defined in| \[0x| \(0x|$)", re.MULTILINE)
_WRITTEN = (ErrorKind.WRONG_OUTPUT, ErrorKind.WRONG_FILE, ErrorKind.OUTPUT_NOT_GENERATED)  # what a program writes


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """What a program does before it is searched.

    Attributes:
        behaviour: `SAME` if all agree, or why nothing firm can be said.
        reason: what was seen.
        benchmark: the program with its runs and the time that each may take; None if it was not run.
        right: the executions that are as good as any other.
        states: hashes of the states of those.
        errors: what is wrong with the program as it came.
        undefined: where its behaviour is undefined, as far as a sanitizer has found that.
        ends_alone: only how the program ends can be compared, since what it writes varies.
        boxed: whether it ran in a box.
    """

    behaviour: Behaviour
    reason: str
    benchmark: Benchmark | None = None
    right: tuple[Sequence[Run], ...] = ()
    states: tuple[int, ...] = ()
    errors: tuple[ValidationError, ...] = ()
    undefined: tuple[str, ...] = ()
    ends_alone: bool = False
    boxed: bool = True

    def differences(self, actual: Sequence[Run]) -> list[ValidationError]:
        """Return how an execution differs from the one that is most like it; nothing if that cannot be said."""
        if not self.right:
            return []
        found = [self.between(expected, actual) for expected in self.right]
        return [] if [] in found else found[0]

    def between(self, expected: Sequence[Run], actual: Sequence[Run]) -> list[ValidationError]:
        """Return how two executions differ in what can be compared."""
        assert self.benchmark is not None and self.benchmark.program is not None
        found = differences(expected, actual, self.benchmark.program.runs)
        return [one for one in found if not (self.ends_alone and one.kind in _WRITTEN)]

    def after(self, again: Sequence[Run]) -> "Reference":
        """Return the reference after another execution of the program as it came, which may do something else."""
        varying = self.between(self.right[0], again)
        if not varying:
            return self
        varies = dataclasses.replace(self, behaviour=Behaviour.VARIES, ends_alone=True)
        if any(one.kind not in _WRITTEN for one in varying):
            return dataclasses.replace(varies, reason="it ends differently from run to run", right=())
        return dataclasses.replace(varies, reason="what it writes varies from run to run")


def runnable(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark with its runs or, if it has none, with one that has neither arguments nor input."""
    program = program_of(benchmark)
    if program.runs:
        return benchmark
    runs = {UNASKED: ProgramRun(exit_status=None, timeout=PATIENCE)}
    return benchmark.replace(program=dataclasses.replace(program, runs=runs))


def program_of(benchmark: Benchmark) -> BenchmarkProgram:
    """Return how a benchmark is linked: as C or C++ with the machine's libraries, if it does not say that."""
    if benchmark.program is not None:
        return benchmark.program
    return BenchmarkProgram("c++" if any(mark in benchmark.content for mark in _CPLUSPLUS) else "c")


def first_run(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark with the first of its runs only, which is its shortest."""
    program = program_of(benchmark)
    return benchmark.with_runs([next(iter(program.carried or program.runs))])


_known: "weakref.WeakKeyDictionary[Owner, OrderedDict[tuple[str, ...], Reference]]" = weakref.WeakKeyDictionary()
"""For each runtime: another one may run programs without a box, which this one refuses."""


async def reference_of(env: Env, benchmark: Benchmark, levels: Levels, patience: float = math.inf) -> Reference:
    """Return what a program does as it came and at the compiler's levels; what was seen is remembered.

    Args:
        env: an environment of the compiler; only siblings of it are used.
        benchmark: the program with its runs.
        levels: to compare with.
        patience: seconds that a run may take, if its own time is longer.
    """
    try:
        key = (env.compiler_version, env.spec.id, env.spec.form(benchmark).key)
        known = _known.setdefault(env.runtime, OrderedDict())
        if key not in known:
            async with await bare_sibling(env) as own:
                found = await _Trial(own, benchmark, patience).reference(levels)
            if not found.right:
                return found
            known[key] = found
            while len(known) > REMEMBERED:
                known.popitem(last=False)
        known.move_to_end(key)
        return known[key]
    except (DatasetError, AiocgError, OSError) as error:
        return Reference(Behaviour.NOT_RUN, _obstacle(error))


async def run_again(env: Env, found: Reference) -> Reference:
    """Run a program as it came once more, as what differs from it may tell the time; see `Reference.after`.

    Args:
        env: only a sibling of it is used.
        found: what the program did before.
    """
    async with await bare_sibling(env) as own:
        await own.reset(benchmark=found.benchmark)
        return found.after(await own.observe(observation_of_runs(own)))


async def runs_of(env: Env, lists: Sequence[tuple[str, ...]], name: str) -> list[Candidate]:
    """Return what programs do, and try again where a worker died: it may have been killed by something else.

    Args:
        env: at the start of an episode.
        lists: the actions of each program.
        name: the observation of the runs.
    """
    found, left = dict[tuple[str, ...], Candidate](), list(lists)
    for attempt in range(ATTEMPTS):
        try:
            found |= zip(left, await env.expand_texts(left, observation_spaces=[name]), strict=True)
        except (ResetNeeded, SessionLost):
            if attempt + 1 == ATTEMPTS:
                raise
            await env.reset()
            continue
        left = [actions for actions in left if type(found[actions].error) is WorkerCrashed]
        if not left:
            break
    return [found[actions] for actions in lists]


class _Trial:
    """Runs a program as it came and at the compiler's levels, on an environment of its own."""

    def __init__(self, env: Env, benchmark: Benchmark, patience: float) -> None:
        self._env = env
        self._benchmark = _patient(benchmark, patience)
        self._runs = program_of(self._benchmark).runs
        self._name = observation_of_runs(env)

    async def reference(self, levels: Levels) -> Reference:
        """Run the program.

        Raises:
            DatasetError, AiocgError: when it cannot be compiled, linked or started.
        """
        env, name = self._env, self._name
        if not name:
            return Reference(Behaviour.NOT_RUN, f"{env.spec.id} does not run programs")
        await env.reset(benchmark=self._benchmark)
        named = UNASKED in self._runs and "Functions" in env.observation_spaces
        if named and "@main" not in await env.observe("Functions"):
            return Reference(Behaviour.NOT_RUN, "it has no main")
        started = time.monotonic()
        first: Sequence[Run] = await env.observe(name)
        seconds = time.monotonic() - started
        if not first:
            return Reference(Behaviour.NOT_RUN, "it cannot be linked here: the tools for that are missing")
        endless = any(run["timed_out"] for run in first)
        patient = _patient(self._benchmark, ENDLESS if endless else max(LEAST, SLOWER * seconds))
        await env.reset(benchmark=patient)
        seen = await self._at_levels(levels)
        again = [] if endless else await self._again()
        executions = {level: execution for level, (execution, _) in seen.items()}
        right, states = (first, *executions.values()), (env.state_hash, *(state for _, state in seen.values()))
        boxed = all(run["boxed"] for run in first)
        found = Reference(Behaviour.SAME, "", patient, right, states, ends_alone=endless, boxed=boxed)
        return await self._judged(found, again, executions)

    async def _again(self) -> list[Sequence[Run]]:
        """Run the program as it came again, and a quick one several times, as it may do something else now and then."""
        found, started = list[Sequence[Run]](), time.monotonic()
        while not found or (len(found) < AGAIN and time.monotonic() < started + REPEATING):
            found.append(await self._env.observe(self._name))
        return found

    async def _at_levels(self, levels: Levels) -> dict[str, tuple[Sequence[Run], int]]:
        """Return the execution and state at a level for small and one for fast code, where there are such."""
        names = [next((name for name in kind if name in levels), "") for kind in (_SMALL, _FAST)]
        chosen = {name: levels[name] for name in names if name}
        tried = await runs_of(self._env, [*chosen.values()], self._name)
        known = zip(chosen, tried, strict=True)
        return {name: (one.observation[0], one.state) for name, one in known if one.error is None}

    async def _judged(
        self, found: Reference, again: Sequence[Sequence[Run]], seen: Mapping[str, Sequence[Run]]
    ) -> Reference:
        """Say whether the executions agree."""
        replace, first, asked = dataclasses.replace, found.right[0], UNASKED not in self._runs
        if any(map(ran_out_of_memory, first)):
            reason = "it takes more memory than a run may"
            return replace(found, behaviour=Behaviour.NOT_RUN, reason=reason, right=())  # candidates would, too
        if slow := [run["name"] for run in first if run["timed_out"]]:
            ends = " and ".join(
                f"with {_shown(level)}" for level, runs in seen.items() if not any(map(_timed_out, runs))
            )
            if ends or not asked:
                late = f"does not end within {self._runs[slow[0]].timeout:g} s"
                reason = f"as it came it {late}, {ends} it does" if ends else f"{UNASKED} it {late}"
                reason += "" if asked else ": say with --run how it is run"
                return replace(found, behaviour=Behaviour.NOT_RUN, reason=reason)
        for execution in again:
            found = found.after(execution)
            if not found.right:
                return found
        differing = {level: found.between(first, execution) for level, execution in seen.items()}
        odd = [f"with {_shown(level)} ({in_words(errors)})" for level, errors in differing.items() if errors]
        if odd:
            signs = await undefined(self._env, self._benchmark)
            reason = f"{' and '.join(odd)} it does something else than as it came{_ending(first)}{signs}"
            return replace(found, behaviour=Behaviour.VARIES, reason=reason, undefined=signs.found)
        if found.behaviour is Behaviour.VARIES:
            return found
        if any(run["signal"] == "SIGXFSZ" for run in first):
            return replace(found, behaviour=Behaviour.NOT_RUN, reason="it writes more than a run may")
        if wrong := faults(self._runs, first):
            signs = await undefined(self._env, self._benchmark)
            errors = tuple(msgspec.structs.replace(one, by_itself=True) for one in wrong)
            reason = f"{in_words(wrong)}{signs}"
            return replace(found, behaviour=Behaviour.FAILS, reason=reason, errors=errors, undefined=signs.found)
        how = ("" if asked else f" {UNASKED}") + ("" if found.boxed else UNBOXED)
        compared = ", ".join(["as it came", *(f"with {_shown(level)}" for level in seen)])
        return replace(found, reason=f"it was run{how}, and does what it does {compared}{_ending(first)}")


async def undefined(env: Env, benchmark: Benchmark) -> "_Signs":
    """Look with sanitizers for undefined behaviour of a program as it came.

    Args:
        env: an environment whose state does not matter.
        benchmark: the program with its runs.
    """
    unwatched: list[str] = []
    spaces = [(space, flags) for space, flags in _WATCHING if space in env.observation_spaces]
    for space, flags in spaces:
        form = benchmark.recompiled(flags) or (None if space == _OF_FRONT_END else benchmark)
        if form is None or (space == _OF_INSTRUMENTED_LIBRARIES and program_of(benchmark).language != "c"):
            continue
        try:
            await env.reset(benchmark=form)
            watched = await env.observe(space)
        except (DatasetError, ServiceError) as error:
            unwatched.append(first_line(error))
            continue
        if watched["skipped"]:
            unwatched.append(first_line(watched["skipped"]))
            continue
        unwatched.append("")
        for run in watched["runs"]:
            if run["finding"] and not any(mark in run["finding"] for mark in _DEFINED):
                return _Signs((_sign(run),))
    return _Signs((), "" if "" in unwatched or not unwatched else unwatched[0])


class _Signs(NamedTuple):
    """What sanitizers say of undefined behaviour.

    Attributes:
        found: signs of it, with the place if that is known.
        unwatched: why no sanitizer could look; "" if one could, or the compiler has none.
    """

    found: tuple[str, ...]
    unwatched: str = ""

    def __str__(self) -> str:
        if self.found:
            return f"; {self.found[0]}"
        return f"; no sanitizer could look for undefined behaviour: {self.unwatched}" if self.unwatched else ""


def _sign(run: Mapping[str, Any]) -> str:
    """Describe a sanitizer's finding: what, where, and beside which object."""
    report = run["report"]
    at = f" at {run['place']}" if run["place"] else ""
    if said := _SAID.search(report):
        return f"undefined behaviour{at}: {said[1]}"
    objects = sorted(_LOCATED.findall(report), key=lambda one: int(one.split()[0]))  # of several, the nearest is meant
    return ", ".join([f"undefined behaviour{at}: {run['finding']}", *objects[:1]])


def _patient(benchmark: Benchmark, seconds: float) -> Benchmark:
    """Return a program with no more time than this for each run."""
    program = program_of(benchmark)
    runs = {name: dataclasses.replace(run, timeout=min(run.timeout, seconds)) for name, run in program.runs.items()}
    return benchmark.replace(program=dataclasses.replace(program, runs=runs, measured="", carried=None))


def observation_of_runs(env: Env) -> str:
    """Return the observation that runs a program, "" if the compiler has none."""
    return next((name for name in PLAIN if name in env.observation_spaces), "")


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return str(error).partition("\n")[0]


def _obstacle(error: Exception) -> str:
    """Say why a program cannot be run."""
    if re.search(r"undefined (symbol: |reference to [`'])main\b", text := str(error)):
        return "it has no main"
    if foreign := re.search(r'No available targets are compatible with triple "([^"]+)"', text):
        return f"there is no code generator here for {foreign[1]}"
    missing = re.search(r"undefined (?:symbol: |reference to [`'])([^'\n]+)", text)
    if missing:
        return f"it cannot be linked: {missing[1]} is not defined"
    said = re.search(r" ended with \d+\n(?:.*\n)*?.*\berror: (.+)", text)  # by the linker
    return f"it cannot be linked: {said[1]}" if said else f"it cannot be run: {first_line(error)}"


def _timed_out(run: Run) -> bool:
    return bool(run["timed_out"])


def _shown(level: str) -> str:
    return "clang -Oz" if level == "OzMinsize" else f"-{level}"


def _ending(execution: Sequence[Run]) -> str:
    """Say how the runs ended, if not all of them with status 0."""
    endings = {run["signal"] or f"exit status {run['exit_code']}" for run in execution}
    return "" if endings == {"exit status 0"} else f" ({', '.join(sorted(endings))})"
