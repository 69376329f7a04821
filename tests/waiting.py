"""Waiting for what happens meanwhile, such as the end of a process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def is_alive(pid: int) -> bool:
    """Is there a process that is not a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


async def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until a condition holds; fails when it does not within a generous time."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"still not so after {seconds} s")
