"""The environments of LLVM's decisions: inlining, eviction from registers, and the order of register allocation."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aiocg.llvm.environments import worker_options
from aiocg.registry import environment, register

if TYPE_CHECKING:
    from aiocg.spaces.rewards import Reward


def _options(decision: str) -> Callable[[Mapping[str, str]], Mapping[str, Any]]:
    def options(settings: Mapping[str, str]) -> Mapping[str, Any]:
        return {**worker_options(settings), "decision": decision, "level": settings["level"]}

    return options


def _rewards() -> "list[Reward]":
    from aiocg.spaces.rewards import CostReward

    return [
        CostReward(cost, cost, description=f"how many {what} fewer")
        for cost, what in (
            ("ObjectImageSizeBytes", "bytes in the image"),
            ("ProjectedImageSizeBytes", "bytes in the image"),
            ("ObjectTextSizeBytes", "bytes of code and read-only data"),
            ("IrInstructionCount", "IR instructions"),
            ("SpillCost", "weighted spills and reloads"),
        )
    ]


for decision, level, reward, description in (
    ("inline", "Oz", "ObjectImageSizeBytes", "LLVM asks at each call whether to inline it"),
    ("evict", "O2", "SpillCost", "LLVM asks which live interval leaves its register"),
    ("priority", "O2", "SpillCost", "LLVM asks when a live interval gets its turn in register allocation"),
):
    register(
        dataclasses.replace(
            environment("llvm-v0"),
            id=f"llvm-{decision}-v0",
            worker=f"llvm_{decision}",
            description=description,
            observation_space="Features",
            reward_space=reward,
            rewards=_rewards,
            options=_options(decision),
            derived=list,
            notation=None,
            settings={"llvm": "", "level": level},
            parameters={},
            forked=False,
            finished="Finished",
        )
    )
