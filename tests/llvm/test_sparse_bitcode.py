"""Programs whose bitcode has more elements in an array than bytes, which LLVM's reader takes for damage."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.errors import ServiceError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import LlvmError, Module, _padded

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAMS = {
    "parameters": f"define i32 @f({', '.join(['i32'] * 3000)}) {{\n  %r = add i32 %0, %5\n  ret i32 %r\n}}\n",
    "table": f"@t = constant [9000 x ptr] [{', '.join(['ptr @f'] * 9000)}]\ndeclare void @f()\n",
    "fields": f"%s = type {{ {', '.join(['i32'] * 5000)} }}\ndefine void @f(ptr byval(%s) %0) {{\n  ret void\n}}\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_program_is_read_again_by_us_and_by_clang(make: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "x.ll").write_text(PROGRAMS[name])
    env = await make(tmp_path / "x.ll")
    for action in ("globalopt", "default<Oz>"):
        await env.step_texts([action])
        (tmp_path / "x.bc").write_bytes(await env.observe("Bitcode"))
        clang = [find_toolchain().clang, "-c", "-w", tmp_path / "x.bc", "-o", tmp_path / "x.o"]
        subprocess.run(clang, check=True, env={**os.environ, **loader_environment()})  # noqa: ASYNC221 - it is quick
    again = await make(tmp_path / "x.bc")
    assert again.state_hash == env.state_hash


@pytest.mark.parametrize("name", PROGRAMS)
async def test_padding_changes_no_program(name: str) -> None:
    library = Library.find(None)
    with Module.parse(library, PROGRAMS[name].encode()) as module:
        content, text = module.write_bitcode(), module.to_text()
    with Module.parse(library, _padded(content)) as module:
        assert module.to_text() == text
        assert not module.verify()


@pytest.mark.parametrize(
    "content", [b"", b"BC", b"BC\xc0\xde", b"BC\xc0\xde" + bytes(64), b"; text", b"\xde\xc0\x17\x0b" + bytes(40)]
)
async def test_what_is_no_bare_bitcode_is_left_as_it_is(content: bytes) -> None:
    assert _padded(content) is content


async def test_damaged_bitcode_is_refused_with_the_first_reason(make: Any, tmp_path: Path) -> None:
    library = Library.find(None)
    with Module.parse(library, PROGRAMS["table"].encode()) as module:
        content = module.write_bitcode()
    for size in range(4, len(content) - 4, 97):
        with pytest.raises(LlvmError):
            Module.parse(library, content[:size])
    (tmp_path / "x.bc").write_bytes(content[: len(content) // 2])
    with pytest.raises((BenchmarkInitError, ServiceError), match="does not accept this bitcode"):
        await make(tmp_path / "x.bc")
