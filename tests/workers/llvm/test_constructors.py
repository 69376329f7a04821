"""Functions that run before `main` end where the C library looks for them."""

import subprocess
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._object_code import CodeGenerator
from aiocg.workers.llvm.module import Module

SOURCE = """
#include <stdio.h>
struct Named { Named(const char *name) { printf("%s ", name); } };
Named third("third"), fourth("fourth");
__attribute__((init_priority(200))) Named second("second");
__attribute__((constructor(150))) void first() { printf("first "); }
template <class T> struct Holder { static Named held; };
template <class T> Named Holder<T>::held("held");
template struct Holder<int>;
__attribute__((destructor)) void last() { printf("last"); }
int main() { printf("main "); }
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.find()


def test_constructors_run_once_in_their_order_and_destructors_after_main(library: Library, tmp_path: Path) -> None:
    clang = find_clang(library)
    (tmp_path / "p.cc").write_text(SOURCE)
    flags = ["-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    done = subprocess.run([clang, *flags, "p.cc", "-o", "p.bc"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine has no C headers: {done.stderr[:200]}")
    (tmp_path / "p.o").write_bytes(CodeGenerator(library, lambda state: b"").generate((tmp_path / "p.bc").read_bytes()))
    done = subprocess.run([clang, "p.o", "-o", "p"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine cannot link: {done.stderr[:200]}")
    output = subprocess.run(["./p"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert output.replace("held ", "") == "first second third fourth main last"
    assert output.count("held ") == 1


def test_lists_of_other_object_formats_and_empty_ones_are_left_alone(library: Library) -> None:
    from aiocg.workers.llvm._object_code import lower_constructors

    empty = b"@llvm.global_ctors = appending global [0 x { i32, ptr, ptr }] zeroinitializer\n"
    null = (
        b"@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
        b"[{ i32, ptr, ptr } { i32 1, ptr null, ptr null }]\n"
    )
    for triple, content, left in (("x86_64-apple-macosx", null, True), ("x86_64-pc-linux-gnu", null, False)):
        with Module.parse(library, f'target triple = "{triple}"\n'.encode() + content) as module:
            lower_constructors(module)
            assert ("llvm.global_ctors" in module.to_text()) is left
    with Module.parse(library, b'target triple = "x86_64-pc-linux-gnu"\n' + empty) as module:
        lower_constructors(module)
        assert module.verify() is None
