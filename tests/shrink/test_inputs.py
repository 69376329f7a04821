"""The inputs of a link, and the same link with other objects."""

import hashlib
from pathlib import Path

from aiocg.build.commands import Unit, units_of
from aiocg.build.objects import archive_members
from aiocg.datasets.linking import pack_archive
from aiocg.llvm.command_line import parse
from aiocg.shrink.inputs import Inputs, Module, Part, read_inputs
from aiocg.shrink.record import Link


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unit(name: str, folder: Path) -> Unit:
    (unit,) = units_of(parse(["cc", "-c", f"{name}.c"]), folder)
    return unit


def _inputs(line: str, folder: Path, units: dict[str, Unit]) -> Inputs:
    command = parse(line.split())
    files = {folder / one.path: _hash((folder / one.path).read_bytes()) for one in command.inputs if not one.language}
    return read_inputs(Link(folder / "app", command, folder, tuple(units_of(command, folder)), files), units, folder)


def test_objects_are_replaced_where_they_stand_and_all_else_stays(tmp_path: Path) -> None:
    for name in ("a.o", "other.o", "b.o"):
        (tmp_path / name).write_bytes(name.encode())
    a, b = _unit("a", tmp_path), _unit("b", tmp_path)
    inputs = _inputs(
        "cc -O2 -flto=auto -pie a.o other.o b.o -lm -o app", tmp_path, {_hash(b"a.o"): a, _hash(b"b.o"): b}
    )
    assert inputs.parts == (a, b)
    replaced = inputs.words({a: Path("/new/a.o"), b: Path("/new/b.o")}.get, tmp_path)
    assert replaced == ["-pie", "/new/a.o", "other.o", "/new/b.o", "-lm"]
    assert inputs.words({}.get, tmp_path, Path("/new/all.o")) == ["-pie", "/new/all.o", "other.o", "-lm"]


def test_members_of_an_archive_are_replaced_and_unknown_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "libx.a").write_bytes(pack_archive({"a.o": b"code of a", "asm.o": b"assembly"}))
    (tmp_path / "main.o").write_bytes(b"main")
    main, a = _unit("main", tmp_path), _unit("a", tmp_path)
    inputs = _inputs("cc main.o -L. -lx -o app", tmp_path, {_hash(b"code of a"): a, _hash(b"main"): main})
    assert inputs.parts == (main, a)
    (tmp_path / "new.o").write_bytes(b"new code")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = inputs.words({a: tmp_path / "new.o", main: tmp_path / "main.o"}.get, scratch)
    assert words[:2] == [str(tmp_path / "main.o"), "-L."]
    assert [content for _, content in archive_members(Path(words[2]))] == [b"new code", b"assembly"]
    words = inputs.words({}.get, scratch, tmp_path / "all.o")
    assert words[0] == str(tmp_path / "all.o")
    assert [content for _, content in archive_members(Path(words[2]))] == [b"assembly"]


def test_a_shared_library_beside_an_archive_is_what_the_linker_takes(tmp_path: Path) -> None:
    (tmp_path / "libx.a").write_bytes(pack_archive({"a.o": b"code of a"}))
    (tmp_path / "libx.so").touch()
    units = {_hash(b"code of a"): _unit("a", tmp_path)}
    assert _inputs("cc -L. -lx -o app", tmp_path, units).parts == ()
    assert _inputs("cc -static -L. -lx -o app", tmp_path, units).parts != ()


def test_a_source_that_the_link_compiles_is_a_part(tmp_path: Path) -> None:
    inputs = _inputs("cc -O2 main.c -o app", tmp_path, {})
    (part,) = inputs.parts
    assert isinstance(part, Unit) and part.source == tmp_path / "main.c" and inputs.own(part, tmp_path) is None


def test_bitcode_is_a_part_though_nobody_has_recorded_it(tmp_path: Path) -> None:
    (tmp_path / "x.rcgu.o").write_bytes(b"BC\xc0\xde code")
    (tmp_path / "liby.a").write_bytes(pack_archive({"y.o": b"BC\xc0\xde more", "z.o": b"machine code"}))
    inputs = _inputs("cc x.rcgu.o liby.a -o app", tmp_path, {})
    first, second = inputs.parts
    assert first == Module(tmp_path / "x.rcgu.o")
    assert isinstance(second, Module) and second.path.read_bytes() == b"BC\xc0\xde more"


def test_the_builds_own_object_of_a_member_is_found(tmp_path: Path) -> None:
    (tmp_path / "libx.a").write_bytes(pack_archive({"a.o": b"code of a"}))
    part: Part = _unit("a", tmp_path)
    assert isinstance(part, Unit)
    own = _inputs("cc libx.a -o app", tmp_path, {_hash(b"code of a"): part}).own(part, tmp_path)
    assert own is not None and own.read_bytes() == b"code of a"


def test_files_that_a_linker_writes_beside_the_image_are_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "a.o").write_bytes(b"a")
    line = "cc a.o -Wl,-Map=app.map -Wl,-Map,app.map -Xlinker -Map=x -MMD -MF a.d -Wl,--gc-sections -o app"
    inputs = _inputs(line, tmp_path, {})
    assert inputs.writes_files and inputs.words({}.get, tmp_path) == ["a.o", "-Wl,--gc-sections"]
    assert not _inputs("cc a.o -o app", tmp_path, {}).writes_files
