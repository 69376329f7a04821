"""`aiocg explore`: serves the Explorer."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli._listening import LOCAL, listen, serve
from aiocg.cli._options import Flags, time_option
from aiocg.cli._search_job import is_expression
from aiocg.cli.output import fail, run, service_status

if TYPE_CHECKING:
    from fastapi import FastAPI


def explore(
    program: Annotated[str, typer.Argument()] = "",
    state: str | None = None,
    env: str = "llvm-ic-v0",
    host: str = "127.0.0.1",
    port: int = 8765,
    name: list[str] | None = None,
    token: str | None = None,
    sessions: int = 64,
    timeout: Annotated[float, time_option(least=0.001)] = 30.0,
    trust: bool = False,
    workers: int | None = None,
    browser: bool = True,
    flags: Flags = None,
) -> None:
    """Show on a page what passes do to a program: gains of all actions, a tree of states, differences, -Oz explained.

    The same address has an API, described at /openapi.json. Ctrl-C ends it.

    Example: aiocg explore --state best.json

    Args:
        program (default programs-v0/qsort, or the environment's own): Program to begin with: of a dataset, a .c, .cc,
            .cpp, .ll or .bc file, or a tensor expression.
        state (FILE[:LINE]): Begin at a saved state, with the states of a file of transitions, or at a state of a
            leaderboard's entry, whose folder this is. PROGRAM says which, if there are several.
        name: Another name by which browsers may call this machine.
        token ($AIOCG_EXPLORE_TOKEN): What visitors must have. Beyond this machine one is made if none is given.
        sessions (1..): Most sessions at once.
        timeout: Time that an action may take.
        trust: Let programs do what yours may; GCC without a container needs it.
        browser (--browser/--no-browser): Open the page in a browser.
    """
    from aiocg.web.limits import Limits

    local = host in LOCAL
    if trust and not local:
        fail(f"--trust would give the rights of your user to whoever can reach {host}: leave out --host, or --trust")
    listening = listen(host, port, name, token)
    app = _application(
        program,
        state,
        env,
        flags or [],
        limits=Limits(sessions=sessions, seconds=timeout, boxed_sources=not local),
        hosts=listening.hosts,
        token=listening.token,
        workers=workers,
        options={"untrusted": not trust},
    )
    address = f"{listening.address}/" + (f"?token={listening.token}" if listening.token else "")
    run(serve(app, listening, f"explorer at {address}", browser=address if browser else ""))
    sys.exit(service_status())


def _application(program: str, state: str | None, environment: str, flags: list[str], **options: Any) -> "FastAPI":
    from aiocg.datasets import default_datasets, resolve
    from aiocg.registry import environment as find
    from aiocg.web.explorer import create_explorer
    from aiocg.web.saved import Opening, find_opening

    spec = find(environment)  # errors come before anything is started
    try:
        opening = Opening(environment, program or spec.benchmark) if state is None else find_opening(state, program)
    except OSError as error:
        fail(f"cannot read {error.filename or state}: {error.strerror or error}")
    find(opening.environment)
    if isinstance(opening.benchmark, str) and is_expression(opening.benchmark):
        from aiocg.loops import make_benchmark

        benchmark = make_benchmark(opening.benchmark)
    else:
        benchmark = resolve(opening.benchmark, default_datasets(), flags)
    return create_explorer(replace(opening, benchmark=benchmark), **options)
