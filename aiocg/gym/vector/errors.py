"""What can be done wrong with many environments at once; Gymnasium's errors for the same are among the bases."""

from collections.abc import Sequence

import gymnasium.error

from aiocg.errors import AiocgError

__all__ = ["EnvsBusy", "NothingPending"]

SHOWN = 8  # environments named in a message


class EnvsBusy(AiocgError, gymnasium.error.AlreadyPendingCallError):
    """Environments were given something to do whose last result nobody has received yet.

    Attributes:
        env_ids: their indices.
    """

    def __init__(self, env_ids: Sequence[int]) -> None:
        self.env_ids = tuple(env_ids)
        shown = ", ".join(map(str, self.env_ids[:SHOWN]))
        more = f" and {len(self.env_ids) - SHOWN} more" if len(self.env_ids) > SHOWN else ""
        noun = "environments" if len(self.env_ids) > 1 else "environment"
        message = (
            f"{noun} {shown}{more}: nobody has received the result of what was sent before; "
            "recv() it first, or reset(), which drops it"
        )
        gymnasium.error.AlreadyPendingCallError.__init__(self, message, "send")


class NothingPending(AiocgError, gymnasium.error.NoAsyncCallError):
    """There is nothing to be received: nothing was sent, or all results are in."""

    def __init__(self) -> None:
        message = "there is nothing to be received: send() actions first"
        gymnasium.error.NoAsyncCallError.__init__(self, message, "recv")
