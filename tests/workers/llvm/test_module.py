"""Modules in memory: reading, writing, verifying, running passes, and being closed."""

import base64
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Context, LlvmError, Module, TargetMachine

Compile = Callable[..., bytes]
GOLDEN = Path(__file__).parents[2] / "compat" / "goldens" / "crc32.json.xz"


def test_bitcode_survives_reading_and_writing(library: Library, compile_program: Compile) -> None:
    with Module.parse(library, compile_program("calculator.c")) as module:
        text = module.to_text()
        content = module.write_bitcode()
    with Module.parse(library, content) as again:
        assert again.to_text() == text
        assert again.write_bitcode() == content


def test_declarations_that_only_llvms_upgrade_of_old_bitcode_makes_are_dropped(library: Library) -> None:
    old = json.loads(lzma.decompress(GOLDEN.read_bytes()))[0]  # LLVM 10's, with fifteen functions
    with Module.parse(library, base64.b64decode(old["bitcode"])) as module:
        names = [module.name_of(function) for function in module.listed("Function")]
    assert len(names) == 15
    assert [name for name in names if "lifetime" in name] == ["llvm.lifetime.start.p0", "llvm.lifetime.end.p0"]


def test_names_of_values_are_kept(library: Library, simple: bytes) -> None:
    with Module.parse(library, simple) as module, Module.parse(library, module.write_bitcode()) as again:
        assert "%dead = mul i32 %x, 7" in again.to_text()


def test_syntax_error_is_told_with_its_place(library: Library) -> None:
    with pytest.raises(LlvmError, match=r":2:\d+: error: "):
        Module.parse(library, b"define i32 @f(i32 %x) {\n  ret i32 %y\n}\n")


@pytest.mark.parametrize("sixteenth", range(1, 16))
def test_truncated_bitcode_is_refused(
    library: Library, compile_program: Compile, sixteenth: int, capfd: pytest.CaptureFixture[str]
) -> None:
    content = compile_program("sorting.c")
    with pytest.raises(LlvmError) as caught:
        Module.parse(library, content[: len(content) * sixteenth // 16])
    assert str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_verifier_finds_what_is_wrong(library: Library) -> None:
    text = (
        b"define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\n"
        b"a:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x\n}\n"
    )
    with Module.parse(library, text) as module:
        assert "does not dominate" in (module.verify() or "")


def test_verifier_accepts_a_valid_module(library: Library, simple: bytes) -> None:
    with Module.parse(library, simple) as module:
        assert module.verify() is None


def test_unknown_pass_is_refused_by_name(library: Library, simple: bytes) -> None:
    with Module.parse(library, simple) as module, pytest.raises(LlvmError, match="no-such-pass"):
        module.run_passes("no-such-pass", None)


def test_error_that_a_pass_reports_is_raised_and_not_printed(
    library: Library, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a profile this pass reports an error, upon which LLVM alone would print it and exit."""
    text = b"define void @f() {\n  ret void\n}\n"
    with Module.parse(library, text) as module, pytest.raises(LlvmError, match=r"[Cc]ould not open profile"):
        module.run_passes("sample-profile", None)
    assert capfd.readouterr() == ("", "")


def test_closed_module_raises_instead_of_crashing(library: Library, simple: bytes) -> None:
    module = Module.parse(library, simple)
    module.close()
    module.close()
    for use in (module.to_text, module.write_bitcode, module.verify, lambda: module.run_passes("dce", None)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_closed_context_raises_instead_of_crashing(library: Library, simple: bytes) -> None:
    context = Context(library)
    context.close()
    with pytest.raises(ValueError, match="closed"):
        context.parse(simple)


@pytest.mark.parametrize("triple", [b"", b"nosuch-machine", b"unknown-unknown-unknown"])
def test_unknown_target_has_no_machine(library: Library, triple: bytes) -> None:
    assert TargetMachine.create(library, triple) is None


def test_target_machine_knows_the_data_layout_that_clang_writes(library: Library, compile_program: Compile) -> None:
    with Module.parse(library, compile_program("sorting.c")) as module:
        machine = TargetMachine.create(library, module.triple)
        assert machine is not None
        assert machine.data_layout() == module.data_layout
        machine.close()
