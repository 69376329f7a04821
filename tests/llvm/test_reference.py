"""The reference pages name everything that there is."""

import re
from pathlib import Path

import pytest

import aiocg

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCS = Path(__file__).resolve().parents[2] / "docs"


async def test_every_observation_and_reward_is_explained(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    named = set(re.findall(r"`(\w+)`", (DOCS / "observations.md").read_text()))
    assert set(env.observation_spaces) - named == set()
    assert set(env.reward_spaces) - named == set()


async def test_every_action_space_is_explained(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    named = set(re.findall(r"`(\w+)`", (DOCS / "actions.md").read_text()))
    assert set(env.action_spaces) - named == set()
