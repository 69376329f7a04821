"""Submissions to falsify, and a compiler to find out with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import aiocg

from .forge import Forge


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.leaderboard._checks.calibration", lambda: 1.0)


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    """A submission with made-up costs, for what is found out without a compiler."""
    return Forge(tmp_path)


@pytest_asyncio.fixture(scope="session")
async def compiler() -> AsyncIterator[aiocg.Runtime]:
    """A runtime that tests share."""
    async with aiocg.Runtime(workers=2) as runtime:
        yield runtime
