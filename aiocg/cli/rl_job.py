"""Shared parts of the `aiocg rl` commands: programs, learners, progress."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.cli.output import counted, fail, print_line

if TYPE_CHECKING:
    from aiocg.rl import PhaseOrdering, Program, Result, Scores, SyncRuntime
    from aiocg.rl.ppo import Learner, Settings


@dataclass(frozen=True, slots=True)
class Choice:
    """Which programs: names of datasets, how many, from which place on, and of how many instructions at most."""

    programs: Sequence[str]
    count: int
    first: int
    largest: int


def need_pytorch() -> None:
    """Exit with a message when PyTorch is not installed."""
    from aiocg.rl.ppo import pytorch

    try:
        pytorch()
    except ImportError as error:
        fail(str(error))


def check_starts(starts: Sequence[str]) -> None:
    """Exit with a message when there is no such start of an episode."""
    from aiocg.rl import STARTS

    for start in starts:
        if start not in STARTS:
            fail(f"episodes begin with {' or '.join(STARTS)}, not with {start!r}")


def prepared(
    runtime: "SyncRuntime",
    choice: Choice,
    starts: Sequence[str],
    show: Callable[[str], None],
    *,
    json: bool,
    training: bool,
) -> "list[Program]":
    """Return the programs that were asked for, compiled and measured."""
    from aiocg.rl.programs import check_contents, check_training, find_programs, prepare_programs

    if training:
        check_training(choice.programs)
    benchmarks = list(find_programs(runtime.runtime, choice.programs, choice.count, choice.first))
    if training:
        check_contents(runtime.runtime, benchmarks)
    if not benchmarks:
        fail(f"{', '.join(choice.programs)} has no programs from place {choice.first} on")
    show(f"compiling and measuring {counted(len(benchmarks), 'program')}")

    def progress(kept: int, left_out: int) -> None:
        show(f"programs: {kept} of {len(benchmarks)} ready, {left_out} left out")

    ready = runtime.run(
        lambda: prepare_programs(runtime.runtime, benchmarks, starts=starts, largest=choice.largest, progress=progress)
    )
    if not ready:
        fail(f"of {counted(len(benchmarks), 'program')} none can be used: they do not load, or are too large")
    if not json:
        left_out = len(benchmarks) - len(ready)
        print_line(f"{counted(len(ready), 'program')} of {', '.join(choice.programs)}; {left_out} left out")
    return ready


def new_learner(
    runtime: "SyncRuntime",
    actions: Path | None,
    steps: int,
    starts: Sequence[str],
    choice: Choice,
    settings: "Settings",
) -> "Learner":
    """Return a learner that has learned nothing."""
    from aiocg.policies import Features, PolicyFacts
    from aiocg.rl.ppo import Learner
    from aiocg.rl.programs import default_actions

    check_starts(starts)
    texts = default_actions() if actions is None else tuple(filter(None, actions.read_text("utf-8").splitlines()))
    if len(texts) != len(set(texts)) or not texts:
        fail(f"{actions} must have different actions, one on each line")
    facts = PolicyFacts(
        compiler=runtime.run(lambda: _compiler(runtime)),
        actions=texts,
        steps=steps,
        starts=tuple(dict.fromkeys(starts)),
        sources=tuple(choice.programs),
        seed=settings.seed,
    )
    return Learner(facts, settings, Features(len(texts)).size)


async def _compiler(runtime: "SyncRuntime") -> str:
    env = await runtime.runtime.make("llvm-v0")
    try:
        return env.compiler_version
    finally:
        await env.close()


def imitate_from(
    path: Path, learner: "Learner", envs: "PhaseOrdering", programs: "Sequence[Program]", *, json: bool
) -> None:
    """Learn from demonstrations on the programs at hand."""
    from aiocg.rl import collect
    from aiocg.rl.cloning import demonstrations, plans_of

    plans = plans_of(demonstrations(path, learner.facts.actions), programs, learner.facts.actions)
    if not plans:
        fail(f"{path} has none of the programs that are trained on: search them with --log first")
    loss = learner.imitate(collect(envs, None, plans))
    if not json:
        print_line(f"imitated {counted(len(plans), 'demonstration')}; cross entropy {loss:.3f}")


def writer_to(folder: Path) -> Callable[[dict[str, float]], None]:
    """Return what writes each update of a training to a folder, for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        fail("--tensorboard needs TensorBoard: pip install tensorboard")
    writer = SummaryWriter(str(folder))

    def write(told: dict[str, float]) -> None:
        for name, value in told.items():
            writer.add_scalar(name, value, int(told["episodes"]))
        writer.flush()

    return write


@contextlib.contextmanager
def run_of(folder: Path) -> Iterator[Callable[[dict[str, float]], None]]:
    """Give what writes each update of a training to a folder, for Weights & Biases, without any connection."""
    try:
        import wandb
    except ImportError:
        fail("--wandb needs Weights & Biases: pip install wandb")
    folder.mkdir(parents=True, exist_ok=True)
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True)
    with wandb.init(mode="offline", dir=str(folder), project="aiocg", settings=quiet) as run:
        yield lambda told: run.log(told, step=int(told["episodes"]))


def progress_to(
    episodes: int, writers: Sequence[Callable[[dict[str, float]], None]], show: Callable[[str], None], *, json: bool
) -> Callable[[dict[str, float]], None]:
    """Return what tells of each update of a training, and has it written where that is wanted."""
    began = time.monotonic()
    show("the first episodes")

    def progress(told: dict[str, float]) -> None:
        for write in writers:
            write(told)
        show(f"{told['episodes']:,} of {episodes:,} episodes")
        if json:
            return
        found = {key.removeprefix("ratio_"): value for key, value in told.items() if key.startswith("ratio_")}
        ratios = "  ".join(f"{start} {ratio:.4f}" for start, ratio in found.items())
        rate = told["steps"] / told["seconds"]
        seconds = time.monotonic() - began
        done = f"{told['episodes']:,} of {episodes:,} episodes"
        print_line(f"{seconds:6.0f} s  {done}  {ratios}  {rate:,.0f} steps/s  entropy {told['entropy']:.2f}")

    return progress


def rows_of(scores: "Sequence[Scores]") -> Iterator[tuple[str, ...]]:
    """Return a row for each figure: times smaller than both baselines, and how often larger than the stronger one."""
    whats = list(dict.fromkeys(one.what for one in scores))
    for what in whats:
        found = [one for one in scores if one.what == what]
        ratios = [
            text
            for one in found
            for text in (f"{one.ratio.mean:.3f} [{one.ratio.low:.3f}, {one.ratio.high:.3f}]", f"{one.median:.3f}")
        ]
        yield (what.removeprefix("from "), *ratios, f"{100 * found[-1].worse:.0f} %")


def remarks_on(results: "Sequence[Result]") -> Iterator[str]:
    """Return a line on how many results were run, one for each that was wrong, and one for each outlier."""
    from aiocg.rl import outliers
    from aiocg.states.behaviour import Behaviour

    seen = [(one.uri, start, behaviour) for one in results for start, behaviour in one.behaviour.items()]
    if seen:
        same = sum(behaviour is Behaviour.SAME for *_, behaviour in seen)
        yield f"{same} of {counted(len(seen), 'result')} were run and do the same"
    for uri, start, behaviour in seen:
        if behaviour is Behaviour.DIFFERS:
            yield f"miscompiled, and counted as what it began with: {uri} from {start}"
    for one in outliers(results):
        times = f"{one.ratio:.1f} times smaller" if one.ratio > 1 else f"{1 / one.ratio:.1f} times larger"
        yield f"outlier: {one.uri} from {one.start} is {times} than the stronger -Oz ({one.behaviour})"


def scores_in(paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return the figures of files of results, by the programs that they are of."""
    import msgspec

    found: dict[str, dict[str, float]] = {}
    for path in paths:
        try:
            told = msgspec.json.decode(path.read_bytes())
            sets = sorted({uri.partition("://")[2].partition("/")[0] for uri in told["programs"]})
            name = f"{len(told['programs'])} of {', '.join(sets)}"
            found[name] = {f"{one['what']}, against {one['baseline']}": one["ratio"]["mean"] for one in told["scores"]}
        except (OSError, KeyError, TypeError, ValueError):
            fail(f"{path} is not what `aiocg rl evaluate -o` writes")
    return found
