"""`aiocg rl`: train policies for phase ordering, judge them, and make files of them.

Args:
    checkpoint: The file that training is kept in.
    programs (NAME): A dataset, a program, a file or a folder; may be given several times.
    count (1..): Programs in all, as many of each dataset.
    first (0..): The first seed; of a dataset with an end, the first place when it is shuffled.
    largest (1..): Instructions of a program; larger ones are left out.
    start: What episodes begin with: O0, OzMinsize; may be given twice.
    envs (1..): Environments side by side.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli._options import command
from aiocg.cli.output import (
    answer,
    check_writable,
    counted,
    fail,
    interrupted,
    interrupted_status,
    interruptible,
    print_line,
    table,
    working,
    write_file,
)

if TYPE_CHECKING:
    from aiocg.rl import PhaseOrdering, Program, Result, Scores, SyncRuntime
    from aiocg.rl.ppo import Learner, Settings


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which programs: names of datasets, how many, from which place on, and of how many instructions at most."""

    programs: Sequence[str]
    count: int
    first: int
    largest: int


def _need_pytorch() -> None:
    """Exit with a message when PyTorch is not installed."""
    from aiocg.rl.ppo import pytorch

    try:
        pytorch()
    except ImportError as error:
        fail(str(error))


def _check_starts(starts: Sequence[str]) -> None:
    """Exit with a message when there is no such start of an episode."""
    from aiocg.rl import STARTS

    for start in starts:
        if start not in STARTS:
            fail(f"episodes begin with {' or '.join(STARTS)}, not with {start!r}")


def _prepared(
    runtime: "SyncRuntime",
    choice: _Choice,
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


def _new_learner(
    runtime: "SyncRuntime",
    actions: Path | None,
    steps: int,
    starts: Sequence[str],
    choice: _Choice,
    settings: "Settings",
) -> "Learner":
    """Return a learner that has learned nothing."""
    from aiocg.policies import Features, PolicyFacts
    from aiocg.rl.ppo import Learner
    from aiocg.rl.programs import default_actions

    _check_starts(starts)
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
    async with await runtime.runtime.make("llvm-v0") as env:
        return env.compiler_version


def _imitate_from(
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


def _writer_to(folder: Path) -> Callable[[dict[str, float]], None]:
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
def _run_of(folder: Path) -> Iterator[Callable[[dict[str, float]], None]]:
    """Give what writes each update of a training to a folder, for Weights & Biases, without any connection."""
    try:
        import wandb
    except ImportError:
        fail("--wandb needs Weights & Biases: pip install wandb")
    folder.mkdir(parents=True, exist_ok=True)
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True)
    with wandb.init(mode="offline", dir=str(folder), project="aiocg", settings=quiet) as run:
        yield lambda told: run.log(told, step=int(told["episodes"]))


def _progress_to(
    episodes: int, writers: Sequence[Callable[[dict[str, float]], None]], show: Callable[[str], None], *, json: bool
) -> Callable[[dict[str, float]], None]:
    """Return what tells of each update of a training, and has it written where that is wanted."""
    began, best = time.monotonic(), 0.0
    if not json:
        print_line("times smaller than -Oz, minsize: the best program of an episode, by what it begins with")
    show("the first episodes")

    def progress(told: dict[str, float]) -> None:
        nonlocal best
        for write in writers:
            write(told)
        show(f"{told['episodes']:,} of {episodes:,} episodes")
        if json:
            return
        found = {key.removeprefix("ratio_"): value for key, value in told.items() if key.startswith("ratio_")}
        ratios = "  ".join(f"{start} {ratio:.4f}" for start, ratio in found.items())
        best, seconds = max(best, *found.values()), time.monotonic() - began
        done = f"{told['episodes']:,} of {episodes:,} episodes  {told['episodes_per_second']:.1f}/s"
        print_line(f"{seconds:6.0f} s  {done}  {ratios}  best {best:.4f}  entropy {told['entropy']:.2f}")

    return progress


def _rows_of(scores: "Sequence[Scores]") -> Iterator[tuple[str, ...]]:
    """Return a row for each figure: times smaller than both baselines, and how often larger than the stronger one."""
    whats = list(dict.fromkeys(one.what for one in scores))
    for what in whats:
        row, found = [what.removeprefix("from ")], [one for one in scores if one.what == what]
        for one in found:
            row += [f"{one.ratio.mean:.3f} [{one.ratio.low:.3f}, {one.ratio.high:.3f}]", f"{one.median:.3f}"]
        yield (*row, f"{100 * found[-1].worse:.0f} %")


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


def _scores_in(paths: Sequence[Path]) -> dict[str, dict[str, float]]:
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


app = typer.Typer(no_args_is_help=True)


@app.callback()
def _rl() -> None:
    """Reinforcement learning of phase orders: train a policy, judge it, export it for `aiocg search policy`.

    Example: aiocg rl train run.ckpt --episodes 2000 && aiocg rl export run.ckpt my.npz
    """


@command(app)
def train(
    checkpoint: Path,
    resume: bool = False,
    programs: list[str] | None = None,
    count: int = 300,
    first: int = 100,
    largest: int = 5000,
    start: list[str] | None = None,
    episodes: int = 20_000,
    steps: int = 45,
    actions: Path | None = None,
    imitate: Path | None = None,
    batch: int = 64,
    rate: float = 5e-4,
    entropy: float = 0.002,
    seed: int = 0,
    envs: int = 64,
    workers: int | None = None,
    plot: Path | None = None,
    tensorboard: Annotated[Path | None, typer.Option(file_okay=False)] = None,
    wandb: Annotated[Path | None, typer.Option(file_okay=False)] = None,
    json: bool = False,
) -> None:
    """Train a policy by proximal policy optimisation. Ctrl-C keeps what was learned, for --resume.

    Programs are of csmith-v0 and aiocg-v0 unless others are named. The same seed and arguments make the same policy,
    whatever --envs and --workers are. Needs PyTorch: pip install 'aiocg\\[rl]'.

    Example: aiocg rl train run.ckpt --programs csmith-v0 --episodes 2000 --plot curve.png

    Args:
        resume: Go on from the checkpoint, by what it says.
        episodes (1..): Episodes in all.
        steps (1..): Steps of an episode, at most.
        actions (default our own): A file with the text of an action on each line.
        imitate: A file of transitions, such as of searches: first learn to do what led furthest there.
        batch (1..): Episodes of an update.
        rate (0..): Learning rate at first.
        entropy (0..): Weight of the entropy.
        seed: Seed of all random choices.
        plot: Draw the learning curve: .png or .svg.
        tensorboard (default CHECKPOINT with .tensorboard, if TensorBoard is installed): Folder for the learning curve.
        wandb: Write it to this folder, for Weights & Biases: `wandb sync` sends it.
    """
    check_writable(checkpoint)
    check_writable(plot, ".png", ".svg")
    _check_resumption(checkpoint, resume)
    if tensorboard is None and find_spec("tensorboard"):
        tensorboard = checkpoint.with_suffix(".tensorboard")
    learner, stopped = None, False
    with interruptible(), working("rl train", "loading PyTorch", json=json) as show, contextlib.ExitStack() as stack:
        _need_pytorch()
        writers = [] if tensorboard is None else [_writer_to(tensorboard)]
        from aiocg.rl import PhaseOrdering, SyncRuntime
        from aiocg.rl.ppo import Learner, Settings, draw_curve
        from aiocg.rl.ppo import train as run

        show("starting workers")
        try:
            runtime = stack.enter_context(SyncRuntime(workers=workers))
            if wandb is not None:
                writers.append(stack.enter_context(_run_of(wandb)))
            if resume:
                learner, more = Learner.load(checkpoint)
                choice = _Choice(**more)
            else:
                choice = _Choice(_absolute(programs or ("csmith-v0", "aiocg-v0")), count, first, largest)
                settings = Settings(episodes=episodes, batch=batch, rate=rate, entropy=entropy, seed=seed)
                learner = _new_learner(runtime, actions, steps, tuple(start or ("O0", "OzMinsize")), choice, settings)
            ready = _prepared(runtime, choice, learner.facts.starts, show, json=json, training=True)
            learner.know(one.uri for one in ready)
            ordering = stack.enter_context(
                PhaseOrdering(runtime, learner.facts.actions, num_envs=envs, steps=learner.facts.steps)
            )
            if imitate is not None and not resume:
                show(f"learning from {imitate}")
                _imitate_from(imitate, learner, ordering, ready, json=json)
            progress = _progress_to(learner.settings.episodes, writers, show, json=json)
            run(ordering, learner, ready, checkpoint=checkpoint, more=dataclasses.asdict(choice), progress=progress)
        except KeyboardInterrupt:
            stopped = True
            if learner is not None and not checkpoint.exists() and imitate is None:
                learner.save(checkpoint, dataclasses.asdict(choice))
    if learner is None or not checkpoint.exists():
        interrupted(f"interrupted before training began; {checkpoint} was not written")
    text, told = _outcome(checkpoint, learner, interrupted=stopped)
    answer(json, told, text)
    if plot is not None and learner.curve:
        draw_curve(learner.curve, plot)
    if stopped:
        sys.exit(interrupted_status())


def _absolute(programs: Sequence[str]) -> tuple[str, ...]:
    """Return names with paths that are the same wherever the training goes on."""
    return tuple(str(Path(one).expanduser().resolve()) if Path(one).expanduser().exists() else one for one in programs)


def _check_resumption(checkpoint: Path, resume: bool) -> None:
    if checkpoint.exists() and not resume:
        fail(f"{checkpoint} exists: go on with --resume, or name another file")
    if resume and not checkpoint.exists():
        fail(f"there is no checkpoint {checkpoint} to go on from")


def _outcome(checkpoint: Path, learner: "Learner", *, interrupted: bool) -> tuple[str, dict[str, Any]]:
    """Return what is said at the end of a training, as text and as JSON."""
    told = {"checkpoint": str(checkpoint), **(learner.curve[-1] if learner.curve else {})}
    if not interrupted:
        return f"{checkpoint} is trained: aiocg rl export {checkpoint} my.npz", told
    text = f"interrupted; {checkpoint} has {counted(learner.update, 'update')}: go on with --resume"
    return text, {"error": text, **told}


@command(app)
def evaluate(
    policy: str,
    programs: list[str] | None = None,
    count: int = 50,
    first: int = 0,
    largest: int = 1_000_000,
    start: list[str] | None = None,
    temperature: float = 0.5,
    seed: int = 0,
    envs: int = 16,
    workers: int | None = None,
    run_them: bool = True,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Let a policy run one episode on each program, from each start, and compare with -Oz, as it is and marked minsize.

    Figures are geometric means and medians of how many times smaller the programs are. What was run and does something
    else counts as what it began with; results over four times as small or large as the stronger -Oz are named.

    "with fallback" is the least of all starts and both baselines, as of `aiocg search policy`; the other rows are what
    the policy comes to by itself: the best program on its way, and the last. Intervals are of 2,000 bootstrap samples
    of programs, which are those of csmith-v0 unless others are named.

    Example: aiocg rl evaluate my.npz --programs programs-v0 --count 100

    Args:
        policy: A policy's file, or the name of one that comes along.
        temperature (0..): Of the choices; 0 takes what is preferred.
        seed: Seed of the choices.
        run_them (--run/--no-run): Run the programs that can be run: wrong ones do not count.
        output (-o, --output): Write all results as JSON.
    """
    import msgspec

    from aiocg.policies.features import FUNCTION
    from aiocg.rl import PhaseOrdering, Policy, SyncRuntime, outliers, score, usable_actions, validated
    from aiocg.rl import evaluate as run

    check_writable(output)
    chosen = Policy.load(policy)
    if chosen.facts.parts == FUNCTION:
        fail(f"{policy} is for single functions: aiocg search policy PROGRAM --policy {policy}")
    starts = tuple(start or chosen.facts.starts)
    _check_starts(starts)
    with working("rl evaluate", "starting workers", json=json) as show, SyncRuntime(workers=workers) as runtime:
        choice = _Choice(tuple(programs or ("csmith-v0",)), count, first, largest)
        ready = _prepared(runtime, choice, starts, show, json=json, training=False)
        show(f"episodes on {counted(len(ready), 'program')}")
        facts, usable = chosen.facts, usable_actions(runtime, chosen.facts.actions)
        if not all(usable) and not json:
            lacking = [text for text, is_usable in zip(facts.actions, usable, strict=True) if not is_usable]
            print_line(f"not of this LLVM: {', '.join(lacking)}")
        with PhaseOrdering(runtime, facts.actions, num_envs=envs, steps=facts.steps, usable=usable) as ordering:
            began = time.perf_counter()
            results = run(ordering, chosen, ready, starts, temperature=temperature, seed=seed)
            seconds = (time.perf_counter() - began) / len(results)
        if run_them:
            show(f"running {counted(len(results), 'program')}")
            results = runtime.run(lambda: validated(runtime.runtime, results))
    scores = score(results)
    found = {
        "policy": policy,
        "programs": [one.uri for one in results],
        "seconds_per_program": seconds,
        "scores": [one.as_json() for one in scores],
        "outliers": [one._asdict() for one in outliers(results)],
        "behaviour": {one.uri: one.behaviour for one in results},
    }
    if output is not None:
        write_file(output, msgspec.json.encode({**found, "results": results}) + b"\n")
    title = f"{policy} on {counted(len(results), 'program')}, {1000 * seconds:.0f} ms each"
    columns = ("from", "-Oz/found", "median", "stronger -Oz/found", "median", "larger")
    compared = table(title, columns, _rows_of(scores), right=(1, 2, 3, 4, 5), whole=(0, 2, 4, 5))
    answer(json, found, compared, *remarks_on(results))


@command(app)
def export(checkpoint: Path, policy: Path, scores: list[Path] | None = None, json: bool = False) -> None:
    """Write the policy of a checkpoint to a small file of its own, which is all that `aiocg search policy` needs.

    Example: aiocg rl export run.ckpt my.npz --scores csmith.json

    Args:
        policy: The file to write: .npz.
        scores: What `aiocg rl evaluate -o` wrote, to be kept in the file.
    """
    import msgspec

    check_writable(policy)
    _need_pytorch()
    from aiocg.rl.ppo import Learner

    learner, _ = Learner.load(checkpoint)
    learner.facts = msgspec.structs.replace(learner.facts, scores=_scores_in(scores or ()))
    content = learner.policy().to_bytes()
    write_file(policy, content)
    told = {"policy": str(policy), "bytes": len(content), "episodes": learner.policy().facts.episodes}
    answer(json, told, f"{policy} has {len(content):,} bytes: aiocg search policy PROGRAM --policy {policy}")
