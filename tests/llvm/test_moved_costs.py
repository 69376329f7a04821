"""Costs that are lowered by moving them somewhere else, and the numbers that show it."""

from pathlib import Path

import pytest

import aiocg
from aiocg import search
from aiocg.search.metrics import Comparison

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = """void sevenths(int *restrict to, const int *restrict from) {
  to[0] = from[0] / 7, to[1] = from[1] / 7, to[2] = from[2] / 7, to[3] = from[3] / 7;
}
"""
TABLE = """int look(int n) {
  int table[64];
  for (int i = 0; i < 64; i++) table[i] = i * i * 7 + 3;
  return table[n & 63];
}
"""
CLEANED = ("sroa", "simplifycfg", "instcombine")


async def _at(runtime: aiocg.Runtime, path: Path, text: str, *actions: str) -> Comparison:
    """Compare the program after some actions in instructions, with the bytes beside them."""
    path.write_text(text)
    async with await runtime.make("llvm-ic-v0", benchmark=path) as env:
        await env.reset()
        comparison = await search.compare(env, actions)
    assert comparison is not None and comparison.beside is not None
    return comparison


async def test_one_wide_instruction_is_many_bytes(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    narrow = await _at(runtime, tmp_path / "wide.c", WIDE, *CLEANED)
    wide = await _at(runtime, tmp_path / "wide.c", WIDE, *CLEANED, "slp-vectorizer")
    assert wide.found * 3 < narrow.found and wide.found <= wide.baselines["Oz"], "it wins by instructions"
    assert narrow.beside is not None and wide.beside is not None and wide.beside.found > narrow.beside.found
    beside = wide.to_dict()["beside"]
    assert beside["cost"] == "ObjectImageSizeMinsizeBytes" and beside["found"] == wide.beside.found


async def test_constants_of_vectors_are_bytes_and_no_instructions(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    found = await _at(runtime, tmp_path / "table.c", TABLE, "default<O3>")
    assert found.found <= found.baselines["Oz"], "it is as good by instructions"
    assert found.beside is not None and found.beside.found > 1.5 * found.beside.baselines["OzMinsize"]


async def test_bytes_have_nothing_beside_them(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("llvm-codesize-v0", benchmark="programs-v0/gcd") as env:
        await env.reset()
        comparison = await search.compare(env)
    assert comparison is not None and comparison.beside is None and comparison.to_dict()["beside"] is None
