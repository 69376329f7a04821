"""The rewards of the GCC environment."""

from aiocg.spaces.rewards import CostReward, Reward, RuntimeReward

_COSTS = (
    ("asm_size", "the bytes of assembly"),
    ("obj_size", "the bytes of the object file"),
    ("obj_image_size", "the bytes that the object file brings into an image"),
    ("obj_text_size", "the bytes of code and read-only data in the object file"),
)
_LEVELS = ("Os", "Oz", "O2", "O3")


def gcc_rewards() -> list[Reward]:
    """Return the rewards: each cost's decrease in bytes, and relative to what a level saves; and the runtime's."""
    rewards: list[Reward] = []
    for cost, what in _COSTS:
        rewards.append(CostReward(cost, cost, platform_dependent=True, description=f"decrease of {what}"))
        for level in _LEVELS:
            rewards.append(
                CostReward(
                    f"{cost}_{level}",
                    cost,
                    unoptimised=f"{cost}_O0",
                    optimised=f"{cost}_{level}",
                    platform_dependent=True,
                    description=f"decrease of {what}; 1 is what -{level} saves, or one byte where it saves none",
                )
            )
    return [*rewards, RuntimeReward(space="runtime")]
