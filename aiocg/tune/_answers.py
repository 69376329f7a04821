"""Choices of options, written down for the build system: what works without aiocg."""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiocg.build.commands import Unit
from aiocg.tune._choice import ALL_FILES, LINK, Choice, Words, words_of
from aiocg.tune._replay import Replay
from aiocg.tune._whole import Template
from aiocg.tune._workspace import Workspace

_TARGET = re.compile(r"(?P<binary>.*?/?)CMakeFiles/(?P<target>[^/]+)\.dir/")
_ROOT = "aiocg_root"
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
    return [_for_make(choice, replay, units, text, variables) for variables in _variables(replay)]


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


def _variables(replay: Replay) -> list[Mapping[str, str]]:
    """Return variables of makefiles by language, the likeliest first."""
    others = []
    for path in (folder / name for folder in _folders(replay) for name in _MAKEFILES):
        if path.is_file():
            text = path.read_text(errors="replace")
            others += re.findall(r"^\s*(?:override\s+|export\s+)?(\w*(?:FLAGS|OPT)\w*)\s*[:+?]*=", text, re.MULTILINE)
    usual = [{"c": "CFLAGS", "c++": "CXXFLAGS"}, {"c": "CFLAGS", "c++": "CFLAGS"}]
    return [*usual, *({"c": one, "c++": one} for one in dict.fromkeys(others) if one not in ("CFLAGS", "LDFLAGS"))]


def _folders(replay: Replay) -> list[Path]:
    """Return the folders in which something was compiled or linked, and that of the build."""
    used = [unit.directory for units in replay.units.values() for unit in units]
    used += [directory for _, directory, _ in replay.links()]
    return [replay.workspace.copy, *dict.fromkeys(map(replay.workspace.inside, used))]


def _plain(choice: Choice, replay: Replay, units: Mapping[str, Sequence[Unit]], text: str) -> Answer:
    """Return lines to be given to the compilers by hand."""
    lines = [
        f"{name}: {shlex.join(words)}"
        for name, some in sorted(units.items())
        if (words := replay.words(some[0], words_of(choice, name)))
    ]
    if not lines and ALL_FILES in choice:
        lines = [f"compilers: {shlex.join(choice[ALL_FILES])}"]
    if link := _link_words(choice):
        lines.append(f"links: {shlex.join(link)}")
    return Answer("flags", "\n".join(lines) + "\n", "", text)


def _for_make(
    choice: Choice, replay: Replay, units: Mapping[str, Sequence[Unit]], text: str, variables: Mapping[str, str]
) -> Answer:
    by_folder: dict[str, list[str]] = {}
    seen = replay.workspace.seen

    def add(folder: Path, target: str, variable: str, words: Sequence[str]) -> None:
        where = os.path.relpath(folder, seen)
        line = shlex.join(words).replace("$", "$$").replace("#", r"\#")
        by_folder.setdefault("" if where == "." else where, []).append(
            f"{target}: private override {variable} += {line}"
        )

    for name, some in units.items():
        for unit in some:
            if (words := replay.words(unit, words_of(choice, name))) and unit.object is not None:
                kind = "c++" if unit.input.language.startswith("c++") else "c"
                written = unit.origin.command.output if unit.origin is not None else ""
                for target in _spellings(unit.object, unit.directory, written):
                    add(unit.directory, target, variables[kind], words)
    for output, directory, sources in replay.links():
        more = tuple(word for source in sources for word in words_of(choice, source) if word not in _link_words(choice))
        if link := (*_link_words(choice), *more):
            for target in _spellings(output, directory, str(output)):
                add(directory, target, "LDFLAGS", link)
    lines = [
        "# Options for single files, found by aiocg tune. Use: include this file at the end of the Makefile, or",
        f"#     MAKEFILES=$PWD/aiocg.mk {text}",
        f"{_ROOT} := $(patsubst %/,%,$(dir $(realpath $(lastword $(MAKEFILE_LIST)))))",
    ]
    for folder, rules in sorted(by_folder.items()):
        place = f"$({_ROOT})/{folder}" if folder else f"$({_ROOT})"
        lines += [f"ifeq ($(realpath $(CURDIR)),{place})", *sorted(dict.fromkeys(rules)), "endif"]
    return Answer(
        "make", "\n".join(lines) + "\n", "aiocg.mk", f"MAKEFILES=$PWD/aiocg.mk {text}", {"MAKEFILES": "aiocg.mk"}
    )


def _spellings(path: Path, directory: Path, written: str) -> set[str]:
    """Return how a makefile may spell a target: by its path from the folder, or as the compiler was told."""
    return {os.path.relpath(path, directory), *([written] if written.startswith(("/", "..")) else [])}


def _for_cmake(choice: Choice, replay: Replay, units: Mapping[str, Sequence[Unit]], text: str) -> Answer:
    seen = replay.workspace.seen
    binary = next(
        found["binary"] for some in units.values() for unit in some if (found := _TARGET.search(str(unit.object)))
    )
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
    return Answer("cmake", "\n".join(lines) + "\n", "aiocg.cmake", f"{first} && {text}", {}, first)


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
    own, link = shlex.join(choice.get(ALL_FILES, ())), shlex.join(_link_words(choice))
    folder = next(
        (str(path.parent.relative_to(replay.workspace.copy)) for path in replay.workspace.copy.rglob("meson-private")),
        "build",
    )
    args = " ".join(
        f"-D{language}_{kind}={shlex.quote(value)}"
        for language in ("c", "cpp")
        for kind, value in (("args", own), ("link_args", link))
        if value
    )
    first = f"meson configure {shlex.quote(folder)} {args}"
    return Answer("meson", first, "", f"{first} && {text}", {}, first)
