"""Source trees: all that another compiler needs of a program, found without a compiler."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.datasets._files import FilesDataset
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.source_files import gather
from aiocg.datasets.source_tree import Inclusion, SourceTree, defined_inclusions, inclusions
from aiocg.llvm import benchmark_from_source

GCC = shutil.which("gcc") or ""
needs_gcc = pytest.mark.skipif(not GCC, reason="there is no gcc on PATH, whose preprocessor is to agree")


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(text: str) -> list[str]:
    return [inclusion.name for inclusion in inclusions(text.encode())]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('#include "a.h"', ["a.h"]),
        ("  #  include\t<sys/a.h> // more", ["sys/a.h"]),
        ("%:include <a.h>", ["a.h"]),
        ('#/* one */include/* two */"a.h"', ["a.h"]),
        ('#inc\\\nlude \\\r\n "a.h"', ["a.h"]),
        ("#include <a//b.h>", ["a//b.h"]),
        ('#if __has_include("a.h") && __has_include(<b.h>)', ["a.h", "b.h"]),
        ('#import "a.h"\n#embed "data.bin"', ["a.h", "data.bin"]),
        ("#define A B\n#include A", ["A"]),
        ('/* #include "a.h"\n#include "b.h" */\n#include "c.h"', ["c.h"]),
        ('// #include "a.h"\\\n#include "b.h"\n', []),
        ('char *s = "/*";\n#include "a.h"\n', ["a.h"]),
        ("char c = '\"';\n#include \"a.h\"\nchar d = '\"';", ["a.h"]),
        ("int n = 1'000'000; char c = '/'; /*\n#include \"a.h\"\n*/", []),
        ('int n = 1\'0 "\'/*";\n#include "a.h"', ["a.h"]),
        ('auto s = R"x(\n/*)x";\n#include "a.h"', ["a.h"]),
        ('char *s = "\\\n#include \\"a.h\\"";', []),
        ('x = y; #include "a.h"', []),
        ("#include", []),
        ('#include "caf\u00e9.h"', ["caf\u00e9.h"]),
    ],
)
def test_what_a_text_includes_is_found_as_a_preprocessor_finds_it(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_a_macro_that_names_a_file_is_known() -> None:
    text = b'#define CONFIG "config.h"\n#define SYSTEM <stdio.h>\n#define N 3\n'
    assert dict(defined_inclusions(text)) == {"CONFIG": Inclusion("config.h", '"'), "SYSTEM": Inclusion("stdio.h", "<")}


def tree_of(files: Mapping[str, str], unit: str = "a.c", **options: object) -> SourceTree:
    contents = {name: text.encode() for name, text in files.items()}
    return gather([unit], lambda path: contents.get(os.path.normpath(path)), **options)  # type: ignore[arg-type]


def test_headers_are_followed_in_circles_and_those_that_are_nowhere_are_left_to_the_compiler() -> None:
    files = {"a.c": '#include "b.h"\n#include <stdio.h>\n', "b.h": '#include "c.h"\n', "c.h": '#include "b.h"\n'}
    assert tree_of(files | {"unused.h": ""}).files == {name: text.encode() for name, text in files.items()}


def test_an_inclusion_by_a_macro_is_followed_wherever_the_macro_is_defined() -> None:
    files = {"a.c": '#include "b.h"\n#include CONFIG\n', "b.h": '#define CONFIG "c.h"\n', "c.h": "", "d.h": ""}
    assert set(tree_of(files).files) == {"a.c", "b.h", "c.h"}
    assert set(tree_of(files, flags=['-DCONFIG="d.h"']).files) == {"a.c", "b.h", "c.h", "d.h"}


def test_folders_are_searched_in_order_and_those_that_give_nothing_are_left_out() -> None:
    files = {"s/a.c": "#include <x.h>\n", "i/x.h": "first", "j/x.h": "second", "k/y.h": ""}
    tree = tree_of(files, "s/a.c", include=["k", "i", "j"])
    assert (set(tree.files), tree.units, tree.include) == ({"s/a.c", "i/x.h"}, ("s/a.c",), ("i",))


def test_the_next_header_of_a_name_comes_along() -> None:
    files = {"a.c": "#include <x.h>\n", "i/x.h": "#include_next <x.h>\n", "j/x.h": "last"}
    assert set(tree_of(files, include=["i", "j"]).files) == set(files)


def test_what_flags_include_is_part_of_the_tree() -> None:
    files = {"a.c": "", "config/auto.h": '#include "more.h"\n', "config/more.h": ""}
    tree = tree_of(files, included=[("-include", "config/auto.h")])
    assert set(tree.files) == set(files) and tree.flags == ("-include", "config/auto.h")


def test_a_tree_is_written_as_a_map_with_its_version() -> None:
    tree = SourceTree(("a.c",), {"a.c": b"int a;"}, ("i",), ("-DA",), "c++", True)
    assert msgspec.msgpack.decode(tree.encode()) == {
        "version": 1,
        "units": ["a.c"],
        "files": {"a.c": b"int a;"},
        "include": ["i"],
        "flags": ["-DA"],
        "language": "c++",
        "freestanding": True,
    }


FOLDERS = ("", "sub", "sub/deep", "other")
HEADERS = st.sampled_from([f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in ("x.h", "y.h", "z.h")])
OPERANDS = st.one_of(
    st.sampled_from(['"x.h"', "<x.h>", '"../x.h"', '"deep/../y.h"', '"sub/y.h"', "<../other/z.h>", '"../../none.h"']),
    st.sampled_from(["X", "Y"]),
)
LINES = st.one_of(
    st.builds("#include {}\n".format, OPERANDS),
    st.builds("/* #include {}\n*/".format, OPERANDS),
    st.builds('const char *s = "\\\n#include {}'.format, st.just('<z.h>";\n')),
    st.builds("#if N > 5\n#include {}\n#endif\n".format, OPERANDS),
    st.builds("#  include/**/{} // c\n".format, OPERANDS),
    st.sampled_from(['#define X "y.h"\n', "#define Y <z.h>\n", "#undef X\n", "char c = '\"';\n", "// it's\n"]),
    st.builds("#if __has_include({0})\n#include {0}\n#endif\n".format, st.sampled_from(['"x.h"', "<none.h>", '"y.h"'])),
)
TEXTS = st.builds(
    "#ifndef N\n#define N 0\n#endif\nint here{};\n{}".format,
    st.integers(0, 99),
    st.lists(LINES, max_size=4).map("".join),
)


def preprocess(folder: Path, unit: str, include: tuple[str, ...] | list[str]) -> tuple[int, list[str]]:
    """Return what the preprocessor makes of a unit, in a folder beside which there is an empty one."""
    flags = ["-E", "-P", "-nostdinc", "-fmax-include-depth=8", "-isystem", os.path.abspath(folder / "../empty")]
    command = [GCC, *flags, *(f"-I{path}" for path in include), unit]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()


@pytest.mark.slow
@needs_gcc
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(HEADERS, TEXTS, max_size=6), TEXTS, st.lists(st.sampled_from(FOLDERS[1:]), max_size=2))
def test_a_preprocessor_makes_the_same_of_a_tree_as_of_the_files(
    headers: dict[str, str], text: str, include: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, copy = Path(folder, "root"), Path(folder, "copy")
        Path(folder, "empty").mkdir()
        write(root, headers | {"sub/main.c": text})
        tree = Benchmark.from_file(root / "sub/main.c", [f"-I{root / path}" for path in include]).source_tree
        write(copy, {name: content.decode() for name, content in tree.files.items()})
        ours = preprocess(copy, tree.units[0], tree.include)
        assert ours == preprocess(root, "sub/main.c", include)


def test_a_file_of_the_users_brings_its_headers_from_wherever_they_lie(tmp_path: Path) -> None:
    write(tmp_path, {"p/src/a.c": '#include "b.h"\n#include "../../q/c.h"\n', "p/src/b.h": "#include <d.h>"})
    write(tmp_path, {"q/c.h": "", "q/inc/d.h": "", "q/inc/e.h": ""})
    flags = ["-I", str(tmp_path / "q/inc"), "-DN=1", "-UM", "-std=c99", "-O2", "-Wall", "-g", "-lm", "-fwrapv"]
    tree = Benchmark.from_file(tmp_path / "p/src/a.c", flags).source_tree
    assert set(tree.files) == {"p/src/a.c", "p/src/b.h", "q/c.h", "q/inc/d.h"}
    assert (tree.units, tree.include) == (("p/src/a.c",), ("q/inc",))
    assert tree.flags == ("-DN=1", "-UM", "-std=c99", "-fwrapv")
    assert str(tmp_path) not in repr(tree)


def test_a_lone_file_is_a_tree_of_one_whose_content_depends_on_no_place(tmp_path: Path) -> None:
    write(tmp_path, {"one/a.cc": "int a;\n", "two/a.cc": "int a;\n"})
    one, two = (Benchmark.from_file(tmp_path / folder / "a.cc") for folder in ("one", "two"))
    assert one.source_tree == SourceTree(("a.cc",), {"a.cc": b"int a;\n"}, language="c++")
    assert one.source_form.content == two.source_form.content and one.source_form.uri == one.uri


def test_the_files_of_a_dataset_have_source_trees(tmp_path: Path) -> None:
    write(tmp_path, {"a/x.c": '#include "y.h"\n', "a/y.h": ""})
    dataset = FilesDataset("mine-v0", tmp_path, flags=["-DA"])
    tree = dataset["a/x.c"].source_tree
    assert set(tree.files) == {"x.c", "y.h"} and tree.flags == ("-DA",)


@pytest.mark.parametrize("flag", ["--sysroot=/x", "-isysroot/x", "-B/x", "@/x"])
def test_a_flag_that_names_another_place_is_refused(tmp_path: Path, flag: str) -> None:
    write(tmp_path, {"a.c": ""} | {"b.c": "int b;"})
    with pytest.raises(BenchmarkInitError, match="cannot follow"):
        _ = Benchmark.from_file(tmp_path / "b.c", [flag]).source_tree


def test_bitcode_has_no_source_tree_and_the_error_says_what_has(tmp_path: Path) -> None:
    write(tmp_path, {"a.ll": "define void @f() {\n  ret void\n}\n"})
    with pytest.raises(BenchmarkInitError, match="sources are not known"):
        _ = Benchmark.from_file(tmp_path / "a.ll").source_form.content


def test_a_text_finds_its_headers_on_this_machine(tmp_path: Path) -> None:
    write(tmp_path, {"x.h": ""})
    text = '#include "x.h"\n#include "y.h"\n'
    alone, with_header = (benchmark_from_source(text, flags=flags).source_tree for flags in ([], [f"-I{tmp_path}"]))
    assert alone.files == {"program.c": text.encode()}
    assert {Path(name).name for name in with_header.files} == {"x.h", "program.c"}
