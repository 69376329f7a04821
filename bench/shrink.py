"""What `aiocg shrink` takes off real builds: each is built, shrunk and tested by its own tests.

    python -m bench.shrink --seconds 60 zlib bzip2 lua           # a table in Markdown
    python -m bench.shrink --list

A package is fetched with `apt-get source` into a folder that is kept (`--folder`). For each image the table has the
bytes of the build's own, of the best that clang makes at its levels, of that with the options of the code generator and
the linker tuned, of the best that GCC makes at its levels, and of the image that was taken, with its gain over the best
of those. The last columns are the processor time of a build by clang and of a locked one, and whether what that made is
the same to the byte.
"""

import argparse
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.sdist._dataset import install_project, projects
from aiocg.datasets.toolchain import find_toolchain, link_flags
from aiocg.shrink._candidate import BY_SEARCH, GCC, OWN, TUNED_LEVEL
from aiocg.shrink._units import LEVELS

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCES = f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian bookworm main\n"


@dataclass(frozen=True)
class Package:
    """A source package of Debian, or a part of a source distribution on the Python package index.

    Attributes:
        build: for the shell, in its folder; `$CC` is not set.
        test: its own tests, or some of them.
        clean: so that the build begins anew.
        prepare: once.
        only: patterns of images, where a build has many programs for its tests.
        sdist: the name of a project of sdist-v0, and the folder in it.
    """

    build: str
    test: str
    clean: str = "make clean"
    prepare: str = "true"
    only: tuple[str, ...] = ()
    sdist: tuple[str, str] | None = None


CMAKE = "cmake -S . -B b -DCMAKE_BUILD_TYPE=Release"

PACKAGES = {
    "zlib": Package("make -j2 static shared", "make test", prepare="./configure"),
    "bzip2": Package("make bzip2 bzip2recover", "make test"),
    "lua": Package(
        "make lua CC=cc CFLAGS='-O2 -std=c99 -DLUA_USE_LINUX' MYLDFLAGS=-Wl,-E MYLIBS=-ldl",
        "cd testes && ../lua -e _U=true all.lua",
        sdist=("lupa", "third-party/lua54"),
    ),
    "lz4": Package(
        "make -C lib && make -C programs",
        "make -C tests test-lz4-basic test-lz4-multiple test-lz4-frame-concatenation",
    ),
    "xxhash": Package("make", "make check test-xxhsum-c"),
    "mujs": Package("make release", "echo 'print([3, 1].sort())' > t.js; build/release/mujs t.js | grep -qx 1,3"),
    "libaio": Package("make", "make partcheck"),
    "libmd": Package("make -j2", "make check", prepare="./configure"),
    "libffi": Package("make -j2", "make check RUNTESTFLAGS=go.exp", prepare="./configure"),  # all take an hour
    "popt": Package("make -j2", "make check", prepare="./configure"),
    "gzip": Package("make -j2", "make check", prepare="./configure"),
    "expat": Package(
        "make -C expat -j2",
        "make -C expat check",
        "make -C expat clean",
        "cd expat && autoreconf -fi && ./configure --without-docbook",
    ),
    "jq": Package("make -j2", "./jq -n '[range(9)] | add' | grep -qx 36", prepare="autoreconf -i; ./configure"),
    "dash": Package("make", "test \"$(src/dash -c 'echo a | tr a b')\" = b", prepare="autoreconf -fi; ./configure"),
    "tinyxml2": Package(f"{CMAKE} -DBUILD_SHARED_LIBS=ON && cmake --build b", "ctest --test-dir b", "rm -rf b"),
    "cjson": Package(
        f"{CMAKE} -DENABLE_CJSON_UTILS=ON && cmake --build b", "ctest --test-dir b", "rm -rf b", only=("*.so*",)
    ),
    "json-c": Package(f"{CMAKE} && cmake --build b", "ctest --test-dir b", "rm -rf b", only=("*.so*",)),
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--seconds", type=float, default=60.0, help="of search for each image")
    parser.add_argument("--folder", type=Path, default=Path("build/shrink"), help="where sources are kept")
    parser.add_argument("--list", action="store_true", help="list the packages")
    chosen = parser.parse_args()
    if chosen.list:
        print(*PACKAGES, sep="\n")
        return
    print("| image | build's own | best of clang | tuned | best of GCC | taken | clang build, s | locked, s | same |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name in chosen.packages:
        for row in measure(name, PACKAGES[name], chosen.folder.absolute(), chosen.seconds):
            print(row, flush=True)


def measure(name: str, package: Package, folder: Path, seconds: float) -> list[str]:
    """Build, shrink and test one package, and return the rows of its images."""
    source = fetch(name, package, folder)
    if not (source / ".prepared").exists():
        run(package.prepare, source)
        (source / ".prepared").touch()
    aiocg = shlex.join([sys.executable, "-P", "-m", "aiocg.cli"])
    run(package.clean, source)
    compilers = {"CC": str(clang(folder, "c")), "CXX": str(clang(folder, "c++"))}
    flags = " ".join(f"{key}={path}" for key, path in compilers.items())  # which outdo what a Makefile says
    plain = run(package.build, source, **compilers, MAKEFLAGS=flags)
    run(package.clean, source)
    (source / "aiocg.lock").unlink(missing_ok=True)
    only = [word for pattern in package.only for word in ("--only", pattern)]
    words = [*only, "--check", package.test, "--budget", str(seconds), "--json", "--", "sh", "-c", package.build]
    done = subprocess.run(
        [*shlex.split(aiocg), "shrink", *words], cwd=source, stdout=subprocess.PIPE, text=True, check=True
    )
    report = json.loads(done.stdout.splitlines()[-1])
    shrunk = {one["name"]: (source / one["name"]).read_bytes() for one in report["images"]}
    run(package.clean, source)
    locked = run(f"{aiocg} shrink --locked {shlex.join(only)} -- sh -c {shlex.quote(package.build)}", source)
    rows = []
    for one in report["images"]:
        sizes = {way: size["bytes"] for way, size in one["sizes"].items()}
        gccs = [size for way, size in sizes.items() if way.startswith(GCC) and way not in BY_SEARCH]
        clangs = {way: size for way, size in sizes.items() if way in LEVELS} or {OWN: sizes[OWN]}
        best = min(clangs, key=lambda way: clangs[way])
        rivals = [sizes[OWN], clangs[best], sizes.get(TUNED_LEVEL, clangs[best]), min(gccs, default=sizes[OWN])]
        same = "yes" if (source / one["name"]).read_bytes() == shrunk[one["name"]] else "no"
        gain = f"{one['after']:,} ({one['after'] / min(rivals) - 1:+.1%}, {one['chosen']})"
        cells = [
            f"{name}: {one['name']}",
            f"{sizes[OWN]:,}",
            f"{clangs[best]:,} (`{best}`)",
            *map("{:,}".format, rivals[2:]),
        ]
        cells.append(gain)
        rows.append(f"| {' | '.join([*cells, f'{plain:.1f}', f'{locked:.1f}', same])} |")
        for note in one["notes"]:
            print(f"{name}: {one['name']}: {note}", file=sys.stderr)
    for image, reason in report["left_alone"].items():
        print(f"{name}: {image} is left alone: {reason}", file=sys.stderr)
    return rows


def clang(folder: Path, language: str) -> Path:
    """Return a command that is clang for a language, and links with the machine's libraries."""
    toolchain = find_toolchain()
    path = folder / f"clang-{language}"
    words = [*toolchain.command(language), "-Qunused-arguments", *link_flags(toolchain.clang, language)]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path


def fetch(name: str, package: Package, folder: Path) -> Path:
    """Return the folder of a package's sources, as its authors have published them and Debian has patched them."""
    target = folder / name
    if package.sdist is not None:
        project, part = package.sdist
        shutil.copytree(install_project(projects()[project], folder / "sdist") / part, target, dirs_exist_ok=True)
        return target
    if not target.is_dir():
        lists, sources = folder / "apt", folder / "sources.list"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        sources.write_text(SOURCES)
        places = {"Etc::sourcelist": sources, "Etc::sourceparts": "/dev/null", "State::lists": lists}
        apt = ["apt-get", "-qq", *(word for key, place in places.items() for word in ("-o", f"Dir::{key}={place}"))]
        if not any(lists.glob("*Sources*")):
            subprocess.run([*apt, "update"], check=True)
        unfinished = folder / f"{name}.new"
        unfinished.mkdir(exist_ok=True)
        subprocess.run([*apt, "source", name], cwd=unfinished, check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(target)
    return next(path for path in sorted(target.iterdir()) if path.is_dir())


def run(command: str, folder: Path, **variables: str) -> float:
    """Carry out a command, and return the seconds of processor time that it took with all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **variables}
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
