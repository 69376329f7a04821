"""Real projects, which pass their own tests afterwards."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.errors import DatasetError
from aiocg.datasets.sdist._dataset import install_project, projects

pytestmark = [pytest.mark.slow, pytest.mark.needs("libc")]

LUA = ["make", "lua", "CC=cc", "CFLAGS=-O2 -std=c99 -DLUA_USE_LINUX", "MYLDFLAGS=-Wl,-E", "MYLIBS=-ldl"]
CMAKE = "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build"


def _unpacked(name: str, part: str, folder: Path, run_cache: Path) -> None:
    """Copy a part of a source distribution, which is fetched if need be."""
    try:
        shutil.copytree(install_project(projects()[name], run_cache / "sdist") / part, folder, dirs_exist_ok=True)
    except DatasetError as error:
        pytest.skip(f"{name} cannot be had: {error}")


def _shrink(place: Any, *words: str) -> list[dict[str, Any]]:
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "shrink", "--json", *words, timeout=800)
    assert done.returncode == 0, done.stderr[-2000:]
    images: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["images"]
    return images


@pytest.mark.every_case
@pytest.mark.timeout(900)
def test_lua_gets_smaller_and_passes_its_test_suite(place: Any, run_cache: Path) -> None:
    _unpacked("lupa", "third-party/lua54", place.folder, run_cache)
    (image,) = _shrink(place, "--budget", "1", "--check", "cd testes && ../lua strings.lua", "--", *LUA)
    done = place.run("bash", "-c", "cd testes && ../lua -e '_U=true' all.lua")
    assert done.returncode == 0, done.stdout[-2000:]
    assert image["name"] == "lua" and {"found", "gcc found"} & image["sizes"].keys() and image["notes"] == []
    assert image["after"] == min(size["bytes"] for size in image["sizes"].values()) < image["before"]
    shrunk = (place.folder / "lua").read_bytes()
    place.run("make", "clean")
    _shrink(place, "--locked", "--", *LUA)
    assert (place.folder / "lua").read_bytes() == shrunk


@pytest.mark.needs("cmake")
def test_cmake_finds_the_recorded_compilers_and_can_go_on_without_them(place: Any) -> None:
    (place.folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C CXX)\nadd_library(part SHARED part.cc)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app part)\n"
    )
    (place.folder / "main.c").write_text("int part(int);\nint main(int argc, char **argv) { return part(argc) - 1; }\n")
    (place.folder / "part.cc").write_text(
        '#include <vector>\n#include <string>\nextern "C" int part(int n) {\n'
        "  std::vector<std::string> all(n, std::string(40, 'a'));\n  return all.back().size() / 40;\n}\n"
    )
    images = _shrink(place, "--budget", "0.3", "--check", "build/app", "--", "sh", "-c", CMAKE)
    assert {one["name"] for one in images} == {"build/app", "build/libpart.so"}
    assert all(one["after"] <= one["before"] for one in images)
    (place.folder / "part.cc").touch()
    assert place.run("cmake", "--build", "build").returncode == 0


@pytest.mark.needs("cmake")
def test_a_toolchain_file_makes_cmake_call_compilers_that_can_be_recorded(place: Any) -> None:
    _sources(place)
    (place.folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_executable(app main.c part.c)\n"
        "aiocg_optimize(app --budget 1)\n"
    )
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={_toolchain(place, 'cmake')}"
    configure = ("cmake", "-S", ".", "-B", "build", toolchain, "-DCMAKE_BUILD_TYPE=Release")
    _configured_before(place, configure, ("cmake", "--build", "build", "--clean-first"))
    shrunk = (place.folder / "build/app").read_bytes()
    assert place.run("cmake", "--build", "build", "--clean-first").returncode == 0
    assert (place.folder / "build/app").read_bytes() != shrunk
    done = place.run("cmake", "--build", "build", "--target", "shrink-app")
    assert done.returncode == 0 and "build/app: " in done.stdout, done.stderr[-2000:]
    assert (place.folder / "build/app").read_bytes() == shrunk  # by the lock file


@pytest.mark.needs("meson", "ninja")
def test_a_native_file_makes_meson_call_compilers_that_can_be_recorded(place: Any) -> None:
    _sources(place)
    (place.folder / "meson.build").write_text("project('app', 'c')\nexecutable('app', 'main.c', 'part.c')\n")
    configure = ("meson", "setup", "build", "--native-file", _toolchain(place, "meson"), "--buildtype", "release")
    _configured_before(place, configure, ("sh", "-c", "ninja -C build clean && ninja -C build"))


def _toolchain(place: Any, system: str) -> str:
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "shrink", "--toolchain", system)
    path: str = done.stdout.strip()
    assert done.returncode == 0 and Path(path).is_file()
    return path


def _sources(place: Any) -> None:
    (place.folder / "main.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nint part(int);\nint main(int argc, char **argv) {\n"
        '  char *text = calloc(9, 1);\n  snprintf(text, 9, "%d", part(argc));\n  return puts(text) < 0;\n}\n'
    )
    (place.folder / "part.c").write_text(
        "int sum(int n) { int s = 0; for (int i = 1; i <= n; i++) s += i % 2 ? i * i : -i; return s; }\n"
        "int part(int n) { return n * 30 + sum(0); }\nint unused(int n) { return part(n) / sum(n); }\n"
    )


def _configured_before(place: Any, configure: tuple[str, ...], build: tuple[str, ...]) -> None:
    """Shrink, and build by the lock file, what was configured before, so that compilers are called by their paths."""
    place.environment["AIOCG_CC_SEARCH"] = "none"  # while it is configured
    done = place.run(*configure)
    assert done.returncode == 0, done.stderr[-2000:]
    del place.environment["AIOCG_CC_SEARCH"]
    (image,) = _shrink(place, "--budget", "0.3", "--check", "build/app", "--", *build)
    assert image["name"] == "build/app" and image["chosen"] != "own" and image["after"] < image["before"]
    shrunk = (place.folder / "build/app").read_bytes()
    (again,) = _shrink(place, "--locked", "--", *build)
    assert not again.get("notes", again.get("note")) and (place.folder / "build/app").read_bytes() == shrunk
