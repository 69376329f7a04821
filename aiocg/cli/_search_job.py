"""Shared parts of the `aiocg search` commands: options, execution, output files."""

import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import aiocg
from aiocg.cli._options import Flags, count_option, observation_of, time_option, write_program
from aiocg.cli._search_report import Finding, progress_line, settle_reward
from aiocg.cli.output import (
    CommandError,
    answer,
    check_writable,
    counted,
    errors,
    fail,
    interrupted_status,
    print_json,
    print_line,
    run,
    was_stopped,
    working,
    write_file,
)
from aiocg.datasets.errors import DatasetNotFound
from aiocg.states.behaviour import Behaviour

if TYPE_CHECKING:
    from rich.text import Text

    from aiocg import Env
    from aiocg.datasets import Benchmark
    from aiocg.search import Progress, SearchResult
    from aiocg.states.state import CompilerEnvState

    SearchFunction = Callable[..., Awaitable[SearchResult]]

DEFAULT, DECIDE = "functionwise", "decide"  # the default search, and one like it
BYTES = "ObjectImageSizeOzMinsize"  # its default reward
SCHEDULE, LOOPS = "schedule", "loops-v0"  # the search for schedules of loops, and its environment
RACING, RUNTIME = "racing", "runtime"  # the search for running time, and its reward
FASTEST = "-O3"  # the level of the front end for that, which marks no loops not to be unrolled


REPORTED = 1.15  # share of the budget until which the levels are compiled for the table
LEAST_SEARCH = 0.5  # share of the budget that is left for a search, however long the program's own cost has taken
LEAST_REPORT = 3.0  # seconds that this may take in any case
FILES = ("output", "state", "plot")  # options that name a file to write
REWARDS = ("IrInstructionCountOz", "obj_image_size_Oz", "obj_image_size_Os")  # of environments without one
PATIENCE = 0.1  # of the budget, to wait for GCC after the search
SHORTEST, RUNS = 2.0, 4  # seconds that a run may take in any case, and how many there are time for
OF_LINES = ("hill-climb", "genetic", "screening")  # searches over whole command lines
OF_BOTH = ("random", "nevergrad", "opentuner")  # and those that search lists of actions, too


@dataclass(slots=True, kw_only=True)
class Job:
    """What all searches have in common. The fields are the options of the commands.

    Args:
        target (PROGRAM): A benchmark such as programs-v0/qsort, or your own .c .cc .cpp .ll or .bc file; of loops-v0 a
            tensor expression, or a file that has one.
        env: Id of the environment, such as gcc-v0?gcc_bin=gcc-12 or loops-v0.
        reward (default the environment's, or size against -Oz or -Os): Reward space to maximise.
        action_space: Actions to choose from; `aiocg describe` lists the spaces.
        budget (--budget): Stop after this time.
        evaluations: Stop after this many evaluations; reproducible with --seed where no --budget is.
        start: What each list of passes begins with: O0 for nothing, or Oz, Os, O3 or O2.
        minimize (--minimize/--no-minimize, default of lists of passes, not of whole command lines): At the end, drop
            what does nothing for the reward; a tenth of the budget is kept for it.
        output (-o, --output): Write the optimised program: .bc, .ll, .o, .s, or without suffix an executable.
        state: Write the best state as JSON, for `aiocg replay`.
        plot: Draw how the best reward grew, as SVG, to this file.
        seed: Seed of all random choices.
        run_line (--run, default a program with a main without arguments or input, for 2 seconds at most): How your own
            program is run, such as './program input.txt' or './program < input.txt': to measure and to validate it.
        no_run: Run no program, so that nothing is validated.
        log: Add every transition seen to this file, for `aiocg transitions`.
        memory (FOLDER or redis://HOST, default AIOCG_MEMORY, or nowhere): Take from there what LLVM's passes do, and
            remember it there, for the next search.
    """

    target: str
    env: str = "llvm-v0"
    reward: str | None = None
    action_space: str | None = None
    budget: Annotated[float | None, time_option(counted="--evaluations")] = None
    evaluations: Annotated[int | None, count_option("--budget")] = None
    start: str = "O0"
    minimize: bool | None = None
    workers: int | None = None
    output: Path | None = None
    state: Path | None = None
    plot: Path | None = None
    seed: int = 0
    run_line: str | None = None
    no_run: bool = False
    log: Path | None = None
    memory: str | None = None
    json: bool = False
    flags: Flags = None
    algorithm: str = field(init=False)
    texts: "tuple[str, ...]" = field(default=(), init=False)  # the actions to search, if not those of a space
    latest: "Progress | None" = field(default=None, init=False)
    course: list[tuple[int, float]] = field(default_factory=list, init=False)

    def run(self, function: "SearchFunction") -> None:
        """Run the search on an event loop; Ctrl-C and SIGTERM write the best so far."""
        if self.no_run and self.run_line is not None:
            fail("--run and --no-run cannot both be had")
        check_writable(self.output)
        check_writable(self.state)
        check_writable(self.plot, ".svg")
        check_writable(self.log)
        try:
            run(self._search(function))
        except KeyboardInterrupt:
            self._end_interrupted({})

    def _end_interrupted(self, kept: "Mapping[str, str]") -> NoReturn:
        """Print the best so far and which files have it, and exit."""
        from aiocg.spaces.actions import join_texts

        latest = self.latest
        if latest is None:
            found = "before anything was evaluated"
        else:
            found = f"after {latest.elapsed:.1f} s and {counted(latest.evaluations, 'evaluation')}"
        asked = {name: getattr(self, name) for name in FILES}
        if missing := [str(path) for name, path in asked.items() if path is not None and name not in kept]:
            problem = f" ({kept['error']})" if "error" in kept else ""
            found += f", {' and '.join(missing)} not written{problem}"
        if written := [kept[name] for name in FILES if name in kept]:
            found += f", wrote {' and '.join(written)}"
        if latest is not None:
            worth = latest.note or f"reward {latest.reward:.4f}"
            found += f"; best so far: {worth} with{'' if latest.actions else ' the program as it is'}"
        best = {"actions": latest.actions, "reward": latest.reward} if latest is not None else {}
        value = {"error": f"interrupted {found}", **best, **{name: kept.get(name) for name in FILES}}
        actions = [join_texts(latest.actions)] if latest is not None and latest.actions else []
        answer(self.json, value, f"interrupted {found}", *actions)
        sys.exit(interrupted_status())

    async def _search(self, function: "SearchFunction") -> None:
        import asyncio  # which takes long, and what only prints help does not need

        begun = time.monotonic()
        with contextlib.ExitStack() as display:
            show = display.enter_context(working(self.algorithm, "starting workers", json=self.json))
            async with aiocg.Runtime(workers=self.workers, memory=self.memory) as runtime:
                if self.log is not None:
                    runtime.log_to(self.log)
                spaces: dict[str, Any] = {"reward_space": self.reward, "action_space": self.action_space}
                env = await runtime.make(self.env, benchmark=await self._benchmark(runtime), **spaces)
                if self.texts:
                    from aiocg.search.priors import usable_actions

                    known = await usable_actions(env, self.texts)
                    await env.choose_actions([text for text, usable in zip(self.texts, known, strict=True) if usable])
                from aiocg.gcc.rival import compiling_small

                self._prepare(env)
                if said := await settle_reward(env, self.output, self.budget, show):
                    errors.print(f"note: {said}", markup=False)
                show(f"evaluating the compiler's own levels of {env.benchmark.uri}")
                try:
                    started = time.monotonic()
                    async with compiling_small(env.benchmark if env.spec.worker == "llvm" else None) as by_gcc:
                        result = await self._result(function, env, show, started - begun)
                        gcc = await by_gcc(None if self.budget is None else PATIENCE * self.budget)
                    show("comparing what was found with the compiler's own levels")
                    spent = time.monotonic() - begun
                    left = None if self.budget is None else max(LEAST_REPORT, self.budget * REPORTED - spent)
                    finding = await Finding.observe(self.algorithm, env, result, gcc, run=not self.no_run, seconds=left)
                    display.close()
                    remembered = of_memory(await runtime.statistics())
                    picture = "" if self.plot is None else result.svg(self.course)
                    await self._hand_over(env, finding, picture, remembered)
                except asyncio.CancelledError:
                    if self.latest is None or not was_stopped():
                        raise
                    show("interrupted: writing the best so far; Ctrl-C again leaves it")
                    kept = await self._keep(env, self.latest)
                    display.close()
                    self._end_interrupted(kept)

    async def _keep(self, env: "Env", latest: "Progress") -> dict[str, str]:
        """Write the best so far to the files that were asked for, the quickest first; return those written, by option.

        A program that does something else is not written.
        """
        from aiocg.search import SearchResult
        from aiocg.search.lanes import go_to
        from aiocg.search.result import begin_state
        from aiocg.states.state import CompilerEnvState

        kept: dict[str, str] = {}
        try:
            if self.state is not None:  # at once, and again with the reward, which may take long
                uri = str(env.benchmark.uri)
                self._write_state(CompilerEnvState(environment=env.spec.id, benchmark=uri, actions=latest.actions))
                kept["state"] = str(self.state)
            if self.plot is not None:
                begun, count = begin_state(self.algorithm, env), latest.evaluations
                result = SearchResult(latest.actions, latest.reward, count, latest.elapsed, complete=False, state=begun)
                write_file(self.plot, result.svg(self.course).encode())
                kept["plot"] = str(self.plot)
            if self.output is not None:
                await env.reset()
                await go_to(env, latest.actions)
                if latest.actions and not self.no_run:
                    validation = await env.validate(sanitizers=(), minimize=False)
                    if validation.behaviour is Behaviour.DIFFERS:
                        raise CommandError(validation.verdict)
                await write_program(env, self.output)
                kept["output"] = str(self.output)
            if self.state is not None:
                if self.output is None:
                    await env.reset()
                    await go_to(env, latest.actions)
                self._write_state(env.state)
            if kept.keys() & {"state", "output"} and (reward := env.state.reward) is not None:
                # What was told before may be a sum of what functions cost alone.
                self.latest = dataclasses.replace(latest, reward=reward)
        except (CommandError, aiocg.AiocgError) as error:
            kept["error"] = str(error).partition("\n")[0]
        return kept

    async def _benchmark(self, runtime: "aiocg.Runtime") -> "Benchmark":
        """Return the program, compiled and run as the command says."""
        if self.env.partition("?")[0] == LOOPS and (is_expression(self.target) or Path(self.target).is_file()):
            from aiocg.loops import make_benchmark

            return make_benchmark(self.target if is_expression(self.target) else Path(self.target))
        try:
            benchmark = await runtime.find_benchmark(self.target, self.flags or ())
        except DatasetNotFound:
            if self.env.partition("?")[0] != LOOPS or not Path(self.target).suffix:
                raise
            fail(f"{self.target} is no file here, no benchmark, and no tensor expression such as C[i:8] = A[i] + B[i]")
        uri = benchmark.uri
        takes_flags = benchmark.program is not None and (uri.scheme == "file" or uri.dataset == "programs-v0")
        if self.algorithm == RACING and takes_flags and not any(value.startswith("-O") for _, value in uri.params):
            benchmark = await runtime.find_benchmark(dataclasses.replace(uri, params=(("flag", FASTEST), *uri.params)))
        if self.run_line is None:
            return benchmark
        from aiocg.llvm.builds import runs_of
        from aiocg.search.reference import program_of

        try:
            runs = runs_of(self.run_line, Path.cwd(), (Path(uri.path).stem, "program", "app", "a.out"))
        except ValueError as error:
            fail(f"--run {self.run_line!r} cannot be done: {error}")
        if self.budget is not None:  # measured or not, a run must be much shorter than the search
            limit = max(SHORTEST, self.budget / RUNS)
            runs = {name: dataclasses.replace(run, timeout=min(run.timeout, limit)) for name, run in runs.items()}
        return benchmark.replace(program=dataclasses.replace(program_of(benchmark), runs=runs, measured=""))

    def _prepare(self, env: "Env") -> None:
        """Choose what to search for and in which action space, and end with a message where that cannot be done."""
        from aiocg.search.command_lines import option_space

        if env.reward_space is None:
            usual = {DEFAULT: BYTES, DECIDE: BYTES, RACING: RUNTIME}.get(self.algorithm)
            env.reward_space = usual or _default_reward(env)
        self._check(env)
        if self.algorithm in OF_BOTH and self.action_space is None and env.action_spaces.language.line is not None:
            env.action_space = option_space(env)
        if self.output is not None:
            observation_of(env, self.output)  # that there is one

    async def _result(
        self, function: "SearchFunction", env: "Env", show: "Callable[[Text | str], None]", spent: float
    ) -> "SearchResult":
        """Search, and leave the environment at what was found; `spent` seconds have gone already."""
        from aiocg.search.lanes import go_to
        from aiocg.spaces.actions import OptionActions

        def progress(now: "Progress") -> None:
            self.latest = now
            self.course.append((now.evaluations, now.reward))
            show(progress_line(self.algorithm, env, now, self.budget, self.evaluations))

        left = self.budget and max(LEAST_SEARCH * self.budget, self.budget - spent)
        options: dict[str, Any] = {"budget": aiocg.search.Budget(left, self.evaluations)}
        options |= {"run": False} if self.no_run else {}
        counted = env.in_episode and "IrInstructionCount" in env.observation_spaces
        if counted and not await env.observe("IrInstructionCount"):
            options["budget"] = aiocg.search.Budget(evaluations=1)  # no function to search: levels are all there is
        lines = self.algorithm in OF_LINES or isinstance(env.action_space, OptionActions)  # of whole command lines
        options |= {} if self.start == "O0" else {"start": self.start}
        if not lines and self.algorithm not in (DEFAULT, DECIDE, RACING):
            options["minimize"] = self.minimize is not False
        try:
            result = await function(env, progress=progress, **options)
        except (ImportError, ValueError) as error:  # of a library that is installed on request, or a choice
            fail(str(error))
        if lines and self.minimize and result.improved:
            result = await _minimized(env, result)
        await go_to(env, result.actions)
        return result

    async def _hand_over(self, env: "Env", finding: Finding, picture: str, remembered: str) -> None:
        """Write and tell what was found, but no program that does not do what it should."""
        right = finding.behaviour is not Behaviour.DIFFERS
        problem: dict[str, str] = {}
        try:  # files first: whoever reads our output may leave early, as `head` does
            if self.state is not None:
                self._write_state(env.state)
            if self.output is not None and right:
                await write_program(env, self.output)
            if self.plot is not None:
                write_file(self.plot, picture.encode())
        except CommandError as error:
            if not self.json:
                raise
            problem = {"error": str(error)}
        finally:
            if self.json:
                print_json(finding.as_json(self.output if right else None) | problem)
            else:
                finding.print()
                if remembered:
                    print_line(remembered)
        if problem or not right:
            sys.exit(1)

    def _write_state(self, state: "CompilerEnvState") -> None:
        assert self.state is not None
        write_file(self.state, state.to_json().encode() + b"\n")

    def _check(self, env: "Env") -> None:
        """Exit with a message if the search could only fail."""
        from aiocg.datasets import default_datasets
        from aiocg.registry import environments
        from aiocg.search.command_lines import option_space

        dataset = env.benchmark.uri.dataset
        kind = default_datasets()[dataset].kind if dataset in default_datasets() else env.spec.kind
        if kind != env.spec.kind:
            takers = [spec.id for spec in environments().values() if spec.kind == kind]
            fail(f"{env.benchmark.uri} is a {kind}, which {env.spec.id} does not take: try --env {' or '.join(takers)}")
        if self.algorithm in OF_LINES:
            try:
                option_space(env)
            except ValueError as error:
                fail(str(error))
        if self.minimize and env.reward_space is not None and not env.reward_spaces[env.reward_space].deterministic:
            fail(f"{env.reward_space} is measured and never twice the same: --minimize cannot tell what does nothing")


def is_expression(target: str) -> bool:
    """Return whether a target is the text of a tensor expression, such as `C[i:8] = A[i] + B[i]`."""
    return re.search(r"^\s*\w+\s*\[[^]]*:[^]]*\]\s*=", target, re.MULTILINE) is not None


def of_memory(workers: Sequence[Mapping[str, Any]]) -> str:
    """Describe what came from a shared memory, and warn of what it had wrong; return "" if there is none."""
    used = [counts for counts in workers if "memory_hits" in counts]
    for action in sorted({action for counts in used for action in counts["memory_mistrusted"]}):
        errors.print(f"the memory was wrong about {action}, which was computed from then on", markup=False)
    for problem in sorted({problem for counts in used for problem in counts["memory_problems"]}):
        errors.print(f"warning: the memory did not answer, and the search went on without it: {problem}", markup=False)
    hits, misses, late = (sum(counts[f"memory_{what}"] for counts in used) for what in ("hits", "misses", "late"))
    slow = f", {counted(late, 'answer')} too late" if late else ""
    return f"memory      {hits} of {counted(hits + misses, 'step')} known{slow}" if used else ""


async def _minimized(env: "Env", result: "SearchResult") -> "SearchResult":
    """Remove options without effect from a result; these evaluations are not counted."""
    from aiocg.search.lanes import go_to
    from aiocg.validation.minimize import minimize_line

    actions = (await minimize_line(env, result.actions[0])).actions
    await go_to(env, actions)
    return dataclasses.replace(result, actions=actions, reward=env.episode_reward or 0.0)


def _default_reward(env: "Env") -> str:
    for name in REWARDS:
        if name in env.reward_spaces:
            return name
    fail(f"say with --reward what {env.spec.id} is searched for: {', '.join(env.reward_spaces) or 'it has no rewards'}")
