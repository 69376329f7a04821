"""Choices of options, written down for the build system: what works without aiocg."""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiocg.build.commands import Unit
from aiocg.tune._options import ALL_FILES, LINK, Choice, Words, words_of
from aiocg.tune._replay import Replay
from aiocg.tune._whole import Template
from aiocg.tune._workspace import CommandFailed, Workspace

_TARGET = re.compile(r"(?P<binary>.*?/?)CMakeFiles/(?P<target>[^/]+)\.dir/")
_ASSIGNED = re.compile(r"^ *(?:override\s+|export\s+)?(\w+)\s*[:+?]*=(.*)$", re.MULTILINE)
_OPTIMISES = re.compile(r"(?:^|\s)-O(?:[0-3gsz]|fast)?(?:\s|$)")
_ROOT = "aiocg_root"
_Units = Mapping[str, Sequence[Unit]]  # by the names of their sources
TRIES = 8  # builds by which it is found out which variables a makefile reads
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")


class Answer(msgspec.Struct, frozen=True):
    """What to give to a build.

    Attributes:
        kind: the build system.
        text: the content of a file, or a line.
        name: of the file; "" for a line.
        use: the command that builds with it.
        variables: for the environment of a build; with a name, that of the file with its path.
        first: a command that has to run between two builds, as it configures what the first has made; "" for none.
    """

    kind: str
    text: str
    name: str
    use: str
    variables: Mapping[str, str] = {}
    first: str = ""


def answers(choice: Choice, replay: Replay, text: str) -> list[Answer]:
    """Return answers for a build that was replayed, the likeliest first: which variable a makefile reads is not known.

    Args:
        choice: what was found.
        replay: with its units and images.
        text: the build, for the shell.
    """
    units = {name: units for name, units in replay.units.items() if name not in replay.kept}
    if any(_TARGET.search(str(unit.object)) for some in units.values() for unit in some):
        return [_for_cmake(choice, replay, units, text)]
    if is_meson(replay):
        return [_for_meson(choice, replay, text)]
    if not any((folder / name).is_file() for folder in _folders(replay) for name in _MAKEFILES):
        return [_plain(choice, replay, units, text)]
    found = [_for_make(choice, replay, units, text, *variables) for variables in _variables(replay)]
    return list({one.text: one for one in found}.values())


def whole_answer(choice: Choice, template: Template, text: str) -> Answer:
    """Return the answer for a build that was repeated as a whole."""
    words = choice.get(ALL_FILES, ())
    variables = template.variables(words)
    command = template.command(text, words)
    if not template.flags:
        return Answer(template.name, command, "", command, {})
    profile = {name.removeprefix(template.prefix): value for name, value in variables.items() if name != template.flags}
    lines = ["# in Cargo.toml", "[profile.release]"]
    lines += [f"{name.lower().replace('_', '-')} = {_toml(value)}" for name, value in profile.items()]
    if flags := variables.get(template.flags, ""):
        lines += ["", "# in .cargo/config.toml", "[build]", f"rustflags = {json.dumps(flags.split())}"]
    line = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), text])
    return Answer(template.name, "\n".join(lines) + "\n", "", line, variables)


def _toml(value: str) -> str:
    return value if value in ("true", "false") or value.isdecimal() else json.dumps(value)


def _link_words(choice: Choice) -> Words:
    lto = tuple(word for word in choice.get(ALL_FILES, ()) if word == "-flto")
    return (*choice.get(LINK, ()), *lto)


def _variables(replay: Replay) -> Sequence[tuple[Mapping[str, str], str]]:
    """Return variables of makefiles: of compiles by language, and of links; the likeliest first."""
    others: list[tuple[str, str]] = []
    for path in (folder / name for folder in _folders(replay) for name in _MAKEFILES):
        if path.is_file():
            text = path.read_text(errors="replace")
            others += _ASSIGNED.findall(text)
    usual = {"c": "CFLAGS", "c++": "CXXFLAGS"}
    both = {"c": "CFLAGS", "c++": "CFLAGS"}
    by_value = [name for name, value in others if _OPTIMISES.search(value)]
    names = dict.fromkeys((*by_value, *(name for name, _ in others if "FLAGS" in name or "OPT" in name)))
    named = [{"c": one, "c++": one} for one in names if one not in ("CFLAGS", "LDFLAGS")]
    first = [(usual, "LDFLAGS"), (usual, "CFLAGS"), (usual, "CXXFLAGS"), (usual, "LDLIBS"), (usual, "LIBS")]
    rest = [pair for one in (both, *named) for pair in ((one, "LDFLAGS"), (one, one["c"]))]
    return [*first, *rest][:TRIES]


def _folders(replay: Replay) -> list[Path]:
    """Return the folders in which something was compiled or linked, and that of the build."""
    used = [unit.directory for units in replay.units.values() for unit in units]
    used += [directory for _, directory, _ in replay.links({})]
    return [replay.workspace.copy, *dict.fromkeys(map(replay.workspace.inside, used))]


def _plain(choice: Choice, replay: Replay, units: _Units, text: str) -> Answer:
    """Return lines to be given to the compilers by hand."""
    given = [(name, replay.words(some[0], words_of(choice, name))) for name, some in sorted(units.items())]
    lines = [f"{name}: {shlex.join(words)}" for name, words in given if words]
    if not lines and ALL_FILES in choice:
        lines = [f"compilers: {shlex.join(choice[ALL_FILES])}"]
    if link := _link_words(choice):
        lines.append(f"links: {shlex.join(link)}")
    return Answer("flags", "\n".join(lines) + "\n", "", text)


def _for_make(
    choice: Choice, replay: Replay, units: _Units, text: str, variables: Mapping[str, str], link_variable: str
) -> Answer:
    by_folder: dict[str, list[str]] = {}
    seen = replay.workspace.seen

    def add(path: Path, folder: Path, written: str, variable: str, words: Sequence[str]) -> None:
        line = shlex.join(words).replace("$", "$$").replace("#", r"\#")
        for place in (folder, *folder.parents):
            if words and place.is_relative_to(seen):  # make may have changed to the folder for one command only
                where = os.path.relpath(place, seen)
                for target in sorted(_spellings(path, place, written)):
                    rule = f"{_escaped(target)}: private override {variable} += {line}"
                    by_folder.setdefault("" if where == "." else where, []).append(rule)

    for name, some in units.items():
        for unit in some:
            if unit.object is not None:
                written = unit.origin.command.output if unit.origin is not None else ""
                words = replay.words(unit, words_of(choice, name))
                add(unit.object, unit.directory, written, variables[unit.language], words)
    for output, directory, link in replay.links(choice):
        add(output, directory, str(output), link_variable, link)
    by_name = make_misreads(seen)  # then only the make of this folder finds the file, and only by its name
    use = f"MAKEFILES={'' if by_name else '$PWD/'}aiocg.mk {text}"
    lines = [
        "# Options for single files, found by aiocg tune. Use: include this file at the end of the Makefile, or",
        f"#     {use}",
    ]
    if by_name:
        lines += sorted(dict.fromkeys(by_folder.pop("", [])))
        lines += [f"# not reached, as make misreads the path of the folder: {folder}" for folder in sorted(by_folder)]
    else:
        lines.append(f"{_ROOT} := $(patsubst %/,%,$(dir $(realpath $(lastword $(MAKEFILE_LIST)))))")
        for folder, rules in sorted(by_folder.items()):
            place = f"$({_ROOT})/{folder}" if folder else f"$({_ROOT})"
            lines += [f"ifeq ($(realpath $(CURDIR)),{place})", *sorted(dict.fromkeys(rules)), "endif"]
    return Answer("make", "\n".join(lines) + "\n", "aiocg.mk", use, {"MAKEFILES": "aiocg.mk"})


def make_misreads(path: Path) -> bool:
    """Return whether make would take a path among MAKEFILES for several, or for one with a variable in it."""
    return any(character.isspace() or character == "$" for character in str(path))


def _spellings(path: Path, directory: Path, written: str) -> set[str]:
    """Return how a makefile may spell a target: by its path from a folder, as the compiler was told, or for libtool."""
    found = {os.path.relpath(path, directory), *([written] if written.startswith(("/", "..")) else [])}
    above = path.parent.parent
    if path.parent.name == ".libs":
        names = [path.stem + ".lo"] if path.suffix == ".o" else [path.name, path.name.partition(".so")[0] + ".la"]
        found |= {os.path.relpath(above / name, directory) for name in names}
    return found


def _escaped(target: str) -> str:
    return re.sub(r"([ %#:])", r"\\\1", target.replace("$", "$$"))


def _for_cmake(choice: Choice, replay: Replay, units: _Units, text: str) -> Answer:
    seen = replay.workspace.seen
    objects = [str(unit.object) for some in units.values() for unit in some]
    binary = next(found["binary"] for found in map(_TARGET.search, objects) if found)
    lines = ["# Options for single files, found by aiocg tune: cmake -DCMAKE_PROJECT_INCLUDE=$PWD/aiocg.cmake …"]
    lines += ["cmake_minimum_required(VERSION 3.19)", "if(aiocg_tuned)", "  return()", "endif()", "set(aiocg_tuned 1)"]
    if link := _link_words(choice):
        for kind in ("EXE", "SHARED", "MODULE"):
            lines.append(f'string(APPEND CMAKE_{kind}_LINKER_FLAGS " {shlex.join(link)}")')
    lines += ["function(aiocg_tune source target options)", "  if(TARGET ${target})"]
    lines += ["    set_property(SOURCE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${source} TARGET_DIRECTORY ${target}"]
    lines += ['                 APPEND_STRING PROPERTY COMPILE_FLAGS " ${options}")', "  endif()", "endfunction()"]
    lines.append("function(aiocg_tune_all)")
    for name, some in sorted(units.items()):
        targets = {found["target"] for unit in some if (found := _TARGET.search(str(unit.object)))}
        words = replay.words(some[0], words_of(choice, name))
        for target in sorted(targets) if words else ():
            lines.append(f"  aiocg_tune({json.dumps(name)} {target} {json.dumps(shlex.join(words))})")
    lines += ["endfunction()", "cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL aiocg_tune_all)"]
    folder = os.path.relpath(Path(str(seen), binary) if not binary.startswith("/") else binary, seen)
    folder = _binary_folder(replay.workspace, folder)
    first = f"cmake -DCMAKE_PROJECT_INCLUDE=$PWD/aiocg.cmake {shlex.quote(folder)}"
    use = _configured(replay.workspace, folder, first, text)
    return Answer("cmake", "\n".join(lines) + "\n", "aiocg.cmake", use, {}, first)


def _configured(workspace: Workspace, folder: str, first: str, text: str) -> str:
    """Return the command that configures a folder and builds; where there is none yet, the build makes it."""
    return f"{first} && {text}" if (workspace.root / folder).is_dir() else f"{text} && {first} && {text}"


def _binary_folder(workspace: Workspace, folder: str) -> str:
    """Return the folder with the cache of CMake that contains a folder."""
    path = Path(folder)
    for one in (path, *path.parents):
        if (workspace.copy / one / "CMakeCache.txt").is_file():
            return str(one)
    return folder


def is_meson(replay: Replay) -> bool:
    """Say whether Meson builds."""
    objects = (str(unit.object) for units in replay.units.values() for unit in units)
    return any(re.search(r"\.p/[^/]+\.o$", one) for one in objects)


def _for_meson(choice: Choice, replay: Replay, text: str) -> Answer:
    copy = replay.workspace.copy
    folder = next((str(path.parent.relative_to(copy)) for path in copy.rglob("meson-private")), "build")
    seen = replay.workspace.seen / folder
    try:
        told = json.loads(replay.workspace.run(["meson", "introspect", str(seen), "--buildoptions"]))
    except (CommandFailed, ValueError):
        told = []
    values = {one["name"]: one["value"] for one in told if isinstance(one.get("value"), list)}
    languages = {unit.language.replace("c++", "cpp") for units in replay.units.values() for unit in units}
    args = [
        f"-D{language}_{kind}={shlex.quote(shlex.join([*values.get(f'{language}_{kind}', ()), *words]))}"
        for language in sorted(languages)
        for kind, words in (("args", choice.get(ALL_FILES, ())), ("link_args", _link_words(choice)))
        if words
    ]
    first = f"meson configure {shlex.quote(folder)} {' '.join(args)}"
    return Answer("meson", first, "", _configured(replay.workspace, folder, first, text), {}, first)
