"""The two routes of CompilerGym's `www`, for its front end. Nothing is kept between calls, as there."""

from itertools import islice
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.host.threads import in_thread
from aiocg.web.limits import Refusal
from aiocg.web.lookup import sessions_of
from aiocg.web.programs import named, plain

__all__ = ["router"]

router = APIRouter(prefix="/api/v4")
ENVIRONMENT, ACTIONS = "llvm-v0", "PassesLegacy124"
COUNTS = ["InstCountDict", "AutophaseDict"]
LISTED = 10  # programs of a dataset
LINES, COLUMNS = 1024, 250  # of the program's text


@router.get("/describe")
async def describe(request: Request) -> dict[str, Any]:
    """List programs, actions with their numbers, and rewards."""
    runtime = sessions_of(request).runtime
    async with await runtime.make(ENVIRONMENT, action_space=ACTIONS) as env:
        actions = {name: number for number, name in enumerate(env.action_space.names)}
        rewards = sorted(env.reward_spaces)
        kind = env.spec.kind

    def programs() -> dict[str, list[str]]:
        known = runtime.datasets.datasets(installed_only=True, kind=kind)
        found = {one.name: list(islice(one.benchmark_uris(), LISTED)) for one in known if one.size}
        return {f"{uris[0].scheme}://{name}": [uri.path for uri in uris] for name, uris in found.items() if uris}

    return {"benchmarks": await in_thread(programs), "actions": actions, "rewards": rewards}


@router.get("/step")
async def step(
    request: Request, benchmark: str = "", reward: str = "", actions: str = "", all_states: str = "0"
) -> JSONResponse:
    """Apply actions, given by their numbers with commas between, to a program; describe the last state, or all."""
    sessions = sessions_of(request)
    try:
        if not benchmark or not reward:
            raise Refusal(400, "name a `benchmark` and a `reward`")
        numbers = [int(number) for number in actions.split(",") if number]
        if len(numbers) > sessions.limits.actions:
            raise Refusal(400, f"there are {len(numbers)} actions, more than {sessions.limits.actions}")
        async with await sessions.runtime.make(
            ENVIRONMENT, benchmark=named(benchmark), reward_space=reward, action_space=ACTIONS
        ) as env:
            env.timeout = sessions.limits.seconds
            return JSONResponse(await _visited(env, numbers, reward, every=all_states == "1"))
    except (AiocgError, DatasetError, Refusal, ValueError, IndexError) as error:
        return JSONResponse({"error": str(error)}, 400)


async def _visited(env: Env, numbers: list[int], reward: str, *, every: bool) -> dict[str, Any]:
    env.observation_space = None
    await env.reset()
    steps = [[], *([number] for number in numbers)] if every else [numbers]
    states, terminated = [], False
    for step in steps:
        texts = [env.action_space.text(number) for number in step]
        values, rewards, terminated, _, info = await env.step_texts(
            texts, observation_spaces=COUNTS, reward_spaces=[reward]
        )
        if terminated:
            raise info["error"]
        states.append({"instcount": plain(values[0]), "autophase": plain(values[1]), "reward": float(rewards[0])})
    lines = str(await env.observe("Ir")).split("\n")
    text = "\n".join(line if len(line) <= COLUMNS else f"{line[: COLUMNS - 3]}..." for line in lines[:LINES])
    return {"commandline": env.commandline(), "done": terminated, "ir": text, "states": states}
