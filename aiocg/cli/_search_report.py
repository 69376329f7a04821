"""Search output: progress line, table and JSON."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from rich.table import Table
from rich.text import Text

from aiocg.cli._options import observation_of
from aiocg.cli.output import CommandError, console, counted, fields, print_line
from aiocg.states.behaviour import Behaviour

if TYPE_CHECKING:
    from aiocg import Env
    from aiocg.gcc.rival import GccObject, SameMeaning
    from aiocg.search import Advice, Progress, SearchResult
    from aiocg.search.metrics import Comparison
    from aiocg.search.result import Checks
    from aiocg.search.timing import Timing

LEAST, LEAST_OF_LEVEL = 10.0, 3.0  # seconds that are waited in any case, for the program's own cost and for a level's
COUNT = "IrInstructionCountOz"  # the reward that needs no machine code
_LEVELS = {"OzMinsize": "clang -Oz", "OsOptsize": "clang -Os", "Oz": "-Oz", "O3": "-O3"}  # by ends of baselines' names


async def settle_reward(env: "Env", output: Path | None, seconds: float | None, show: Callable[[str], None]) -> str:
    """Reset an environment, and take a reward without a baseline if that of its own cannot be had.

    Args:
        env: with the reward that is wanted.
        output: the file that is to be written at the end, if any.
        seconds: of the search, after which a cost is given up; None for as long as any request may take.
        show: called with what is being done.

    Returns:
        What to tell of it, "" if nothing.

    Raises:
        CommandError: when the program has no such cost, or the file cannot be written; it says what can be done.
        AiocgError, DatasetError: as `Env.reset`.
    """
    from aiocg.errors import DeadlineExceeded, ObservationFailed
    from aiocg.spaces.rewards import CostReward

    reward = env.reward_spaces[env.reward_space or ""]
    if not isinstance(reward, CostReward) or reward.optimised is None:
        return ""
    needed = [reward.cost]
    if output is not None and env.spec.worker == "llvm":
        needed.append(observation_of(env, output) or "ObjectFile")
    env.reward_space = None
    await env.reset()
    timeout = None if seconds is None else max(LEAST, seconds)
    patience = None if seconds is None else max(LEAST_OF_LEVEL, seconds)
    show(f"computing {' and '.join(needed)} of {env.benchmark.uri} as it is")
    try:
        await env.observe(*needed, timeout=timeout)
    except (ObservationFailed, DeadlineExceeded) as error:
        hint = f"; --reward {COUNT}, with no -o or a .bc or .ll, needs none" if COUNT in env.reward_spaces else ""
        problem = short(error) if isinstance(error, DeadlineExceeded) else f"cannot be had: {short(error)}"
        raise CommandError(f"the machine code of {env.benchmark.uri} {problem}{hint}") from None
    level = next((words for end, words in _LEVELS.items() if reward.optimised.endswith(end)), reward.optimised)
    show(f"compiling {env.benchmark.uri} with {level}, to compare with")
    try:
        await env.observe(*reward.baseline_spaces, timeout=patience)
    except (ObservationFailed, DeadlineExceeded) as error:
        env.reward_space = reward.cost
        await env.reset()
        slow = isinstance(error, DeadlineExceeded)
        problem = f"{level} {short(error)}" if slow else f"{level} cannot compile this program: {short(error)}"
        return f"{problem}; the search goes on against the program as it is"
    env.reward_space = reward.name
    return ""


def short(error: Exception) -> str:
    """Return what LLVM says is wrong, without the line that it shows, or how long it was waited for."""
    from aiocg.errors import DeadlineExceeded

    if isinstance(error, DeadlineExceeded):
        return f"takes longer than {error.timeout:g} s here, and a longer --budget waits longer"
    return re.sub(r"^(\w+: )?(code generation: )?", "", str(error).partition("\n")[0])


KNOWN = ("before", "OzMinsize", "found")  # what a search has compiled in any case
ZEROED = "zeroed"
_OBSERVED = {  # the cost of the program as it is, at levels, and found
    "instructions": ("IrInstructionCountO0", "IrInstructionCount{}", "IrInstructionCount"),
    "bytes": ("ObjectImageSizeO0{}", "ObjectImageSize{}", "ObjectImageSize{}Bytes"),
    ZEROED: ("ObjectBssSizeO0{}", "ObjectBssSize{}", "ObjectBssSize{}Bytes"),
}
COSTS = {  # of LLVM's programs, by what the table and JSON call them: observations before, at levels, and found;
    # found code has the mark that the reward assumes, and so has the file that is written
    what: {
        "before": before,
        **{level: at.format(level) for level in ("O3", "OsOptsize", "Oz", "OzMinsize")},
        "found": found,
    }
    for what, (before, at, found) in _OBSERVED.items()
}
TITLES = {"instructions": "instructions", "bytes": "image bytes", ZEROED: "zeroed bytes"}
LEVELS = {
    "before": "before",
    "O3": "-O3",
    "OsOptsize": "clang -Os",
    "Oz": "-Oz",
    "OzMinsize": "clang -Oz",
    "found": "found",
}
FRAMED = "clang -Oz -fno-omit-frame-pointer"
SMALL = ("OzMinsize", "OsOptsize", "Oz", "O3", "before")  # levels to compare with, best known first


async def _costs_at_levels(env: "Env", names: Mapping[str, str]) -> tuple[dict[str, int], dict[str, str]]:
    """Observe costs by level; return those that can be had, and why the others cannot.

    Raises:
        ServiceError: when what was found has no such cost, or the compiler dies.
    """
    from aiocg.errors import ObservationFailed

    with contextlib.suppress(ObservationFailed):
        return dict(zip(names, await env.observe(*names.values()), strict=True)), {}
    known, problems = {"found": await env.observe(names["found"])}, {}
    for level, name in names.items():
        try:
            known[level] = await env.observe(name)
        except ObservationFailed as error:
            problems[level] = short(error)
    return known, problems


def _smallest_level(costs: Mapping[str, int]) -> str | None:
    """Return the level that others are related to: the cheapest that compiles the program."""
    return min((level for level in SMALL if level in costs), key=lambda level: costs[level], default=None)


COMMAND_LINE = "command_line"  # the observation of a compiler whose actions make a command line
CODEGEN = "CodegenOptions"
COLUMNS = ("O2", "Os", "Oz")  # of the table, where a compiler has options

MOST_SIGNS = 5  # of undefined behaviour that are printed
UNDEFINED = "hint        the behaviour of this program is undefined in places, so that options may change what it does"
LARGE = 2  # times as small as the best level: a gain that is not believed without a proof
UNPROVEN = ": unproven, since a gain of more than twice was not run"
MOST_ADVICE = 30  # lines of advice on the screen
LONGEST = 200  # characters of an action on the screen

TWO_LEVELS = (
    "levels      -Oz is LLVM's default<Oz>; clang -Oz also marks functions for size, and vectorises straight code"
)
SINCE_23 = "levels      -Oz is LLVM's default<Oz>, which marks functions for size; clang -Oz does not vectorise loops"
LONG = 2.0  # seconds of levels that are worth a line
OPTNONE = re.compile(r"^attributes #\d+ = \{.*\boptnone\b", re.MULTILINE)  # a mark on functions
NOTHING_TO_DO = (
    "hint        not even -Oz changes this program: functions are marked optnone, as clang -O0 marks them, which keeps "
    "passes away. Compile it with -O1 -Xclang -disable-llvm-passes"
)

NO_FUNCTIONS = "hint        the program has no function with a body, so there is nothing to search"

NOT_UNROLLED = b"llvm.loop.unroll.disable"  # a mark on loops
WEAK_LEVELS = (
    "hint        loops are marked not to be unrolled, as clang -O1 marks them, so -O3 does less here than clang -O3: "
    "compile the program with -O3 -Xclang -disable-llvm-passes"
)


CONSTANT = (
    "hint        this run has no arguments, standard input or files, so the compiler may do a part of its work: "
    "measure a run that has some"
)


class Finding:
    """What a search has found, with what is compared with it. The environment is at the state found.

    Attributes:
        behaviour: of the program that was found.
        reason: what was seen of it, or why nothing was.
        reproducer: the actions to report of a program that was miscompiled, none of which can be left out.
    """

    def __init__(self, algorithm: str, env: "Env", result: "SearchResult", gcc: "GccObject | None") -> None:
        self._algorithm = algorithm
        self._env = env
        self._result = result
        self._costs: dict[str, dict[str, int]] = {}  # as in `COSTS`; levels that do not compile are missing
        self._failed: dict[str, str] = {}  # why not, by these levels
        self._comparison: Comparison | None = None
        self._gcc = gcc
        self._untouchable = False  # no pass may change it
        self._codegen: list[str] = []  # options of LLVM's code generator
        self._advice: list[Advice] = []  # its decisions, by lines of the source
        self._line: str | None = None  # the compiler's command line, for those that have such
        self._same: SameMeaning | None = None  # what it is compared with
        self.behaviour, self.reason = result.checks.behaviour, result.checks.reason
        self.reproducer: tuple[str, ...] = ()
        self._report = ""

    @classmethod
    async def observe(
        cls,
        algorithm: str,
        env: "Env",
        result: "SearchResult",
        gcc: "GccObject | None" = None,
        *,
        run: bool,
        seconds: float | None = None,
    ) -> "Finding":
        """Observe what is printed, and run the program that was found.

        Args:
            algorithm, env, result: what was searched.
            gcc: what GCC makes of the same sources, of LLVM's programs.
            run: whether programs may be run.
            seconds: for what the levels come to, where they are compiled for that; None for no limit.
        """
        from aiocg import search
        from aiocg.errors import ServiceError
        from aiocg.spaces.rewards import assumed_mark

        found = cls(algorithm, env, result, gcc)
        failed: dict[str, dict[str, None]] = {}
        mark = assumed_mark(getattr(env.reward_spaces.get(env.reward_space or ""), "cost", ""))
        slow = seconds is not None and result.levels >= LONG  # the others were not compiled: that would take too long
        with anyio.move_on_after(seconds):
            for what, names in COSTS.items() if "IrInstructionCountO0" in env.observation_spaces else ():
                with contextlib.suppress(ServiceError):  # LLVM may have no code generator for the program
                    known, problems = await _costs_at_levels(
                        env, {one: name.format(mark) for one, name in names.items() if one in KNOWN or not slow}
                    )
                    found._costs[what] = known
                    for level, reason in problems.items():
                        failed.setdefault(reason, {})[LEVELS[level]] = None
            found._comparison = await search.compare(env)
        found._failed = {", ".join(levels): reason for reason, levels in failed.items()}
        if len(set(found._costs.get("instructions", {}).values())) == 1:
            found._untouchable = OPTNONE.search(await env.observe("Ir")) is not None
        if CODEGEN in env.observation_spaces:
            found._codegen = await env.observe(CODEGEN)
            found._advice = await search.advice(env, result.actions)
        if COMMAND_LINE in env.observation_spaces:
            from aiocg.gcc.rival import same_meaning

            found._line = await env.observe(COMMAND_LINE)
            found._same = await same_meaning(env, found._comparison.cost) if found._comparison is not None else None
        if run and result.actions and result.timing is None and found.behaviour is not Behaviour.NOT_RUN:
            validation = await env.validate(sanitizers=())
            found.behaviour, found.reason = validation.behaviour, validation.reason
            found.reproducer, found._report = validation.reproducer, validation.report
        return found

    def print(self) -> None:
        """Print it for people."""
        title = Text(f"{self._algorithm} search, {self._env.benchmark.uri}{UNPROVEN * self.unproven}")
        table = self._table(title)
        console.print(title if table is None else table)
        for line in self._lines():
            print_line(line)

    def _lines(self) -> Iterator[str]:
        """Say what is printed below the table."""
        from aiocg.spaces.actions import join_texts

        result, nothing = self._result, "none is better than the program as it is"
        if self._has_two_levels:
            yield SINCE_23 if self._env.compiler_version >= "LLVM 23" else TWO_LEVELS
        yield f"reward      {result.reward:.4f} ({self._env.reward_space})"
        yield from self._against_baselines()
        if result.baselines and self._line is None:
            name = _start_name(result.start)
            found = name if result.improved else f"nothing better than {name} was found, so that is the answer"
            yield f"start       {found}"
        if self._line is None:
            yield f"actions     {len(result.actions)}"
            yield join_texts([_shortened(text) for text in result.actions]) or nothing
            if self._codegen:
                yield f"codegen     {' '.join(f'-mllvm -{one}' for one in self._codegen)}"
                yield "            for clang, if it compiles a .bc or .ll; objects that aiocg writes have them"
            yield from (f"advice      {one}" for one in self._advice[:MOST_ADVICE])
            if (more := len(self._advice) - MOST_ADVICE) > 0:
                yield f"            and {more} more, which --json has"
        else:
            yield f"options     {_options(self._line)}"
            yield self._line if result.actions else nothing
            yield from (f"changes     {word}: {effect}" for word, effect in self._effects.items())
        yield from self._hints()
        if result.timing is not None and NOT_UNROLLED in self._env.benchmark.content:
            yield WEAK_LEVELS
        if result.timing is not None and _is_constant(self._env):
            yield CONSTANT
        refused = ". It was not written; report the reproducer" if self.behaviour is Behaviour.DIFFERS else ""
        yield f"validated   {self.behaviour.sentence(self.reason)}{refused}"
        if self._report:
            yield f"reproducer  {self._report}"
        yield from _checked(result.checks, self.reason)
        reasons = result.timing.failures if result.timing is not None else {}
        yield from (f"failed      {count} times: {reason}" for reason, count in reasons.items())
        failed = sum(outcome is None for outcome in result.state.outcomes) + sum(reasons.values())
        failures = f", {failed} of them failed" if failed else ""
        ending = "" if result.complete else ", ended by its budget"
        yield f"wall time   {result.elapsed:.1f} s, {result.evaluations} evaluations{failures}{ending}"

    def _hints(self) -> Iterator[str]:
        """Say what the time did not suffice for, and that passes may be kept away from the program."""
        from aiocg.search.baselines import FRAME_POINTERS, baselines

        result = self._result
        if result.levels >= LONG:
            yield f"levels      took {result.levels:.1f} s of the time"
        known = [name for name in baselines(self._env) if name != FRAME_POINTERS]  # which may not compile at all
        missing = [name for name in known if name not in result.baselines]
        for levels, reason in self._failed.items():
            yield f"levels      {levels} cannot compile this program: {reason}"
        if missing and result.baselines and self._failed:
            yield f"levels      not compared with {', '.join(map(_start_name, missing))}"
        elif missing and not result.complete and (result.baselines or result.levels >= LONG):
            yield f"levels      {', '.join(map(_start_name, missing))} did not compile in the time, and may be better"
        if not result.evaluations and result.levels >= LONG and not result.complete:
            yield (
                f"hint        one pass takes long on this program, and the budget ended before anything was evaluated: "
                f"give it --budget {math.ceil(10 * result.levels):d}"
            )
        counts = set(self._costs.get("instructions", {}).values())
        if counts == {0}:
            yield NO_FUNCTIONS
        if self._untouchable:
            yield NOTHING_TO_DO
        if not self._costs and "IrInstructionCountO0" in self._env.observation_spaces:
            yield "levels      are not in a table: they did not compile in the time"

    def as_json(self, output: Path | None) -> dict[str, Any]:
        """Return it for programs; `output` is the file that was written."""
        env, result = self._env, self._result
        return {
            "algorithm": self._algorithm,
            "environment": env.spec.id,
            "benchmark": str(env.benchmark.uri),
            "compiler_version": env.compiler_version,
            "action_space": result.state.action_space,
            "reward_space": env.reward_space,
            **{what: self._costs.get(what) for what in COSTS},
            "failed_levels": self._failed,
            "codegen_options": self._codegen,
            "advice": [one._asdict() for one in self._advice],
            "gcc": self._gcc.to_dict() if self._gcc is not None else None,
            "metrics": self._comparison.to_dict() if self._comparison is not None else None,
            "same_meaning": self._same._asdict() if self._same is not None else None,
            "changes": self._effects,
            "actions": list(result.actions),
            **fields(result, "reward", "start", "improved", "evaluations", "complete"),
            "baselines": dict(result.baselines),
            "timing": result.timing.to_dict() if result.timing is not None else None,
            "commandline": _commandline(env),
            "walltime": result.elapsed,
            "validated": self.behaviour,
            "reason": self.reason,
            "unproven": self.unproven,
            "reproducer": list(self.reproducer),
            "checks": result.checks.to_dict(),
            "output": str(output) if output is not None else None,
        }

    def _table(self, title: Text) -> Table | None:
        """Return costs before, at optimisation levels and as found, and how they relate to those of a level."""
        if self._costs:
            *levels, last = [one for one in LEVELS if one != "Oz" or self._has_two_levels]
            columns = [*levels, *self._by_gcc("bytes"), last]
            table = Table("", *(LEVELS.get(one, one) for one in columns), title=title)
            for what, costs in self._costs.items():
                if what == ZEROED and not any(costs.values()):
                    continue
                known = {**costs, **self._by_gcc(what)}
                table.add_row(TITLES[what], *(str(known.get(one, "")) for one in columns))
                if what == ZEROED or (least := _smallest_level(costs)) is None:
                    continue
                ratios = {one: f"{cost / max(costs[least], 1):.3f}" for one, cost in known.items()}
                table.add_row(f"of {LEVELS[least]}", *(ratios.get(one, "") for one in columns))
            return _right(table)
        comparison = self._comparison
        levels = [level for level in COLUMNS if comparison is not None and level in comparison.baselines]
        if comparison is None or not levels:
            return None
        baselines = [comparison.baselines[level] for level in levels]
        values = [comparison.unoptimised, *baselines, comparison.found]
        table = Table("", "before", *(f"-{level}" for level in levels), "found", title=title)
        table.add_row(comparison.cost, *map(str, values))
        table.add_row(f"of -{levels[-1]}", *(f"{value / max(baselines[-1], 1):.3f}" for value in values))
        return _right(table)

    @property
    def _has_two_levels(self) -> bool:
        """Whether LLVM's -Oz and that of clang come to something else."""
        return any(costs.get("Oz") != costs.get("OzMinsize") for costs in self._costs.values())

    def _by_gcc(self, what: str) -> dict[str, int]:
        """Return the cost of what GCC makes of the same sources, by its name, if that is known."""
        if what != "bytes" or self._gcc is None or self._gcc.bytes is None:
            return {}
        return {self._gcc.name: self._gcc.bytes}

    def _framed(self, what: str) -> dict[str, int]:
        """Return the cost of what one more flag of clang makes of the program, by its name, if that is known."""
        from aiocg.search.baselines import FRAME_POINTERS

        costs, earned = self._costs[what], self._result.baselines
        known = FRAME_POINTERS in earned and earned.get("OzMinsize") and {"before", "OzMinsize"} <= costs.keys()
        if what != "bytes" or not known or self._env.reward_space != "ObjectImageSizeOzMinsize":
            return {}
        unit = (costs["before"] - costs["OzMinsize"]) / earned["OzMinsize"]
        return {FRAMED: round(costs["before"] - unit * earned[FRAME_POINTERS])}

    def _against_baselines(self) -> Iterator[str]:
        """Say how the result compares: of LLVM's programs by instructions and by code, or by time."""
        if (timing := self._result.timing) is not None:
            yield f"runtime     {_times(timing)}"
            yield f"compared    {timing}"
            return
        for what, costs in self._costs.items():
            if what == ZEROED:
                continue
            ours = {LEVELS["Oz"]: costs["Oz"]} if self._has_two_levels and "Oz" in costs else {}
            levels = (_smallest_level(costs), "OzMinsize")
            rivals = {LEVELS[one]: costs[one] for one in levels if one is not None and one in costs}
            rivals |= self._by_gcc(what) | self._framed(what)
            if not rivals:
                continue
            least = min(rivals, key=lambda name: rivals[name])
            others = {name: cost for name, cost in {**ours, **rivals}.items() if name != least}
            relative = f" (relative {costs['found'] / max(rivals[least], 1):.3f})"
            said = [compared(cost, costs["found"], one) for one, cost in others.items()]
            yield f"{what:13}" + ", ".join([compared(rivals[least], costs["found"], least) + relative, *said])
        if self._costs and self._gcc is not None and self._gcc.problem:
            yield f"gcc -Oz      not compared: {self._gcc.problem}"
        if (same := self._same) is None or (comparison := self._comparison) is None:
            return
        yield from _against_same_meaning(same, comparison)
        if "Oz" not in comparison.baselines:
            yield f"no -Oz      {self._env.compiler_version} has none, as GCC has it since 12: compared with -Os"

    @property
    def _effects(self) -> dict[str, str]:
        """The options found that change what the program does, and how."""
        notation = self._env.action_spaces.language.notation
        return notation.effects(self._result.actions) if self._line is not None and notation is not None else {}

    @property
    def unproven(self) -> bool:
        """Whether the program is less than half as large as the smallest of the levels, and nothing proves it right."""
        if self.behaviour is Behaviour.SAME:
            return False
        levels: list[tuple[float, float]] = [
            (min(known), costs["found"])
            for what, costs in self._costs.items()
            if what != ZEROED and (known := [cost for level, cost in costs.items() if level != "found"])
        ]
        if (comparison := self._comparison) is not None and comparison.baselines:
            levels.append((min(comparison.baselines.values()), comparison.found))
        return any(found * LARGE < best for best, found in levels)


def _against_same_meaning(same: "SameMeaning", comparison: "Comparison") -> Iterator[str]:
    """Say how GCC's result compares with a level, and what options that are no optimisations have saved."""
    level, *others = same.words
    relative = comparison.found / max(same.cost, 1)
    sizes = f"{comparison.cost} {comparison.found} and {same.cost}, relative {relative:.3f}"
    yield f"compared    {compared(same.cost, comparison.found, ' '.join(same.words))} ({sizes})"
    if others:
        words = " ".join(others)
        yield f"not counted {compared(same.alone, same.cost, level)} by {words} alone: {same.alone} to {same.cost}"


def _is_constant(env: "Env") -> bool:
    """Return whether the run that is measured has no input."""
    program = env.benchmark.program
    if program is None or not program.runs:
        return False
    run = program.runs.get(program.measured) or next(iter(program.runs.values()))
    return not (run.arguments or run.stdin or run.files)


def _checked(checks: "Checks", said: str) -> Iterator[str]:
    """Say which programs were run, and what is undefined."""
    if checks.runs:
        wrong = f", and {checks.wrong} that did something else were not believed" if checks.wrong else ""
        runs = counted(checks.runs, "program")
        yield f"run         {runs} that would have been the best, in {checks.seconds:.1f} s{wrong}"
    yield from [f"undefined   {sign}" for sign in checks.undefined[:MOST_SIGNS] if sign not in said]
    if checks.undefined:
        yield UNDEFINED
    elif checks.broken and checks.behaviour is Behaviour.SAME:
        broken = _shortened(", ".join(checks.broken))
        looked = f"no sanitizer could look for: {checks.unwatched}" if checks.unwatched else "no sanitizer sees"
        yield f"miscompiled by {broken}: report it, unless the program is at fault in a way that {looked}"


def _times(timing: "Timing") -> str:
    spreads, runs = timing.spreads, len(timing.times[timing.baseline])
    names = {_start_name(one): (median, spreads[one]) for one, median in timing.medians.items()}
    times = [f"{name} {1000 * median:.3f} ms (spread {spread:.0%})" for name, (median, spread) in names.items()]
    return f"{', '.join(times)}; medians of {runs} runs in turns"


def _start_name(start: str) -> str:
    names = {**LEVELS, "O0": "the program as it is", "OzFramePointers": FRAMED}
    return names.get(start, f"-{start}")


def compared(baseline: float, found: float, what: str) -> str:
    """Say how large something is beside a baseline: "8.8 % smaller than -Oz", "3.0 times as large as -Oz"."""
    if found == baseline:
        return f"as large as {what}"
    if found >= 2 * baseline:
        return f"{found / baseline:.1f} times as large as {what}" if baseline else f"larger than {what}"
    change = 100.0 * (found - baseline) / baseline
    return f"{abs(change):.1f} % {'larger' if change > 0 else 'smaller'} than {what}"


def _right(table: Table) -> Table:
    for column in table.columns:
        column.justify = "right"
    return table


def _shortened(action: str) -> str:
    """Return the text of an action, or how much is in it where it would fill the screen."""
    return action if len(action) <= LONGEST else f"{action[:LONGEST]}... ({len(action)} characters)"


def _commandline(env: "Env") -> str | None:
    """Return the line for the compiler's own tool, None when it cannot do one of the actions."""
    from aiocg.errors import NotExpressible

    for exact in (False, True):
        try:
            return env.commandline(exact=exact)
        except NotExpressible:
            continue
    return None


def _options(line: str) -> int:
    """Return how many options a command line has."""
    return len(line.split()) - 1


def _shown(env: "Env", actions: Sequence[str]) -> str:
    """Return how many actions there are or, of an action that is a whole command line or recipe, how many choices."""
    line = env.action_spaces.language.line
    if line is not None and len(actions) == 1 and line.begins(actions[0]):
        return f"{_options(actions[0])} choices"
    return f"{len(actions)} actions"


def progress_line(
    algorithm: str, env: "Env", progress: "Progress", seconds: float | None, evaluations: int | None
) -> Text:
    """Return a line that tells where a search is, and of what budget; what comes last may not fit."""
    rate = progress.evaluations / max(progress.elapsed, 1e-9)
    text = Text(f"{algorithm}  ", no_wrap=True, overflow="ellipsis")
    text.append(progress.note or f"reward {progress.reward:.4f}", style="bold green")
    budget, most = "" if seconds is None else f" of {seconds:g}", "" if evaluations is None else f" of {evaluations}"
    text.append(f"  {progress.elapsed:.1f}{budget} s  {progress.evaluations}{most} evaluated, {rate:.0f}/s")
    text.append(f"  {_shown(env, progress.actions)}  {env.benchmark.uri}")
    return text
