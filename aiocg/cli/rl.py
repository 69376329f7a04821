"""`aiocg rl`: train policies for phase ordering, judge them, and make files of them."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli.output import (
    Json, Workers, answer, check_writable, console, counted, fail, print_json, print_line, table, write_file,
)  # fmt: skip

if TYPE_CHECKING:
    from aiocg.gym.runtime import SyncRuntime
    from aiocg.rl import Program, Scores
    from aiocg.rl.ppo import Learner

app = typer.Typer(
    help=(
        "Reinforcement learning of phase orders: train a policy, judge it, export it for `aiocg search policy`.\n\n"
        "Example: aiocg rl train run.ckpt --episodes 2000 && aiocg rl export run.ckpt my.npz"
    ),
    no_args_is_help=True,
)

Checkpoint = Annotated[Path, typer.Argument(help="The checkpoint.", show_default=False)]
Programs = Annotated[
    list[str], typer.Option("--programs", help="A dataset or a program; may be given several times.", metavar="NAME")
]
Count = Annotated[int, typer.Option(help="Programs in all.", min=1)]
First = Annotated[int, typer.Option(help="Place of the first program of each dataset, such as its seed.", min=0)]
Environments = Annotated[int, typer.Option("--envs", help="Environments side by side.", min=1)]
Largest = Annotated[int, typer.Option(help="Instructions of a program, at most; larger ones are left out.", min=1)]
SOURCES = ["csmith-v0", "aiocg-v0"]


@app.command()
def train(
    checkpoint: Annotated[Path, typer.Argument(help="The file that training is kept in.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, with what it was made with.")] = False,
    programs: Programs = SOURCES,
    count: Count = 300,
    first: First = 100,
    largest: Largest = 5000,
    episodes: Annotated[int, typer.Option(help="Episodes in all.", min=1)] = 20_000,
    steps: Annotated[int, typer.Option(help="Steps of an episode, at most.", min=1)] = 45,
    start: Annotated[list[str], typer.Option(help="What episodes begin with: O0, OzMinsize or both.")] = ["O0", "OzMinsize"],  # noqa: B006
    actions: Annotated[
        Path | None, typer.Option(help="A file with the text of an action a line.", show_default="ours")
    ] = None,
    imitate: Annotated[
        Path | None,
        typer.Option(help="A file of transitions, such as of searches: learn to do what led furthest there before."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Episodes of an update.", min=1)] = 128,
    rate: Annotated[float, typer.Option(help="Learning rate at first.", min=0)] = 5e-4,
    entropy: Annotated[float, typer.Option(help="Weight of the entropy.", min=0)] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    envs: Environments = 64,
    workers: Workers = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the learning curve: .png or .svg.")] = None,
    json: Json = False,
) -> None:
    """Train a policy by proximal policy optimisation. Ctrl-C keeps what was learned, for --resume.

    The same seed and arguments make the same policy, whatever --envs and --workers. Needs PyTorch: pip install
    'aiocg\\[rl]'.

    Example: aiocg rl train run.ckpt --programs csmith-v0 --episodes 2000 --plot curve.png
    """
    check_writable(checkpoint)
    check_writable(plot)
    if checkpoint.exists() and not resume:
        fail(f"{checkpoint} exists: go on with --resume, or name another file")
    if resume and not checkpoint.exists():
        fail(f"there is no checkpoint {checkpoint} to go on from")
    try:
        from aiocg.rl.ppo import Learner, Settings
        from aiocg.rl.training import plot as draw
        from aiocg.rl.training import train as run
    except ImportError as error:
        fail(str(error))
    from aiocg.gym.runtime import SyncRuntime
    from aiocg.rl import PhaseOrdering

    began, interrupted = time.monotonic(), False
    with SyncRuntime(workers=workers) as runtime:
        if resume:
            learner, more = Learner.load(checkpoint)
        else:
            more = {"programs": programs, "count": count, "first": first, "largest": largest}
            settings = Settings(episodes=episodes, batch=batch, rate=rate, entropy=entropy, seed=seed)
            learner = _new_learner(runtime, actions, steps, start, more, settings)
        ready = _prepared(runtime, more, learner.facts.starts, json=json, training=True)
        learner = _with_programs(learner, ready, resume=resume)
        with PhaseOrdering(runtime, learner.facts.actions, num_envs=envs, steps=learner.facts.steps) as ordering:
            if imitate is not None and not resume:
                _imitate(learner, ordering, ready, imitate, json=json)
            try:
                run(
                    ordering, learner, ready, checkpoint=checkpoint, more=more,
                    progress=lambda told: None if json else print_line(_line(told, learner, began)),
                )  # fmt: skip
            except KeyboardInterrupt:
                interrupted = True
    if plot is not None and learner.curve:
        draw(learner.curve, plot)
    last = learner.curve[-1] if learner.curve else {}
    if interrupted:
        text = f"interrupted; {checkpoint} has {counted(learner.update, 'update')}: go on with --resume"
        answer(json, {"error": text, "checkpoint": str(checkpoint), **last}, text)
        sys.exit(130)
    answer(json, {"checkpoint": str(checkpoint), **last}, f"{checkpoint} is trained: aiocg rl export {checkpoint} my.npz")


@app.command()
def evaluate(
    policy: Annotated[str, typer.Argument(help="A policy's file, or the name of one that comes along.")],
    programs: Programs = ["csmith-v0"],  # noqa: B006
    count: Count = 50,
    first: First = 0,
    largest: Largest = 1_000_000,
    start: Annotated[
        list[str] | None, typer.Option(help="What episodes begin with.", show_default="as it was trained")
    ] = None,
    envs: Environments = 16,
    workers: Workers = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write all results as JSON.")] = None,
    json: Json = False,
) -> None:
    """Follow a policy's preferred actions once on each program, and compare with -Oz, as it is and marked minsize.

    "with fallback" takes the least of all starts and both baselines, as `aiocg search policy` does; the other rows are
    what the policy comes to by itself. Intervals are of 2,000 bootstrap samples of programs.

    Example: aiocg rl evaluate my.npz --programs programs-v0 --count 100
    """
    import msgspec

    from aiocg.gym.runtime import SyncRuntime
    from aiocg.rl import STARTS, PhaseOrdering, Policy, score
    from aiocg.rl import evaluate as run

    check_writable(output)
    chosen = Policy.load(policy)
    starts = tuple(start or chosen.facts.starts)
    _check_starts(starts, STARTS)
    with SyncRuntime(workers=workers) as runtime:
        more = {"programs": programs, "count": count, "first": first, "largest": largest}
        ready = _prepared(runtime, more, starts, json=json, training=False)
        with PhaseOrdering(runtime, chosen.facts.actions, num_envs=envs, steps=chosen.facts.steps) as ordering:
            began = time.perf_counter()
            results = run(ordering, chosen, ready, starts)
            seconds = time.perf_counter() - began
    scores = score(results)
    found = {
        "policy": policy,
        "programs": [one.uri for one in results],
        "seconds_per_program": seconds / len(results),
        "scores": [one.as_json() for one in scores],
    }
    if output is not None:
        write_file(output, msgspec.json.encode({**found, "results": results}) + b"\n")
    if json:
        print_json(found)
        return
    rows = [_row(one) for one in scores]
    title = f"{policy} on {counted(len(results), 'program')}, {1000 * seconds / len(results):.0f} ms each"
    console.print(table(title, ("what", "against", "times smaller", "95 %", "saved", "larger"), rows, right=(2, 3, 4, 5)))


@app.command()
def export(
    checkpoint: Checkpoint,
    policy: Annotated[Path, typer.Argument(help="The file to write: .npz.", show_default=False)],
    scores: Annotated[
        list[Path] | None, typer.Option(help="What `aiocg rl evaluate -o` wrote, to be kept in the file.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the policy of a checkpoint to a file of its own, which needs neither PyTorch nor the checkpoint.

    Example: aiocg rl export run.ckpt my.npz --scores csmith.json
    """
    import msgspec

    check_writable(policy)
    try:
        from aiocg.rl.ppo import Learner
    except ImportError as error:
        fail(str(error))
    learner, _ = Learner.load(checkpoint)
    learner.facts = msgspec.structs.replace(learner.facts, scores=_scores(scores or ()))
    content = learner.policy().to_bytes()
    write_file(policy, content)
    told = {"policy": str(policy), "bytes": len(content), "episodes": learner.policy().facts.episodes}
    answer(json, told, f"{policy} has {len(content):,} bytes: aiocg search policy --policy {policy} PROGRAM")


# ----------------------------------------------------------------------------------------------------------- helpers


def _prepared(
    runtime: "SyncRuntime", more: dict[str, Any], starts: Sequence[str], *, json: bool, training: bool
) -> "list[Program]":
    """Return the programs that were asked for, ready to be used."""
    from aiocg.rl.programs import check_training, find_programs, prepare_programs

    benchmarks = list(find_programs(runtime.runtime, more["programs"], more["count"], more["first"]))
    if training:
        check_training(str(one.uri) for one in benchmarks)
    shown = console.is_terminal and not json

    def progress(kept: int, left_out: int) -> None:
        if shown:
            console.print(f"programs: {kept} of {len(benchmarks)} ready, {left_out} left out", end="\r")

    ready = runtime.run(
        lambda: prepare_programs(
            runtime.runtime, benchmarks, starts=starts, largest=more["largest"], progress=progress
        )
    )
    if not ready:
        fail(f"none of {counted(len(benchmarks), 'program')} can be used: they do not load, or have too many instructions")
    if not json:
        print_line(f"{counted(len(ready), 'program')} of {', '.join(more['programs'])}; {len(benchmarks) - len(ready)} left out")
    return ready


def _check_starts(starts: Sequence[str], known: Any) -> None:
    for start in starts:
        if start not in known:
            fail(f"episodes begin with {' or '.join(known)}, not with {start!r}")


def _new_learner(
    runtime: "SyncRuntime", actions: Path | None, steps: int, starts: Sequence[str], more: dict[str, Any], settings: Any
) -> "Learner":
    from aiocg.policies import Features, PolicyFacts
    from aiocg.rl.ppo import Learner
    from aiocg.rl.programs import STARTS, default_actions

    _check_starts(starts, STARTS)
    texts = default_actions() if actions is None else tuple(filter(None, actions.read_text("utf-8").splitlines()))
    if len(texts) != len(set(texts)) or not texts:
        fail(f"{actions} must have different actions, one a line")
    facts = PolicyFacts(
        compiler=runtime.run(lambda: _compiler(runtime)), actions=texts, steps=steps, starts=tuple(dict.fromkeys(starts)),
        sources=tuple(more["programs"]), seed=settings.seed,
    )  # fmt: skip
    return Learner(facts, settings, Features(len(texts)).size)


async def _compiler(runtime: "SyncRuntime") -> str:
    env = await runtime.runtime.make("llvm-v0")
    try:
        return env.compiler_version
    finally:
        await env.close()


def _with_programs(learner: "Learner", programs: "Sequence[Program]", *, resume: bool) -> "Learner":
    """Write the programs into the facts, or check that they are the ones that are there."""
    import msgspec

    from aiocg.rl.programs import hash_of

    found = hash_of(one.uri for one in programs)
    if resume and found != learner.facts.programs_hash:
        fail("the programs are not those that the checkpoint was made with: some load here that did not there, or not")
    learner.facts = msgspec.structs.replace(learner.facts, programs=len(programs), programs_hash=found)
    return learner


def _imitate(learner: "Learner", envs: Any, programs: "Sequence[Program]", path: Path, *, json: bool) -> None:
    """Learn from demonstrations on the programs at hand."""
    from aiocg.rl.cloning import demonstrations, numbers_of
    from aiocg.rl.vector import Plan, collect

    known = {one.uri: one for one in programs}
    plans = []
    for one in demonstrations(path, learner.facts.actions):
        start, numbers = numbers_of(one.actions, learner.facts.actions)
        if one.uri in known and start in known[one.uri].starts and numbers:
            plans.append(Plan(known[one.uri], start, actions=numbers))
    if not plans:
        fail(f"{path} has none of the programs that are trained on: search them with --log first")
    loss = learner.imitate(collect(envs, None, plans))
    if not json:
        print_line(f"imitated {counted(len(plans), 'demonstration')}; cross entropy {loss:.3f}")


def _line(told: dict[str, float], learner: "Learner", began: float) -> str:
    ratios = "  ".join(f"{key.removeprefix('ratio_')} {value:.4f}" for key, value in told.items() if key.startswith("ratio"))
    done = f"{told['episodes']:,}/{learner.settings.episodes:,} episodes"
    rate = told["steps"] / told["seconds"]
    return f"{time.monotonic() - began:6.0f} s  {done}  {ratios}  {rate:,.0f} steps/s  entropy {told['entropy']:.2f}"


def _row(one: "Scores") -> tuple[str, ...]:
    names = {"oz": "-Oz", "oz_minsize": "-Oz, minsize"}
    interval = f"{one.ratio.low:.4f} to {one.ratio.high:.4f}"
    return (one.what, names[one.baseline], f"{one.ratio.mean:.4f}", interval, f"{one.units:.3f}", f"{100 * one.worse:.0f} %")


def _scores(paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return the figures of results, by the programs that they are of."""
    import msgspec

    found: dict[str, dict[str, float]] = {}
    for path in paths:
        try:
            told = msgspec.json.decode(path.read_bytes())
            sets = sorted({uri.partition("://")[2].partition("/")[0] for uri in told["programs"]})
            name = f"{len(told['programs'])} of {', '.join(sets)}"
            found[name] = {f"{one['what']}, against {one['baseline']}": one["ratio"]["mean"] for one in told["scores"]}
        except (OSError, KeyError, TypeError, msgspec.MsgspecError):
            fail(f"{path} is not what `aiocg rl evaluate -o` writes")
    return found
