"""Tokens as users get them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.llvm._lexed_ir import LexedToken, lex, tokens, unlex

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_both_forms_have_the_same_tokens(make: Callable[..., Any], program: str) -> None:
    env = await make(program)
    await env.step("mem2reg")
    columns, listed = await env.observe("LexedIr"), await env.observe("LexedIrTuple")
    for name, value in (("LexedIr", columns), ("LexedIrTuple", listed)):
        assert env.observation_spaces[name].space.contains(value)
    assert tokens(columns) == listed and {len(column) for column in columns.values()} == {len(listed)}
    first = LexedToken(id=63, kind="kw_source_filename", category="keyword", value="")
    assert listed[0] == first and listed[2].category == "strval"
    assert unlex(columns) == unlex(listed)


async def test_the_text_of_the_tokens_is_the_same_program(
    make: Callable[..., Any], tmp_path: Path, program: str
) -> None:
    env = await make(program)
    (tmp_path / "there.ll").write_text(await env.observe("Ir"))
    (tmp_path / "back.ll").write_text(unlex(await env.observe("LexedIr")))
    there, back = await make(tmp_path / "there.ll"), await make(tmp_path / "back.ll")  # text forgets orders of uses
    assert await back.observe("IrSha1") == await there.observe("IrSha1")


async def test_text_becomes_tokens_without_an_environment(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    listed = await env.observe("LexedIrTuple")
    assert lex(unlex(listed)) == listed


async def test_defaults_are_of_their_spaces(make: Callable[..., Any]) -> None:
    spaces = (await make()).observation_spaces
    for name in ("LexedIr", "LexedIrTuple", "Inst2vecPreprocessedText"):
        assert spaces[name].space.contains(spaces[name].default)
        assert spaces[name].space.contains(spaces[name].space.sample())
    assert spaces["LexedIr"].space["token_id"].high == 541
