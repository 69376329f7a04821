"""Callbacks of channels."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

Arguments = ParamSpec("Arguments")


def guarded(callback: Callable[Arguments, None], channel: str) -> Callable[Arguments, None]:
    """Return a callback whose errors go to the loop's exception handler, so that they lose no later batch."""
    loop = asyncio.get_running_loop()

    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            callback(*arguments, **options)
        except Exception as error:
            loop.call_exception_handler({"message": f"callback of the channel {channel} failed", "exception": error})

    return call
