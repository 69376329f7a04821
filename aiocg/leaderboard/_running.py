"""Makes a submission: runs a search on all programs of a track, within its budget."""

import contextlib
import functools
import importlib
import inspect
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import aiocg
from aiocg import search as searches
from aiocg.leaderboard._problems import Kind, Refused
from aiocg.leaderboard._submission import ABOUT, COLUMNS, RESULTS, About, Row, Submission, write_row
from aiocg.leaderboard._track import Track
from aiocg.policies import Policy, PolicyError
from aiocg.search import Budget
from aiocg.search.baselines import baselines
from aiocg.search.priors import DEFAULT
from aiocg.states.state import CompilerEnvState

if TYPE_CHECKING:
    from aiocg import Env

POLICY = "policy"  # the search by one
TRIES = 4  # of a search that takes too long

Search = Callable[..., Awaitable[Any]]
"""An async function of an environment, with `budget` and `seed` where it takes them; it returns a result of
`aiocg.search`, or the texts of actions."""


def find_search(name: str) -> Search:
    """Return a search.

    Args:
        name: that of one in `aiocg.search`; `level:Oz` for a level of the compiler; `policy:functions` for the search
            by a policy, of which the name or the file is given; or `module:function`, where the module may lie in the
            working directory.

    Raises:
        Refused: when there is none.
    """
    module, _, function = name.partition(":")
    if module == "level":
        return functools.partial(_level, function)
    if module == POLICY and function:
        return functools.partial(searches.policy, policy=_policy(function), run=False)
    if not function:
        found = getattr(searches, name, None) if name in searches.__all__ else None
        if not inspect.iscoroutinefunction(found):
            raise Refused(Kind.FORMAT, f"aiocg.search has no search {name}; those of your own are `module:function`")
        checks = inspect.signature(found).parameters.keys() & {"run", "options"}
        return functools.partial(found, run=False) if checks else found  # what it finds is run when it is added
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise Refused(Kind.FORMAT, f"there is no {name}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())


def training_of(name: str) -> tuple[str, ...]:
    """Return the URIs of what a search was trained on, as far as it says so: of a policy, what its file has.

    Raises:
        Refused: when there is no such policy.
    """
    module, _, policy = name.partition(":")
    return _policy(policy or DEFAULT).facts.uris if module == POLICY else ()


def _policy(name: str) -> Policy:
    try:
        return Policy.load(name)
    except PolicyError as error:
        raise Refused(Kind.FORMAT, str(error)) from error


async def run_search(
    search: Search, track: Track, about: About, folder: Path, tell: Callable[[int, int, Row], object]
) -> None:
    """Run a search on all programs, first those that are known and then the hidden ones, and write each row at once.

    What the folder has already is not done again, if it was made with the same search and track. Each run has workers
    of its own, which remember nothing of earlier ones, and no more cores than the track allows.

    Args:
        search: the search.
        track: what is searched, and for how long.
        about: what is said of the submission.
        folder: of the submission.
        tell: called after each row with its number, the number of all, and the row.

    Raises:
        Refused: when the folder has another submission, or this machine another compiler.
    """
    track.check_compiler()
    known = begin(about, track, folder)
    hidden = track.hidden.programs if track.hidden is not None else 0
    total, done = (len(track.programs) + hidden) * about.seeds, 0
    with _cores(track.budget.cores):
        for are_hidden in (False, True):
            part: Iterable[str] = track.programs
            if are_hidden:
                part = track.hidden_programs(Submission(folder).digest(track, list(known.values())))
            for uri in part:
                for seed in range(about.seeds):
                    if (uri, seed) not in known:
                        row = known[uri, seed] = await _in_time(search, track, uri, seed)
                        with (folder / RESULTS).open("a", newline="", encoding="utf-8") as file:
                            file.write(f"{write_row(row)}\n")
                    done += 1
                    tell(done, total, known[uri, seed])


def begin(about: About, track: Track, folder: Path) -> dict[tuple[str, int], Row]:
    """Make the folder, or go on with it: return the rows that it has, without one that was cut off.

    Rows that took too long are dropped, and those of hidden programs that follow from other results.

    Raises:
        Refused: when it has another submission.
    """
    try:
        msgspec.convert(msgspec.to_builtins(about), About)
    except msgspec.ValidationError as error:
        raise Refused(Kind.FORMAT, f"this is no submission: {error}") from None
    folder.mkdir(parents=True, exist_ok=True)
    results, header = folder / RESULTS, ",".join(COLUMNS) + "\n"
    if (folder / ABOUT).exists():
        said = Submission(folder).about
        for name in ("search", "track_sha256", "seeds"):
            if getattr(said, name) != getattr(about, name):
                detail = f"{folder} is of another {name}: {getattr(said, name)}, not {getattr(about, name)}"
                raise Refused(Kind.FORMAT, detail)
    else:
        (folder / ABOUT).write_text(about.to_toml(), encoding="utf-8")
    if not results.exists():
        results.write_text(header, encoding="utf-8")
    content = results.read_bytes()
    results.write_bytes(content[: content.rfind(b"\n") + 1] or header.encode())
    submission = Submission(folder)
    rows = {row.key: row for row in submission.rows(track)}
    hidden = track.hidden_programs(submission.digest(track, list(rows.values())))
    kept = {*track.programs, *hidden}
    rows = {key: row for key, row in rows.items() if key[0] in kept and row.state.walltime <= track.budget.limit}
    results.write_text(header + "".join(f"{write_row(row)}\n" for row in rows.values()), encoding="utf-8")
    return rows


async def _in_time(search: Search, track: Track, uri: str, seed: int) -> Row:
    """Run a search, again where something else on the machine has made it take longer than the track allows.

    Raises:
        Refused: when it takes longer each time.
    """
    for _ in range(TRIES):
        row = await _run(search, track, uri, seed)
        if row.state.walltime <= track.budget.limit:
            return row
    detail = f"{uri} took {row.state.walltime:.1f} s, and {track.budget.limit:g} s are allowed: is the machine busy?"
    raise Refused(Kind.BUDGET, detail)


async def _run(search: Search, track: Track, uri: str, seed: int) -> Row:
    async with aiocg.Runtime(workers=track.budget.cores) as runtime:
        env = await runtime.make(track.environment, benchmark=uri, reward_space=track.reward)
        async with env:
            await env.reset()
            parameters = inspect.signature(search).parameters
            takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
            options: dict[str, Any] = {"seed": seed} if "seed" in parameters else {}
            if "budget" in parameters or takes_all:
                options["budget"] = Budget(track.budget.seconds)
            started = time.monotonic()
            found = await search(env, **options)
            seconds = time.monotonic() - started
            actions: tuple[str, ...] = tuple(found.actions if hasattr(found, "actions") else found)
            await env.reset()
            if actions:
                await env.apply(actions)
            state = CompilerEnvState(
                environment=track.environment,
                benchmark=uri,
                actions=actions,
                reward_space=track.reward,
                reward=env.episode_reward or 0.0,
                walltime=round(seconds, 4),
            )
    return Row(state, seed)


async def _level(name: str, env: "Env") -> tuple[str, ...]:
    """Apply a level of the compiler."""
    known = baselines(env)
    if name not in known:
        raise Refused(Kind.FORMAT, f"{env.spec.id} has the levels {', '.join(known)}, not {name}")
    await env.apply(known[name])
    return known[name]


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """Let this process, and workers that it starts, use so many cores."""
    if not hasattr(os, "sched_setaffinity"):
        raise Refused(Kind.BUDGET, f"the track is for {count} cores, to which only Linux can keep a search")
    before = os.sched_getaffinity(0)
    if len(before) < count:
        raise Refused(Kind.BUDGET, f"the track is for {count} cores, and there are {len(before)}")
    os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
