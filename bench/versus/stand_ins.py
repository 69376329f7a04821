"""What the original is given in place of what it lacks: a terminal library of another age, and programs of LLVM 10.

Its compiler service is one program with LLVM 10 in it, and does all that is measured by itself. It is only linked with
libtinfo 5, which it uses to find out whether it may print in colours, and it starts clang and llvm-size when it loads a
program, to find out how large its object code is.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

Make = Callable[[Path], str]

TERMINAL_SOURCE = """
int setupterm(const char *terminal, int descriptor, int *error) { if (error) *error = 0; return -1; }
int tigetnum(const char *capability) { return -2; }
void *set_curterm(void *terminal) { return 0; }
int del_curterm(void *terminal) { return 0; }
"""
TERMINAL_VERSIONS = "NCURSES_TINFO_5.0.19991023 { global: setupterm; tigetnum; set_curterm; del_curterm; local: *; };\n"

SIZE = r"""#!/bin/sh
printf '   text\t   data\t    bss\t    dec\t    hex\tfilename\n   1000\t      0\t      0\t   1000\t    3e8\t%s\n' "$1"
"""
CLANG = """#!/bin/sh
exec '{clang}' "$@"
"""


class CannotMake(Exception):
    """There is nothing to make a stand-in of.

    Attributes:
        what: what the original lacks.
        needed: what would help.
    """

    def __init__(self, what: str, why: str, needed: str) -> None:
        super().__init__(why)
        self.what = what
        self.needed = needed


def find_clang() -> Path | None:
    """Return the clang that is installed with aiocg, or else one on PATH."""
    beside = Path(sys.executable).with_name("clang")
    found = str(beside) if beside.exists() else shutil.which("clang")
    return Path(found) if found else None


def make_terminal_library(folder: Path) -> str:
    """Make a libtinfo.so.5 that knows no terminal; return what to tell the reader.

    Raises:
        CannotMake: when there is no compiler, or it fails.
    """
    needed = "install libtinfo5 (Debian, Ubuntu) or ncurses-compat-libs (Fedora), or a C compiler"
    commands = [[str(clang), "-fuse-ld=lld"] for clang in [find_clang()] if clang]
    commands += [[compiler] for name in ("cc", "gcc") if (compiler := shutil.which(name))]
    said = "there is no C compiler to make a stand-in"
    with tempfile.TemporaryDirectory() as temporary:
        source, versions = Path(temporary) / "terminal.c", Path(temporary) / "versions"
        source.write_text(TERMINAL_SOURCE)
        versions.write_text(TERMINAL_VERSIONS)
        flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libtinfo.so.5", f"-Wl,--version-script={versions}"]
        for command in commands:
            done = subprocess.run(
                [*command, *flags, "-o", str(folder / "libtinfo.so.5"), str(source)],
                capture_output=True,
                text=True,
                timeout=60,
            )
            if done.returncode == 0:
                return "libtinfo.so.5 by a stand-in without terminals (it decides only about colours)"
            said = f"{command[0]} makes no stand-in: {done.stderr.strip()[-300:]}"
    raise CannotMake("libtinfo.so.5", said, needed)


def make_tools(folder: Path) -> str:
    """Make what stands for its unpacked LLVM archive; return what to tell the reader.

    Raises:
        CannotMake: when there is no clang.
    """
    clang = find_clang()
    if clang is None:
        raise CannotMake(
            "its LLVM archive (clang 10)",
            "there is no clang to take its place",
            "install aiocg with its LLVM, or clang",
        )
    tools = folder / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    for name, text in (("clang", CLANG.format(clang=clang)), ("llvm-size", SIZE)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (folder / ".unpacked").touch()
    said = subprocess.run([str(clang), "--version"], capture_output=True, text=True, timeout=60).stdout
    version = re.search(r"clang version [\w.]+", said)
    return (
        "its LLVM archive by a stand-in, so it runs without its clang: a cold reset starts "
        f"{version.group() if version else clang} for the sizes of object code, and a script in place of llvm-size"
    )
