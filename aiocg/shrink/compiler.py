"""The compiler of a locked build: sources become bitcode, images come from the lock.

It is a program, `python -I -S compiler.py COMPILER NAME …`, started by commands on PATH, hundreds of times in a build.
So nothing but the standard library is imported, and of that nothing that Python has not loaded anyway: with `json` and
`typing` it would take twice as long. Images are linked by the process that has started the build.
"""

import os
import sys

VARIABLE = "AIOCG_SHRINK_PLAN"
"""The environment variable with the path of a file that says what is to be done, written by `plan_text`."""

SOCKET = "requests"
"""In the plan's folder: takes what `_request_text` writes, and says why it cannot be done, or ""."""

NOT_OURS = "not ours"
"""The answer about a link of nothing that has become bitcode."""

COMPILED = "compiled"
"""In the plan's folder: a line of `_compiled_text` for each unit of the lock file that was compiled."""

KEPT = "keep"
"""The kind of a request about a unit that the build's compiler has compiled."""

LAST, END, SEPARATOR = "\x1d", "\x1e", "\x1f"

_C = (".c", ".i")
_CPLUSPLUS = (".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CC", ".CPP", ".CXX", ".ii")
SOURCES = (*_C, *_CPLUSPLUS)
_OTHER_MODES = ("-E", "-S", "-M", "-MM", "-fsyntax-only", "-x", "-", "--version", "-r")
_OTHERS = ("-fsanitize", "-fprofile", "-fcoverage", "--coverage", "-pg", "-finstrument", "-fxray", "-print", "-dump")
_PROBES = ("CMakeFiles/", "CMakeTmp/", "meson-private/")
_TOOLS = ("nm", "size", "strings", "objdump", "readelf", "objcopy", "strip")
_RECORDING = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "llvm", "recording.py")


Plan = dict[str, list[str]]


def plan_text(plan: Plan) -> str:
    """Write a plan, so that it can be read by almost nothing."""
    return END.join(SEPARATOR.join((name, *words)) for name, words in plan.items())


def plan_of(text: str) -> Plan:
    """Read a plan."""
    return {name: words for name, *words in (line.split(SEPARATOR) for line in text.split(END)) if name}


def _request_text(kind: str, own: str, words: list[str]) -> str:
    """Write a request of this process: "compile" or "link", the path of the build's compiler, and the command line."""
    os.umask(mask := os.umask(0o077))
    variables = (f"{name}={value}" for name, value in os.environ.items() if not {LAST, END, SEPARATOR} & {*value})
    return END.join((SEPARATOR.join((kind, os.getcwd(), str(mask), own, *words)), SEPARATOR.join(variables)))


def request_of(text: str) -> tuple[str, str, int, str, list[str], dict[str, str]]:
    """Read a request: its kind, folder, umask, compiler, command line and environment."""
    request, _, variables = text.partition(END)
    kind, folder, mask, own, *words = request.split(SEPARATOR)
    pairs = (variable.partition("=") for variable in variables.split(SEPARATOR))
    return kind, folder, int(mask), own, words, {name: value for name, _, value in pairs}


def _compiled_text(content: bytes, request: str) -> str:
    """Write for `COMPILED` which object a request to compile has become."""
    import hashlib

    return f"{hashlib.sha256(content).hexdigest()}{END}{request}{LAST}"


def compiled_of(text: str) -> dict[str, str]:
    """Read a file of `_compiled_text`: the requests by the SHA-256 of the objects."""
    return {digest: request for digest, _, request in (line.partition(END) for line in text.split(LAST)) if digest}


def main() -> None:
    """Do what a compiler's command line asks for."""
    own, name, *words = sys.argv[1:]
    try:
        with open(os.environ.get(VARIABLE, ""), errors="surrogateescape") as file:
            plan = plan_of(file.read())
    except OSError:  # CMake remembers us, whatever it is called for
        os.execv(sys.executable, [sys.executable, "-I", "-S", _RECORDING, *sys.argv[1:]])
    kind = name.rpartition("-")[2]
    foreign = name == "zig" or kind.startswith("ld") or kind in _TOOLS
    if foreign or any(word in _OTHER_MODES or word.startswith(_OTHERS) for word in words):
        os.execv(own, [own, *words])
    sources = [word for word in words if word.endswith(SOURCES) and not word.startswith("-")]
    compiled = os.path.join(plan["folder"][0], COMPILED)
    if "-c" in words:
        source = os.path.abspath(sources[0]) if len(sources) == 1 else ""
        if source in plan["retold"]:
            if not _asked(plan, "compile", own, [name, *words]):
                sys.exit(0)
        elif source in plan["units"]:
            cplusplus = "++" in name or source.endswith(_CPLUSPLUS)
            if not _compile(plan["c++" if cplusplus else "c"], sources[0], words, plan, own):
                record(compiled, _object_of(words), _request_text("compile", own, [name, *words]))
                sys.exit(0)
        if source in plan["units"] or source in plan["kept"]:
            status = _run([own, *words])
            if not status:
                record(compiled, _object_of(words), _request_text(KEPT, own, [name, *words]))
            sys.exit(status if status >= 0 else 128 - status)
    elif _output(words) in plan["images"] or (os.path.exists(compiled) and not any(map(_is_probe, sources))):
        problem = _asked(plan, "link", own, [name, *words])
        if not problem:
            sys.exit(0)
        if problem != NOT_OURS:
            print(f"aiocg shrink: {' '.join((name, *words))[:99]}: {problem}", file=sys.stderr)
    os.execv(own, [own, *words])


def _asked(plan: Plan, kind: str, own: str, words: list[str]) -> str:
    """Have something done by the process that has started the build, and say why that cannot be; "" if it is."""
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address(os.open(plan["folder"][0], os.O_RDONLY)))
            connection.sendall(os.fsencode(_request_text(kind, own, words)))
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as file:
                return file.read().decode()
    except OSError as error:
        return str(error)


def address(folder: int) -> str:
    """Return the path of the socket in an open folder: the folder's own may be too long for one."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def _compile(clang: list[str], source: str, words: list[str], plan: Plan, own: str) -> int:
    """Compile a source to bitcode, and return clang's exit status.

    Args:
        clang: the first words of the command.
        source: one of the words.
        words: of the build's command line, after the compiler's name.
        plan: of the build.
        own: the path of the build's compiler.
    """
    level = ([word for word in words if word.startswith("-O")] or ["-O0"])[-1]
    known = [*plan.get("level" + level, plan["level-O2"]), *(word for word in words if word not in plan["left_out"])]
    if own in plan["gnu"]:
        language = "c" if clang is plan["c"] else "c++"
        (no_exceptions,) = plan["no exceptions"]
        unaliased = plan["unaliased"] if language == "c++" and any(word in plan["shared"] for word in words) else []
        throwing: list[str] = []
        if not any(word in plan["unthrowing"] for word in words) and (language == "c" or no_exceptions in words):
            throwing = plan["throwing"]
            known = [word for word in known if word != no_exceptions]
        known = [*plan.get(f"gcc {language}{level}", plan[f"gcc {language}-O2"]), *unaliased, *throwing, *known]
    lenient = plan["lenient"] if source.endswith(_C) else []
    output = [] if _named(words) else ["-o", _object_of(words)]
    silent: list[tuple[object, ...]] = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    return _run([*clang, *known, *plan["bitcode"], *lenient, *output], silent)


def _run(line: list[str], actions: "list[tuple[object, ...]] | None" = None) -> int:
    """Run a compiler, and return its exit status."""
    child = os.posix_spawn(line[0], line, os.environ, file_actions=actions or [])
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:  # the compiler gets it, too
            continue


def record(path: str, output: str, request: str) -> None:
    """Add to the file `COMPILED` what a request has become."""
    with open(output, "rb") as made:
        text = _compiled_text(made.read(), request)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, os.fsencode(text))  # at once, as others write to it, too
    os.close(descriptor)


def _object_of(words: list[str]) -> str:
    """Return the name of the object that a command line compiles a source to."""
    source = next(word for word in words if word.endswith(SOURCES) and not word.startswith("-"))
    return _named(words) or f"{os.path.splitext(os.path.basename(source))[0]}.o"


def _is_probe(source: str) -> bool:
    """Say whether a source is a build system's test of the compiler."""
    return os.path.basename(source).startswith(("conftest.", "ztest")) or any(one in source for one in _PROBES)


def _output(words: list[str]) -> str:
    """Return the absolute path of what a link writes."""
    return os.path.abspath(_named(words) or "a.out")


def _named(words: list[str]) -> str:
    """Return the output that a command line names, "" if it names none."""
    name = ""
    for before, word in zip(("", *words), words, strict=False):
        if before == "-o":
            name = word
        elif word.startswith("-o") and len(word) > 2:
            name = word[2:]
    return name


if __name__ == "__main__":
    main()
