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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli.options import command
from aiocg.cli.output import (
    answer,
    check_writable,
    console,
    counted,
    fail,
    interrupted,
    interrupted_status,
    interruptible,
    print_json,
    print_line,
    table,
    working,
    write_file,
)
from aiocg.cli.rl_job import (
    Choice,
    check_starts,
    imitate_from,
    need_pytorch,
    new_learner,
    prepared,
    progress_to,
    remarks_on,
    rows_of,
    run_of,
    scores_in,
    writer_to,
)

if TYPE_CHECKING:
    from aiocg.rl.ppo import Learner

app = typer.Typer(
    help=(
        "Reinforcement learning of phase orders: train a policy, judge it, export it for `aiocg search policy`.\n\n"
        "Example: aiocg rl train run.ckpt --episodes 2000 && aiocg rl export run.ckpt my.npz"
    ),
    no_args_is_help=True,
)


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
        tensorboard: Write the learning curve to this folder, for TensorBoard.
        wandb: Write it to this folder, for Weights & Biases: `wandb sync` sends it.
    """
    check_writable(checkpoint)
    check_writable(plot, ".png", ".svg")
    _check_resumption(checkpoint, resume)
    learner, stopped = None, False
    with interruptible(), working("rl train", "loading PyTorch", json=json) as show, contextlib.ExitStack() as stack:
        need_pytorch()
        writers = [] if tensorboard is None else [writer_to(tensorboard)]
        from aiocg.rl import PhaseOrdering, SyncRuntime
        from aiocg.rl.ppo import Learner, Settings
        from aiocg.rl.training import draw_curve
        from aiocg.rl.training import train as run

        show("starting workers")
        try:
            runtime = stack.enter_context(SyncRuntime(workers=workers))
            if wandb is not None:
                writers.append(stack.enter_context(run_of(wandb)))
            if resume:
                learner, more = Learner.load(checkpoint)
                choice = Choice(**more)
            else:
                choice = Choice(_absolute(programs or ("csmith-v0", "aiocg-v0")), count, first, largest)
                settings = Settings(episodes=episodes, batch=batch, rate=rate, entropy=entropy, seed=seed)
                learner = new_learner(runtime, actions, steps, tuple(start or ("O0", "OzMinsize")), choice, settings)
            ready = prepared(runtime, choice, learner.facts.starts, show, json=json, training=True)
            learner.know(one.uri for one in ready)
            ordering = stack.enter_context(
                PhaseOrdering(runtime, learner.facts.actions, num_envs=envs, steps=learner.facts.steps)
            )
            if imitate is not None and not resume:
                show(f"learning from {imitate}")
                imitate_from(imitate, learner, ordering, ready, json=json)
            progress = progress_to(learner.settings.episodes, writers, show, json=json)
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
    from aiocg.rl import PhaseOrdering, Policy, SyncRuntime, outliers, score, validated
    from aiocg.rl import evaluate as run

    check_writable(output)
    chosen = Policy.load(policy)
    if chosen.facts.parts == FUNCTION:
        fail(f"{policy} is for single functions: aiocg search policy PROGRAM --policy {policy}")
    starts = tuple(start or chosen.facts.starts)
    check_starts(starts)
    with working("rl evaluate", "starting workers", json=json) as show, SyncRuntime(workers=workers) as runtime:
        choice = Choice(tuple(programs or ("csmith-v0",)), count, first, largest)
        ready = prepared(runtime, choice, starts, show, json=json, training=False)
        show(f"episodes on {counted(len(ready), 'program')}")
        with PhaseOrdering(runtime, chosen.facts.actions, num_envs=envs, steps=chosen.facts.steps) as ordering:
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
    if json:
        print_json(found)
        return
    title = f"{policy} on {counted(len(results), 'program')}, {1000 * seconds:.0f} ms each"
    columns = ("from", "-Oz/found", "median", "stronger -Oz/found", "median", "larger")
    console.print(table(title, columns, rows_of(scores), right=(1, 2, 3, 4, 5), whole=(0, 2, 4, 5)))
    for line in remarks_on(results):
        print_line(line)


@command(app)
def export(
    checkpoint: Path,
    policy: Path,
    scores: list[Path] | None = None,
    json: bool = False,
) -> None:
    """Write the policy of a checkpoint to a small file of its own, which is all that `aiocg search policy` needs.

    Example: aiocg rl export run.ckpt my.npz --scores csmith.json

    Args:
        policy: The file to write: .npz.
        scores: What `aiocg rl evaluate -o` wrote, to be kept in the file.
    """
    import msgspec

    check_writable(policy)
    need_pytorch()
    from aiocg.rl.ppo import Learner

    learner, _ = Learner.load(checkpoint)
    learner.facts = msgspec.structs.replace(learner.facts, scores=scores_in(scores or ()))
    content = learner.policy().to_bytes()
    write_file(policy, content)
    told = {"policy": str(policy), "bytes": len(content), "episodes": learner.policy().facts.episodes}
    answer(json, told, f"{policy} has {len(content):,} bytes: aiocg search policy PROGRAM --policy {policy}")
