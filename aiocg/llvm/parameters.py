"""The session parameters of CompilerGym that change the program: here they are actions, and part of the trajectory."""

from typing import TYPE_CHECKING

from aiocg.errors import ParameterFailed
from aiocg.transport.messages import FailureCode

if TYPE_CHECKING:
    from aiocg.env.env import Env

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")


async def apply_baseline_optimizations(env: "Env", level: str) -> str:
    """Apply one of LLVM's own pipelines; return "1" if that changed the program, "0" if not.

    It is a step of its own, whose reward is added to the return of the episode.

    Raises:
        ParameterFailed: when there is no such level.
        ServiceError: when LLVM fails; the episode has then ended.
    """
    if level not in LEVELS:
        message = f"llvm.apply_baseline_optimizations takes {', '.join(LEVELS)}, not {level!r}"
        raise ParameterFailed(FailureCode.PARAMETER, message)
    _, _, info = await env.apply([f"default<{level[1:]}>"], observation_spaces=[])
    return "0" if info["action_had_no_effect"] else "1"
