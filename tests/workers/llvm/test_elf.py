"""Sizes of functions, read from object files that clang writes."""

import subprocess
from pathlib import Path

import pytest

from aiocg.datasets.toolchain import find_toolchain
from aiocg.transport.elf import NotElf, function_sizes, has_executable_stack, keep_unique

SOURCE = b"""
void declared(void);
int variable[10] = {1};
__attribute__((naked)) void three(void) { __asm__("nop; nop; nop"); }
__attribute__((naked, section("elsewhere"))) void one(void) { __asm__("nop"); }
__attribute__((naked, used)) static void five(void) { __asm__("nop; nop; nop; nop; nop"); }
void (*pointer)(void) = declared;
"""
ONE_BYTE_NOPS = ("x86_64-linux-gnu", "i386-linux-gnu")  # objects of 64 bits and of 32


def compiled(clang: str, target: str) -> bytes:
    command = [clang, f"--target={target}", "-fno-asynchronous-unwind-tables", "-x", "c", "-c", "-", "-o", "-"]
    return subprocess.run(command, input=SOURCE, capture_output=True, check=True).stdout


@pytest.mark.parametrize("target", ONE_BYTE_NOPS)
def test_functions_are_as_large_as_their_instructions(clang: str, target: str) -> None:
    assert function_sizes(compiled(clang, target)) == {b"three": 3, b"one": 1, b"five": 5}


@pytest.mark.parametrize("target", ONE_BYTE_NOPS)
def test_an_object_that_is_cut_short_is_refused(clang: str, target: str) -> None:
    binary = compiled(clang, target)
    for length in (0, 4, 20, len(binary) // 2, len(binary) - 1):
        with pytest.raises(NotElf):
            function_sizes(binary[:length])


def test_a_symbol_table_beyond_the_end_is_refused(clang: str) -> None:
    binary = bytearray(compiled(clang, "x86_64-linux-gnu"))
    headers, stride = int.from_bytes(binary[40:48], "little"), 64
    (table,) = (at for at in range(headers, len(binary), stride) if binary[at + 4] == 2)  # SHT_SYMTAB
    binary[table + 32 : table + 40] = len(binary).to_bytes(8, "little")  # its size
    with pytest.raises(NotElf, match="too short for its symbol table"):
        function_sizes(bytes(binary))


@pytest.mark.parametrize("target", ONE_BYTE_NOPS)
@pytest.mark.parametrize("asked", ["execstack", "noexecstack"])
def test_stack_that_may_be_executed_is_known(clang: str, tmp_path: Path, target: str, asked: str) -> None:
    (tmp_path / "part.o").write_bytes(compiled(clang, target))
    line = [*find_toolchain().linker_command(), "-shared", "-z", asked, "-z", "notext", "part.o", "-o", "part.so"]
    subprocess.run(line, cwd=tmp_path, check=True)
    assert has_executable_stack((tmp_path / "part.so").read_bytes()) == (asked == "execstack")


@pytest.mark.parametrize("target", ONE_BYTE_NOPS)
def test_symbols_that_are_unique_in_the_process_stay_so(clang: str, tmp_path: Path, target: str) -> None:
    def linked(kind: str) -> bytes:
        source = f".data\n.weak one, two\n.type one, @{kind}\n.type two, @object\none: .long 1\ntwo: .long 2\n"
        command = [clang, f"--target={target}", "-x", "assembler", "-c", "-", "-o", "part.o"]
        subprocess.run(command, cwd=tmp_path, input=source.encode(), check=True)
        line = [*find_toolchain().linker_command(), "-s", "-shared", "part.o", "-o", "part.so"]
        subprocess.run(line, cwd=tmp_path, check=True)
        return (tmp_path / "part.so").read_bytes()

    weak, unique = linked("object"), linked("gnu_unique_object")
    assert weak != unique and keep_unique(weak, unique) == unique
    assert keep_unique(weak, weak) == weak and keep_unique(unique, weak) == unique
