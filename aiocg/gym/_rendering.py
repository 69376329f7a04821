"""Rendering an environment: a status line and the default observation."""

import re
from typing import TYPE_CHECKING

from aiocg.env.step import StepResult
from aiocg.errors import UnknownName

if TYPE_CHECKING:
    from aiocg.env.env import Env

_LONGEST = 100  # characters of an action

RENDER_MODES = ("human", "ansi")


class UnknownRenderMode(UnknownName, TypeError):
    """A render mode that there is not.

    A TypeError, too, as after that Stable-Baselines3's `make_vec_env`, which tries "rgb_array", goes on without one.
    """

    def __init__(self, mode: str) -> None:
        again = re.match(r"unknown render mode '(.*?)'; ", mode)  # `gymnasium.make` makes errors anew from their text
        super().__init__("render mode", again[1] if again else mode, RENDER_MODES)


def check_render_mode(mode: str | None) -> None:
    """Raise UnknownRenderMode for an unknown render mode; None is allowed."""
    if mode is not None and mode not in RENDER_MODES:
        raise UnknownRenderMode(mode)


def describe(env: "Env", last: StepResult | None) -> str:
    """Return text on the program, the actions so far, the rewards, and the last default observation.

    Args:
        last: result of its last reset or step, None before the first.
    """
    if last is None:
        return f"{env.spec.id}  {env.benchmark.uri}  not reset yet"
    observation, reward, terminated, _, info = last
    texts = env.action_texts
    parts = [env.spec.id, str(env.benchmark.uri), f"{len(texts)} action{'' if len(texts) == 1 else 's'}"]
    if texts:
        last_text = texts[-1] if len(texts[-1]) <= _LONGEST else f"{texts[-1][:_LONGEST]}…"
        parts.append(f"last {last_text}")
    if env.reward_space is not None:
        total = env.episode_reward or 0.0
        earned = f"{reward:+.4f}" if isinstance(reward, float) else str(reward)  # a list, if one was asked for
        parts.append(f"{env.reward_space} {earned}, in all {total:.4f}")
    if terminated:
        parts.append(f"ended: {info.get('error_details', 'no more actions')}")
    line = "  ".join(parts)
    return line if observation is None else f"{line}\n{observation}"
