"""`aiocg state`, `aiocg replay` and `aiocg validate`: saved states."""

import contextlib
import enum
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean, pstdev
from typing import TYPE_CHECKING, Any, TextIO

import typer

from aiocg.cli._options import command, write_program
from aiocg.cli.output import (
    check_writable,
    console,
    counted,
    errors,
    fail,
    interrupted_status,
    print_json,
    print_line,
    reading,
    run,
    write_file,
)
from aiocg.states.behaviour import Behaviour

if TYPE_CHECKING:
    from aiocg.states.files import State
    from aiocg.states.result import Translation
    from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState
    from aiocg.validation import ValidationResult
    from aiocg.web.saved import Opening


app = typer.Typer(no_args_is_help=True)


@app.callback()
def state() -> None:
    """Look at a saved state."""


@command(app, "plot")
def _plot(place: str, output: Path, program: str = "") -> None:
    """Draw what each action of a state did to the cost, beside the compiler's own levels.

    Example: aiocg state plot best.json -o best.svg

    Args:
        place (FILE[:LINE]): A state, as `aiocg search --state` writes it, a line of CSV, or the folder of a
            leaderboard's entry.
        output (-o, --output): The picture to write, in SVG.
        program: Of several states, take the best of this program.
    """
    from aiocg.web.saved import find_opening

    check_writable(output, ".svg")
    with reading(place):
        opening = find_opening(place, program)
    write_file(output, run(_drawn(opening)).encode())
    print_line(f"drawn in {output}")


async def _drawn(opening: "Opening") -> str:
    import aiocg
    from aiocg.pictures import bars
    from aiocg.web.limits import Limits
    from aiocg.web.sessions import Sessions
    from aiocg.web.tree import label, number

    async with aiocg.Runtime(workers=1) as runtime, Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(opening))
        tree, cost = session.tree, session.costs[0]
        nodes = [tree[one] for one in tree.trail]
    rows = [(label(node.action) or "as it came", node.costs[cost]) for node in nodes]
    levels = {f"{name} {number(value)}": value for name, value in session.lines.items()}
    return bars(rows, levels, f"{opening.program}: {cost}")


def replay(place: str, environment: str = "llvm-ic-v0", output: Path | None = None, json: bool = False) -> None:
    """Replay a saved state and compare the reward that it earns with the one it says.

    A state that CompilerGym found with LLVM 10 is replayed with today's passes; another reward is no error then.

    Example: aiocg replay state.json -o best.bc

    Args:
        place (FILE[:LINE]): A state: a file of JSON as `aiocg search --state` writes it, a line of CSV, also of
            CompilerGym's. - is standard input; an address on the web will do.
        environment (--env): Environment that a state of CompilerGym comes from: it does not say.
        output (-o, --output): Write the program at that state: .bc, .ll, .o, .s, or linked.
    """
    from aiocg.states.files import find_state

    check_writable(output)
    with reading(place):
        state = find_state(place)
    run(_replay(state, environment, output, json))


async def _replay(state: "State", environment: str, output: Path | None, json: bool) -> None:
    import msgspec

    from aiocg import Runtime
    from aiocg.spaces.actions import join_texts
    from aiocg.states.state import LegacyState
    from aiocg.validation import rewards_agree
    from aiocg.validation.legacy_states import modern_state

    translation: Translation | None = None
    async with Runtime(workers=1) as runtime:
        if isinstance(state, LegacyState):
            state, translation = await modern_state(runtime, state, environment)
        env = await runtime.replay(state)
        found = env.state
        comparable = state.reward_space is not None and env.reward_spaces[state.reward_space].deterministic
        if output is not None:
            await write_program(env, output)
    other = translation is not None and translation.another_compiler
    if json:
        value = {"state": msgspec.to_builtins(found), "expected_reward": state.reward}
        print_json(value if translation is None else {**value, "translation": msgspec.to_builtins(translation)})
    else:
        print_line(f"benchmark  {found.benchmark}")
        print_line(f"actions    {join_texts(found.actions) or 'none'}")
        saved = "saved by another compiler" if other else "saved"
        print_line(f"reward     {_number(found.reward)} ({saved}: {_number(state.reward)})")
        if translation is not None and other:
            print_line(f"flags      {translation}")
            for flag, text in translation.renamed.items():
                print_line(f"           {flag} is {text}")
            for flag, reason in translation.reasons.items():
                print_line(f"           {flag} is left out: {reason}")
    if state.reward is None or found.reward is None or not comparable or other:
        return
    if not rewards_agree(state.reward, found.reward):
        fail(f"the reward is {found.reward}, not {state.reward} as saved")


def _number(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:.4f}"


_WIDEST = 50  # characters of a column of names; longer ones push the rest of their line to the right
_UNPROVEN = {
    Behaviour.FAILS: "fail by themselves",
    Behaviour.VARIES: "vary or are undefined",
    Behaviour.NOT_RUN: "not run",
    Behaviour.DIFFERS: "differ",
}
UNPROVEN = 3  # the exit status if no state is wrong, but some are not proven
_DETAILS = 300  # characters of what was wrong


class Aggregation(enum.StrEnum):
    """How rewards of many states are aggregated."""

    GEOMEAN = "geomean"
    MEAN = "mean"

    @property
    def words(self) -> str:
        """The name in words."""
        return "geometric mean" if self is Aggregation.GEOMEAN else "mean"

    def of(self, rewards: Sequence[float]) -> float:
        """Return the mean; a geometric mean is 0 if any reward is not positive."""
        if self is Aggregation.MEAN:
            return fmean(rewards)
        return geometric_mean(rewards) if min(rewards) > 0 else 0.0


class Summary:
    """Accumulates results.

    Attributes:
        results: in order of arrival.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self.results: list[ValidationResult] = []
        self._aggregation = aggregation

    @property
    def failed(self) -> int:
        """Number of states that are wrong or could not be reached."""
        return sum(result.wrong for result in self.results)

    @property
    def unproven(self) -> int:
        """Number of states that are not wrong, but whose programs were not seen to do what they should."""
        return sum(not result.wrong and not result.okay() for result in self.results)

    @property
    def unavailable(self) -> int:
        """Number of states that could not be checked because their benchmark is not available."""
        return sum(result.unavailable for result in self.results)

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        valid, told = [result for result in self.results if not result.wrong], self._facts()
        text = f"{told['proven']} of {len(self.results)} states are proven, {self.failed} are wrong"
        if unproven := Counter(result.behaviour for result in valid if not result.okay()):
            text += f"; {', '.join(f'{count} {_UNPROVEN[one]}' for one, count in unproven.items())}"
        if self.unavailable:
            hint = "AIOCG_DATASET_MIRROR can name who has it"
            text += f"; {self.unavailable} could not be checked for want of the benchmark ({hint})"
        skipped = dict.fromkeys(reason for result in self.results for reason in result.skipped)
        lines = [*(f"skipped: {reason}" for reason in skipped), text]
        if (walltime := told["walltime"])["mean"]:
            lines.append(f"mean wall time {walltime['mean']:.3f} s (standard deviation {walltime['std']:.3f} s)")
        for space, one in told["rewards"].items():
            deviation = f"(standard deviation {one['std']:.3f})"
            lines.append(f"{self._aggregation.words} of {space} {one['found']:.3f} {deviation}")
            if others := one["of_another_compiler"]:
                found = f"{others} of {counted(one['states'], 'state')} with a reward"
                lines.append(f"{found} found with another compiler; said to be {one['said']:.3f}")
        if gone := told["flags_gone"]:
            left_out = sum(one["times"] for one in gone.values())
            lines.append(
                f"{left_out} of {told['flags']} flags of LLVM 10 were left out, as nothing does their job today:"
            )
            longest = max(map(len, gone))
            lines += [f"  {flag:<{longest}} {one['times']:>6}  {one['reason']}" for flag, one in gone.items()]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        import msgspec

        return {**self._facts(), "results": [msgspec.to_builtins(result) for result in self.results]}

    def _facts(self) -> dict[str, Any]:
        """Return what the results come to, as JSON has it."""
        walltimes = [result.state.walltime for result in self.results if not result.wrong] or [0.0]
        gone: Counter[str] = Counter()
        reasons: dict[str, str] = {}
        for one in (result.translation for result in self.results if result.translation is not None):
            gone.update(one.gone)
            reasons |= one.reasons
        return {
            "states": len(self.results),
            "failed": self.failed,
            "proven": sum(result.okay() for result in self.results),
            "unavailable": self.unavailable,
            "walltime": {"mean": fmean(walltimes), "std": pstdev(walltimes)},
            "rewards": {space: self._earned(rows) for space, rows in self._rewards().items()},
            "flags": sum(result.translation.flags for result in self.results if result.translation is not None),
            "flags_gone": {flag: {"times": times, "reason": reasons[flag]} for flag, times in gone.most_common()},
        }

    def _rewards(self) -> "dict[str, list[tuple[float, float, bool]]]":
        """Return the rewards of valid states by their space: found here, said, and whether by another compiler."""
        rows: dict[str, list[tuple[float, float, bool]]] = {}
        for result in self.results:
            said, space, other = result.state.reward, result.state.reward_space, result.another_compiler
            if not (result.wrong or said is None or space is None or result.reward is None):
                rows.setdefault(space, []).append((result.reward if other else said, said, other))
        return rows

    def _earned(self, rows: "list[tuple[float, float, bool]]") -> dict[str, Any]:
        found, said, others = zip(*rows, strict=True)
        return {
            "aggregation": str(self._aggregation),
            "states": len(rows),
            "found": self._aggregation.of(found),
            "std": pstdev(found),
            "said": self._aggregation.of(said),
            "of_another_compiler": sum(others),
        }


def _width(states: "Sequence[CompilerEnvState | LegacyState]") -> int:
    """Return the width of the column of names."""
    return min(max((len(_name(state.benchmark)) for state in states), default=0), _WIDEST)


def line(result: "ValidationResult", width: int = 0) -> str:
    """Return a result as one line, with a column of names of this width, in characters.

    A program that was miscompiled has a second line, with what to report.
    """
    name = _name(result.state.benchmark)
    if result.wrong:
        report = f"\n    report  {result.report}" if result.report else ""
        return f"❌  {name:<{width}}  {_details(result)}{report}"
    mark, doubt = ("✅", "") if result.okay() else ("❔", f"  {result.verdict}")
    if not result.another_compiler:
        reward = f"  {result.state.reward:9.4f}" if result.state.has_reward else ""
        return f"{mark}  {name:<{width if reward or doubt else 0}}{reward}{doubt}"
    assert result.translation is not None
    parts = [str(result.translation)]
    if result.state.reward is not None:
        parts.insert(0, f"said to be {result.state.reward:.4f} with another compiler")
    reward = f"{result.reward:9.4f}" if result.reward is not None else ""
    return f"{mark}  {name:<{width}}  {reward}  {'; '.join(parts)}{doubt}"


def _details(result: "ValidationResult") -> str:
    """Return what is wrong, with the first line of details for a single error."""
    text = result.error_details
    if result.behaviour is Behaviour.DIFFERS:
        text = result.verdict if result.report else f"{result.verdict}; report it"
    elif len(result.errors) == 1:
        data = result.errors[0].data
        if "error_details" in data:
            first, *more = data["error_details"].splitlines() or [""]
            text += f": {first.partition(';')[0]} ({more[-1]})" if result.unavailable and more else f": {first}"
        elif result.reward_validation_failed:
            text += f": said {data['expected']:.4f}, is {data['actual']:.4f}"
    return text if len(text) <= _DETAILS else f"{text[: _DETAILS - 3]}..."


def _name(benchmark: str) -> str:
    return benchmark.removeprefix("benchmark://")


def validate(
    paths: list[str],
    environment: str = "llvm-ic-v0",
    in_order: bool = False,
    aggregation: Aggregation = Aggregation.GEOMEAN,
    summary_only: bool = False,
    log: Path | None = None,
    skip_invalid: bool = False,
    semantics: bool = True,
    sanitizers: bool = True,
    runs: list[str] | None = None,
    flakiness: int = 5,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Check that states can be reached again, earn what they say, and leave the program what it was.

    A state is proven when the program was run and does the same as before; it may be neither proven nor wrong.

    States that CompilerGym found with LLVM 10 are replayed with today's passes; another reward is no error then.

    Of a miscompiled program, the fewest actions that still miscompile it are printed, to be reported.

    Exit status: 0 if every state is proven; 1 if any is wrong (miscompiled, unreachable, another reward) or could not
    be checked; 3 if none is wrong, but a program fails by itself, varies, is undefined, or was not run. --no-semantics
    asks for no proof: 0 then if nothing is wrong.

    Example: aiocg validate best.json --run small

    Args:
        paths: Files of states: CSV, also CompilerGym's, or JSON as `aiocg search --state` writes it; compressed or not;
            - is standard input. Or addresses of such files on the web.
        environment (--env): Environment that states of CompilerGym come from: its files do not say.
        in_order (--inorder): Print results in the order of the states, not as they come.
        aggregation (--reward-aggregation): How rewards become one number.
        summary_only: Do not print a line for each state.
        log (--validation-log): Write results as they come to this file, as lines of JSON.
        skip_invalid: Tell of rows that are no states and go on with the others.
        semantics: Build, run and compare programs that can run.
        sanitizers: Run them under LLVM's sanitizers, too.
        runs (--run): A run to do, such as small; all by default. Repeatable.
        flakiness (1..): How often a test is tried before it counts as failed.
    """
    from aiocg import Runtime
    from aiocg.datasets.progress import progress
    from aiocg.registry import environment as environment_of
    from aiocg.validation import Sanitizer, validate_states

    environment_of(environment)  # that there is one
    check_writable(log)
    states, bad_rows = _read(paths, skip_invalid)
    summary = Summary(aggregation)

    async def validate_all(log: TextIO | None) -> None:
        columns, quiet = _width(states), json or summary_only
        shown = quiet or console.is_terminal  # else it could mix with lines that go elsewhere than to the terminal
        bar = progress("Validating", len(states), unit="programs") if shown else contextlib.nullcontext()
        with bar as advance:
            async with Runtime(workers=workers) as runtime:
                results = validate_states(
                    runtime,
                    states,
                    ordered=in_order,
                    environment=environment,
                    semantics=semantics,
                    sanitizers=tuple(Sanitizer) if sanitizers else (),
                    runs=tuple(runs) if runs else None,
                    flakiness=flakiness,
                )
                async with contextlib.aclosing(results):
                    async for result in results:
                        summary.results.append(result)
                        if log is not None:
                            print(result.to_json(), file=log, flush=True)
                        if not quiet:
                            print_line(line(result, columns))
                        if advance is not None:
                            advance(1)

    status, ending = 1 if bad_rows else 0, {}
    try:
        with contextlib.nullcontext() if log is None else log.open("w", encoding="utf-8") as file:
            run(validate_all(file))
    except KeyboardInterrupt:
        ending = {"error": f"interrupted; {len(summary.results)} of {len(states)} states were validated"}
        errors.print(ending["error"])
        status = interrupted_status()
    if json:
        print_json({**summary.to_json(), "bad_rows": bad_rows, **ending})
    elif summary.results:
        for text in summary.lines():
            print_line(text)
        if bad_rows:
            print_line(f"{counted(bad_rows, 'row')} left out, as no states")
    status = status or (1 if summary.failed else UNPROVEN if semantics and summary.unproven else 0)
    if status:
        sys.exit(status)


def _read(paths: Sequence[str], skip_invalid: bool) -> "tuple[list[State], int]":
    """Read all states before the work, and count invalid rows."""
    from aiocg.states.files import read_paths

    bad: list[InvalidState] = []

    def tell(error: "InvalidState") -> None:
        bad.append(error)
        errors.print(f"left out: {error}", markup=False)

    with reading(", ".join(paths)):
        states = list(read_paths(paths, invalid=tell if skip_invalid else None))
    if not states:
        fail(f"there are no states in {', '.join('standard input' if path == '-' else path for path in paths)}")
    return states, len(bad)
