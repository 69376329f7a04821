"""Environment variables of `aiocg cc`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

SEARCHES = ("greedy", "random", "beam")


class DriverError(Exception):
    """A setting of `aiocg cc` that makes no sense."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to search for, and how long. There are no options: builds know how to set `CC`, and nothing else.

    Attributes:
        search: "greedy", "random" or "beam"; "O1" to "Oz"; a pipeline or other action text; the path of a state as
            JSON, whose actions are taken; or "none".
        reward: the reward space that a search maximises. If it is one of IR instructions these decide what is best,
            otherwise the bytes that the object brings into an image do.
        budget: seconds that a search may take for one file.
        report: the file to which the report is appended, standard error if "".
    """

    search: str = "greedy"
    reward: str = "ObjectImageSizeOz"
    budget: float = 10.0
    report: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read `AIOCG_CC_SEARCH`, `AIOCG_CC_REWARD`, `AIOCG_CC_BUDGET` and `AIOCG_CC_REPORT`.

        Raises:
            DriverError: when the budget is no positive number.
        """
        variables = {"search": "AIOCG_CC_SEARCH", "reward": "AIOCG_CC_REWARD", "report": "AIOCG_CC_REPORT"}
        chosen = {name: environment.get(variable, "") for name, variable in variables.items()}
        budget = environment.get("AIOCG_CC_BUDGET", "") or "10"
        try:
            seconds = float(budget)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise DriverError(f"AIOCG_CC_BUDGET is {budget!r}, expected a number of seconds greater than 0")
        return cls(budget=seconds, **{name: value for name, value in chosen.items() if value})

    @property
    def searches(self) -> bool:
        """Say whether passes are searched for, which takes its time, and not given."""
        return self.search in SEARCHES

    @property
    def counts_instructions(self) -> bool:
        """Say whether IR instructions decide, and not bytes."""
        return self.reward.startswith("IrInstructionCount")
