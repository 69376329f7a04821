"""The compiler of a locked build: sources become bitcode, images come from the lock.

It is a program, `python -I -S compiler.py COMPILER NAME …`, started by commands on PATH, hundreds of times in a build.
So nothing but the standard library is imported, and of that nothing that Python has not loaded anyway: with `json` and
`typing` it would take twice as long. Images are linked by the process that has started the build.
"""

import os
import sys

VARIABLE = "AIOCG_SHRINK_PLAN"
"""The environment variable with what is to be done, written by `plan_text`."""

SOCKET = "links"
"""In the plan's folder: takes the folder, the umask and the words of a link, and says why it cannot be done, or ""."""

END, SEPARATOR = "\x1e", "\x1f"

_C = (".c", ".i")
_CPLUSPLUS = (".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CC", ".CPP", ".CXX", ".ii")
SOURCES = (*_C, *_CPLUSPLUS)
_OTHER_MODES = ("-E", "-S", "-M", "-MM", "-fsyntax-only", "-x", "-", "--version", "-r")
_OTHERS = (
    *("-fsanitize", "-fprofile", "-fcoverage", "--coverage", "-pg", "-finstrument", "-fxray"),
    *("-print", "-dump"),
)
_PROBES = ("CMakeFiles/", "CMakeTmp/", "meson-private/")
_RECORDING = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "llvm", "recording.py")
_BITCODE = b"BC\xc0\xde"


Plan = dict[str, list[str]]


def plan_text(plan: Plan) -> str:
    """Write a plan, so that it can be read by almost nothing."""
    return END.join(SEPARATOR.join((name, *words)) for name, words in plan.items())


def plan_of(text: str) -> Plan:
    """Read a plan."""
    return {name: words for name, *words in (line.split(SEPARATOR) for line in text.split(END)) if name}


def main() -> None:
    """Do what a compiler's command line asks for."""
    own, name, *words = sys.argv[1:]
    if not (plan := plan_of(os.environ.get(VARIABLE, ""))):  # CMake remembers us, whatever it is called for
        os.execv(sys.executable, [sys.executable, "-I", "-S", _RECORDING, *sys.argv[1:]])
    foreign = name == "zig" or name.rpartition("-")[2].startswith("ld")
    if foreign or any(word in _OTHER_MODES or word.startswith(_OTHERS) for word in words):
        os.execv(own, [own, *words])
    sources = [word for word in words if word.endswith(SOURCES) and not word.startswith("-")]
    cplusplus = "++" in name or any(word.endswith(_CPLUSPLUS) for word in sources)
    clang = plan["c++" if cplusplus else "c"]
    if "-c" in words:
        if len(sources) == 1 and not _is_probe(sources[0]):
            _compile(clang, sources[0], words, plan, own)
    elif _output(words) in plan["images"]:
        if not (problem := _linked(plan["folder"][0], name, words)):
            sys.exit(0)
        print(f"aiocg shrink: {' '.join((name, *words))[:99]}: linked by clang alone: {problem}", file=sys.stderr)
        os.execv(clang[0], [*clang, *plan["lto"], *words])
    elif any(_is_bitcode(word) for word in words):
        os.execv(clang[0], [*clang, *plan["lto"], *words])
    os.execv(own, [own, *words])


def _linked(folder: str, name: str, words: list[str]) -> str:
    """Have an image linked, and say why that cannot be done; "" if it is."""
    import socket

    os.umask(mask := os.umask(0o077))
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address(os.open(folder, os.O_RDONLY)))
            connection.sendall(os.fsencode(SEPARATOR.join((os.getcwd(), str(mask), name, *words))))
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as file:
                return file.read().decode()
    except OSError as error:
        return str(error)


def address(folder: int) -> str:
    """Return the path of the socket in an open folder: the folder's own may be too long for one."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def _compile(clang: list[str], source: str, words: list[str], plan: Plan, own: str) -> None:
    """Compile a source, for which the build calls the compiler `own`, to bitcode and exit; return if clang does not."""
    level = ([word for word in words if word.startswith("-O")] or ["-O0"])[-1]
    known = [*plan.get("level" + level, plan["level-O2"]), *(word for word in words if word not in plan["left_out"])]
    if own in plan["gnu"]:
        language = "c" if clang is plan["c"] else "c++"
        unaliased = plan["unaliased"] if language == "c++" and any(word in plan["shared"] for word in words) else []
        known = [*plan.get(f"gcc {language}{level}", plan[f"gcc {language}-O2"]), *unaliased, *known]
    named = any(word.startswith("-o") for word in words)
    output = [] if named else ["-o", f"{os.path.splitext(os.path.basename(source))[0]}.o"]
    lenient = plan["lenient"] if source.endswith(_C) else []
    line = [*clang, *known, *plan["bitcode"], *lenient, *output]
    silent = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(line[0], line, os.environ, file_actions=silent)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        sys.exit(0)


def _is_probe(source: str) -> bool:
    """Say whether a source is a build system's test of the compiler."""
    return os.path.basename(source).startswith(("conftest.", "ztest")) or any(one in source for one in _PROBES)


def _output(words: list[str]) -> str:
    """Return the absolute path of what a link writes."""
    name = "a.out"
    for before, word in zip(("", *words), words, strict=False):
        if before == "-o":
            name = word
        elif word.startswith("-o") and len(word) > 2:
            name = word[2:]
    return os.path.abspath(name)


def _is_bitcode(word: str) -> bool:
    if word.startswith("-") or not os.path.isfile(word):
        return False
    with open(word, "rb") as file:
        return file.read(4) == _BITCODE


if __name__ == "__main__":
    main()
