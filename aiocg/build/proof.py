"""Proof that clang compiles the same program as the build's compiler.

Before clang's code for a translation unit takes the place of the build's, three things must hold:

1. The recorded command writes the recorded object again. So the source, all headers, the environment and the compiler
   are what they were: nothing that the build has written since is taken for what it read.
2. Both compilers read the same text. The user's lines that are left after all conditionals are compared; where they
   differ, clang is given the text as the build's preprocessor leaves it.
3. Every option, attribute and pragma that clang does not honour is known to change nothing but the speed or the
   diagnostics.

What fails one of them stays as the build has made it.
"""

import functools
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiocg.build.commands import Origin, Unit, object_name
from aiocg.build.compilation import front_end_words
from aiocg.datasets.dependency import includes_files
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.gcc.meaning import is_meaning
from aiocg.llvm.command_line import UNTYPED_LEVELS, Input, Token
from aiocg.llvm.recording import is_linker
from aiocg.transport.elf import sections

TIMEOUT = 600.0  # seconds for one command
DISAGREES = (
    "compiling it again gives another object, so its source, a header or its environment has changed since, "
    "or it names the time"
)

_LTO_NAME = re.compile(rb"\.gnu\.(?:debug)?lto_[\w.$]*\.[0-9a-f]{8,16}")
_MEMBER = re.compile(r"(\S[^()]*)\(([^()]+)\)")
_WHOLE = "(--whole-archive)"
_HEADING = re.compile(r"\w[^()]*")  # in a map of GNU's linker
_SYSTEM = ("/usr/", "/lib")
_MARKER = re.compile(r'#(?: line)? \d+ "((?:[^"\\]|\\.)*)"((?: \d)*)')
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|\.?\d(?:[eEpP][+-]|[\w.'])*|\w+|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\S""",
    re.DOTALL,
)
_HEX = re.compile(r"^0[xX][0-9a-fA-F]+$")
_DEFINED = re.compile(r"^#define (\w+)(.*)$", re.MULTILINE)
_PLACES = {"__LINE__", "assert", "__FILE__", "__BASE_FILE__", "__FILE_NAME__", "__INCLUDE_LEVEL__", "__COUNTER__"}
_TELLING = re.compile(r"__FINITE_MATH_ONLY__|__USER_LABEL_PREFIX__|__SIZEOF_[A-EG-Z]\w*__")
_TELLING_IF_DEFINED = re.compile(
    r"__(SSP(_ALL|_STRONG|_EXPLICIT)?|CET|CHAR_UNSIGNED|EXCEPTIONS|NO_INLINE|FAST_MATH|STRICT_ANSI)__|"
    r"__EXCEPTIONS|__GXX_RTTI|_FORTIFY_SOURCE"
)
"""Macros that tell how a compiler compiles: by their values, and by being defined."""
_OF_COMPILERS = {"__builtin_LINE", "__builtin_COLUMN"}
_OF_CPLUSPLUS = {"__PRETTY_FUNCTION__", "source_location"}
"""What compilers have different values for, the latter in C++ alone."""
_FIELD = re.compile(r"\b(?!case )\w+ \w+ : [^;:?]*[;,]")
_WIDE_FIELD = re.compile(r"(?:\b\w+|,) (\w+) : (?:3[3-9]|[45]\d|6[0-3])\b")
_ATOMIC = re.compile(r"\b_Atomic (?:\( )?(\w+)")
_NUMBER = re.compile(
    r"void|_?[Bb]ool|char|short|int|long|signed|unsigned|float|double|enum|const|volatile|static|extern|"
    r"u?int(?:(?:_least|_fast)?\d+|ptr|max)_t|s?size_t|ptrdiff_t|wchar_t|char\d+_t"
)
_COMPLEX = {"_Complex", "__complex__", "complex"}
_OF_LEVELS = {"__OPTIMIZE__", "__OPTIMIZE_SIZE__", "__NO_INLINE__"}
_TEXT_OPTIONS = ("-D", "-U", "-I", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-i", "-nostdinc", "-A")
_BESIDE = ("-save-temps", "--save-temps", "-fopt-info", "-aux-info", "-Wa,-a")
"""Options that write files which are not named by the object."""
_DIRECTIVES = ("-fdirectives-only", "-Wno-unused-macros")  # which GCC does not take with that warning
_PACK = "__builtin_va_arg_pack"  # arguments of an inlined function, which clang does not have
_POWERS = [f"-fno-builtin-{name}{kind}" for name in ("exp2", "exp10") for kind in ("", "f", "l")]
_PRETTY = "-D__PRETTY_FUNCTION__=__func__"
_PACKS = {
    "integer_sequence<_Tp, __integer_pack(_Num)...>": "__make_integer_seq<integer_sequence, _Tp, _Num>",
    "using __type = _Index_tuple<__integer_pack(_Num)...>;": "template<typename, size_t... _All> "
    "using _Made = _Index_tuple<_All...>; using __type = __make_integer_seq<_Made, size_t, _Num>;",
}
"""What libstdc++'s <utility> says to GCC, and to clang."""
_FLOATS = {
    "_Float32": "float",
    "_Float64": "double",
    "_Float32x": "double",
    "_Float64x": "long double",
    "_Float128": "__float128",
}
"""GCC's types of numbers that clang does not have in C, and others with the same values."""
_FLOAT = re.compile(r"\b_Float(?:32x?|64x?|128)\b")
_DIAGNOSTIC = re.compile(
    r"(?:unknown argument|not supported|does not support|argument unused|unsupported (?:option|arg))"
)
_QUOTED = re.compile(r"'(-[^'\n]+)'")
_IGNORED = re.compile(r"^(.*?):(\d+):\d+: warning: (.*) \[-W([\w-]+)\]$", re.MULTILINE)

_FREE_OPTIONS = re.compile(
    r"-w|-W(?![alp],).*|-pedantic.*|-pipe|-g.*|-O.*|-M.*|-l.*|-L.*|-Wl,.*|-z|-s|-static.*|-shared.*|-rdynamic|-(no-)?pie|"
    r"-f(no-)?(diagnostics|message-length|max-errors|show-column|working-directory|var-tracking|record-gcc-switches|"
    r"canonical-system-headers|fat-lto-objects|use-linker-plugin|eliminate-unused-debug|debug-|dwarf|compare-debug|"
    r"macro-backtrace|template-backtrace|concepts-diagnostics|opt-info|stack-usage|stats|mem-report|time-report|analyzer"
    r").*|"
    r"-m(no-)?(align-stringops|inline-\w*stringops\w*|mem(cpy|set)-strategy=.*|tune=.*|tune-ctrl=.*|push-args|"
    r"accumulate-outgoing-args|branch-cost=.*|prefer-vector-width=.*|vect8-ret-in-mem|libarch=.*)"
)
"""Options without which a compiler makes the same program: of warnings, debug information, files, links, and speed."""

_OTHERWISE = re.compile(
    r"-ftrapv|-fnon-call-exceptions|-fstack-check.*|-mstack-arg-probe|-fopenmp|-fopenacc|-fexcess-precision=standard|"
    r"-fgnu-tm|-fno-use-cxa-atexit|-ftrivial-auto-var-init=pattern"
)
"""Options that clang takes without a word, and that mean something else to GCC."""

_FREE_ATTRIBUTES = frozenset(
    """
    noclone noipa externally_visible artificial access fd_arg fd_arg_read fd_arg_write nonstring tainted_args malloc
    warn_if_not_aligned designated_init leaf no_icf no_split_stack null_terminated_string_arg expected_throw optimize
    """.split()  # noqa: SIM905
)
"""Attributes without which a function or variable is the same."""

_READ_PRAGMAS = frozenset(
    ["GCC", "STDC", "omp", "acc", "pack", "weak", "redefine_extname", "scalar_storage_order", "push_macro", "pop_macro"]
)
_FREE_PRAGMA = re.compile(r"GCC (ivdep|unroll|push_options|pop_options|reset_options|diagnostic|dependency|message)\b")


class Unrepeatable(BenchmarkInitError):
    """Compiling a unit again gives another object."""


def is_gcc(compiler: tuple[str, ...]) -> bool:
    """Say whether a compiler is a GCC: it lists its optimiser's options."""
    return bool(optimisers(compiler))


@functools.lru_cache(maxsize=64)
def unasked_words(compiler: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a link that a compiler adds by itself, and clang does not.

    They are `--as-needed`, as on Ubuntu, and the object that makes denormal numbers zero when a program starts, with
    -Ofast; GCC links that into shared libraries as well before version 13.

    Args:
        compiler: how it is called.
        words: of the link, those on which this depends.
    """
    try:
        done = subprocess.run([*compiler, *words, "-###", os.devnull], capture_output=True, text=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    before, _, _ = done.stderr.partition(os.devnull + " ")
    sparing = ("-Wl,--as-needed",) if "--as-needed" in before else ()
    return (*sparing, *(word for word in _split(done.stderr) if os.path.basename(word) == "crtfastmath.o"))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # what else it says may have any quotation marks
        return text.split()


def check_repeatable(unit: Unit, scratch: Path) -> None:
    """Compile a unit once more as the build did, and compare the objects.

    Args:
        unit: with what was recorded of it.
        scratch: a folder.

    Raises:
        Unrepeatable: when the result is another object; BenchmarkInitError when there is none.
    """
    origin, name = unit.origin, unit.input.path
    if origin is None or not origin.digest:
        return
    if name == "-":
        raise BenchmarkInitError(name, "its source was the standard input, which is gone")
    again = scratch / f"again-{threading.get_ident()}-{os.path.basename(name)}.o"
    compile_again(replace(unit, origin=_at_another_time(origin)), again)
    content = again.read_bytes()
    again.unlink()
    if hashlib.sha256(content).hexdigest() == origin.digest:
        return
    if _LTO_NAME.search(content) and unit.object is not None and unit.object.is_file():
        own = unit.object.read_bytes()  # GCC draws these names at random
        known = hashlib.sha256(own).hexdigest() == origin.digest
        if known and _without_random_names(content) == _without_random_names(own):
            return
    raise Unrepeatable(name, DISAGREES)


def _without_random_names(content: bytes) -> list[tuple[bytes, int, bytes]]:
    """Return the sections of an object, without the names that GCC draws for link-time optimisation."""
    found = sections(content)
    parts = (content[one.offset : one.offset + one.size] if one.is_stored else b"" for one in found)
    return [
        (_LTO_NAME.sub(b"", one.name.encode()), one.flags, _LTO_NAME.sub(b"", part))
        for one, part in zip(found, parts, strict=True)
    ]


def compile_again(unit: Unit, target: Path) -> None:
    """Compile a unit to an object as the build did, which may have compiled it while it linked.

    Raises:
        BenchmarkInitError: when the compiler fails.
    """
    assert unit.origin is not None
    _run([*unit.origin.compiler, *recorded_words(unit), "-c", "-o", str(target)], unit, unit.origin)


def _at_another_time(origin: Origin) -> Origin:
    """Return how something was made, with another date for `__DATE__` and `__TIME__` unless it had one already."""
    return replace(origin, environment={"SOURCE_DATE_EPOCH": "1", **origin.environment})


def check_relinkable(origin: Origin, digest: str, directory: Path, scratch: Path) -> tuple[str, ...] | None:
    """Link an image once more as the build did, and compare the images: so its sources and libraries are as they were.

    Args:
        origin: of the image.
        digest: the SHA-256 of the image.
        directory: where it was linked.
        scratch: a folder.

    Returns:
        The members of archives that were linked, in order, see `own_member`, without those of whole archives; None if
        the linker does not say.

    Raises:
        BenchmarkInitError: when the result is another image, or there is none.
    """
    again = scratch / "again" / os.path.basename(origin.command.output or "a.out")  # the name may be in the image
    again.parent.mkdir(exist_ok=True)
    tokens = [token for token in origin.command.tokens if token.kind not in ("output", "dependency")]
    words = [word for token in tokens if not _writes(token) for word in token.words]
    told = scratch / "map"
    more = ["-Map", str(told)] if is_linker(origin.command.driver) else [f"-Wl,-Map,{told}"]
    line = [*origin.compiler, *words, *more, "-o", str(again)]
    _started(line, directory, _at_another_time(origin), origin.command.output or "a.out")
    content = again.read_bytes()
    again.unlink()
    if hashlib.sha256(content).hexdigest() != digest:
        raise BenchmarkInitError(origin.command.output or "a.out", DISAGREES.replace("object", "image"))
    text = told.read_text(errors="surrogateescape") if told.is_file() else ""
    if not text.lstrip().startswith("Archive member included"):
        return () if "Memory Configuration" in text else None  # lld's map is another
    lines = re.sub(r"\n[ \t]+(?=\S)", " ", text.lstrip()).splitlines()[1:]  # what follows a long name stands below it
    members = itertools.takewhile(lambda line: not _HEADING.fullmatch(line), lines)
    return tuple(named for line in members if not line.endswith(_WHOLE) and (named := own_member(line)))


def own_member(line: str) -> str:
    """Return the member of an archive that a line begins with, such as `libx.a(y.o)`; "" for those of the system.

    Of a thin archive GNU's linker names the member's file, and then for what it was taken.
    """
    found = _MEMBER.match(line)
    if found and found[1][-1:].isspace():
        return os.path.basename(found[1].split()[0])
    return f"{os.path.basename(found[1])}({found[2]})" if found and not found[1].startswith(_SYSTEM) else ""


def _writes(token: Token) -> bool:
    """Say whether an option of a link names a file to be written beside the image."""
    option = token.words[token.words[0] == "-Xlinker"].removeprefix("-Wl,")
    return option.startswith(("-Map", "--Map", "--dependency-file"))


def proved(unit: Unit, level: str, scratch: Path) -> Unit:
    """Return what clang may compile in place of a unit: `check_repeatable` and then `readable`."""
    check_repeatable(unit, scratch)
    return readable(unit, level, scratch)


def readable(unit: Unit, level: str, scratch: Path) -> Unit:
    """Return the unit that clang may compile in place of one: itself, or the text that the build's compiler reads.

    Args:
        unit: with what was recorded of it; without that it is returned as it is.
        level: for the front end, such as "-Oz".
        scratch: where the text is written.

    Raises:
        BenchmarkInitError: when clang would compile another program; it says why.
    """
    origin = unit.origin
    if origin is None:
        return unit
    for option in unit.command.options() if is_gcc(origin.compiler) else ():
        if _OTHERWISE.fullmatch(option):
            raise BenchmarkInitError(unit.input.path, f"clang does not do with {option} what GCC does")
    for option in added(unit, origin):
        if option not in unit.command.options() and not _is_free(option, origin.compiler):
            raise BenchmarkInitError(
                unit.input.path, f"{origin.compiler[0]} adds {option}, which the build does not say"
            )
    unknown = _unknown_options(unit, origin, level)
    same, headers = _same_text(unit, origin, level, unknown, scratch)
    same = _as_gcc(same, origin)
    _check_marks(same, unit.input.path, level, unknown, headers)
    return same


SHARED = ("-fPIC", "-fpic")
UNALIASED = "-Xclang=-mno-constructor-aliases"
"""For C++ in shared libraries: else a destructor may be an alias of one that may be replaced, which LLVM refuses."""


UNCONTRACTED = "-ffp-contract=off"
THROWING = ("-fexceptions", "-fno-cxx-exceptions", "-fignore-exceptions", "-U__EXCEPTIONS")
"""For what has no exceptions of its own: they pass through it by its unwind tables, and clean up nothing there."""
UNTHROWING = ("-fexceptions", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
"""Options by which exceptions clean up, or cannot pass."""
NO_EXCEPTIONS = "-fno-exceptions"
"""With which C++ is like C; to clang it means that exceptions cannot pass, either."""


def contracts(unit: Unit) -> bool:
    """Say whether the build's compiler may round a product and a sum at once, if the machine can."""
    words = unit.command.options()
    said = [word for word in words if word.startswith("-ffp-contract=")]
    standards = [word for word in words if word.startswith(("-std=", "--std=", "-ansi"))]
    if unit.origin is None or not is_gcc(unit.origin.compiler):
        return False
    if said:
        return said[-1] != UNCONTRACTED
    is_strict = bool(standards) and "gnu" not in standards[-1] and unit.language == "c"
    return unit.command.level not in UNTYPED_LEVELS and not is_strict


def gcc_words(level: str, *, cplusplus: bool) -> list[str]:
    """Return options with which clang does what GCC does unless it is told otherwise.

    Exported functions may be replaced by other objects. Loops need not end, in C++ up to -O1. In C,
    `__PRETTY_FUNCTION__` is the name alone. Products and sums are rounded each; see `contracts`. Powers of 2 and 10 are
    those of `pow`.
    """
    endless = [] if cplusplus and level not in UNTYPED_LEVELS else ["-fno-finite-loops"]
    return ["-fsemantic-interposition", UNCONTRACTED, *_POWERS, *endless, *([] if cplusplus else [_PRETTY])]


def throws(words: Sequence[str], *, cplusplus: bool) -> bool:
    """Say whether exceptions pass through what GCC compiles with some words, and it has none itself."""
    return {*UNTHROWING}.isdisjoint(words) and (not cplusplus or NO_EXCEPTIONS in words)


def _as_gcc(unit: Unit, origin: Origin) -> Unit:
    if not is_gcc(origin.compiler):
        return unit
    cplusplus = unit.language == "c++"
    words = gcc_words(unit.command.level, cplusplus=cplusplus)
    words += [UNALIASED] if cplusplus and not {*SHARED}.isdisjoint(unit.command.words) else []
    is_native = not any(word.startswith(("--target", "-target")) for word in unit.command.words)
    own = unit.command.tokens
    if is_native and throws(unit.command.words, cplusplus=cplusplus):
        words += THROWING
        own = tuple(token for token in own if token.words != (NO_EXCEPTIONS,))
    tokens = (*(Token("option", (word,)) for word in words), *own)
    return replace(unit, command=replace(unit.command, tokens=tokens))


def has_used(unit: Unit) -> bool:
    """Say whether the user's lines of a unit have the attribute `used` or `retain`.

    Raises:
        BenchmarkInitError: when it cannot be preprocessed.
    """
    if unit.origin is None:
        return True
    text, _ = _conditioned([*unit.origin.compiler, *recorded_words(unit), "-E"], unit, unit.origin)
    return not {"used", "__used__", "retain", "__retain__"}.isdisjoint(_user_tokens(text, unit))


def assembly_names(unit: Unit) -> frozenset[str]:
    """Return what the assembly in the user's lines of a unit may name: the words in their strings, if there is any.

    Raises:
        BenchmarkInitError: when it cannot be preprocessed.
    """
    if unit.origin is None:
        return frozenset()
    text, _ = _conditioned([*unit.origin.compiler, *recorded_words(unit), "-E"], unit, unit.origin)
    tokens = _user_tokens(text, unit)
    if {"asm", "__asm__", "__asm"}.isdisjoint(tokens):
        return frozenset()
    return frozenset(word for token in tokens if token.startswith('"') for word in re.findall(r"[\w.$]+", token))


def reads_level(unit: Unit) -> bool:
    """Say whether the user's text of a unit is another one at another level: by the macros of levels.

    Raises:
        BenchmarkInitError: when it cannot be preprocessed.
    """
    if unit.origin is None:
        return True
    line = [*unit.origin.compiler, *recorded_words(unit), "-E"]
    texts = [_user_tokens(_conditioned([*line, *more], unit, unit.origin)[0], unit) for more in ([], ["-Os"], ["-O2"])]
    return texts[0] != texts[1] or texts[0] != texts[2] or not _OF_LEVELS.isdisjoint(texts[0])


def _unknown_options(unit: Unit, origin: Origin, level: str) -> set[str]:
    """Return the options that clang refuses and that change nothing.

    Raises:
        BenchmarkInitError: when clang does not honour an option that may mean something.
    """
    told = _clang([*front_end_words(unit, level, silent=False), "-c", "-o", os.devnull, "-###"], unit).stderr
    given = set(unit.command.options("linking", "dependency", "level"))
    unknown = set()
    for line in filter(_DIAGNOSTIC.search, told.splitlines()):
        for option in given.intersection(_QUOTED.findall(line)):
            if not _is_free(option, origin.compiler):
                raise BenchmarkInitError(unit.input.path, f"clang does not honour {option}")
            if "error:" in line:
                unknown.add(option)
    return unknown


def _known_words(unit: Unit, level: str, unknown: AbstractSet[str], *, silent: bool = True) -> list[str]:
    return [word for word in front_end_words(unit, level, silent=silent) if word not in unknown]


def _same_text(
    unit: Unit, origin: Origin, level: str, unknown: AbstractSet[str], scratch: Path
) -> tuple[Unit, set[str]]:
    """Return the unit if both compilers read the same text, or one with the text that the build's compiler reads.

    With it come the names of system headers that clang reads.
    """
    by_build = [*origin.compiler, *recorded_words(unit), "-E"]
    by_clang = [*_known_words(unit, level, unknown), "-E"]
    text, mode = _conditioned(by_build, unit, origin)
    folders = list(_folders(unit))
    for name in _by_files(text, unit)[1]:
        ends = [os.path.join(*Path(name).parts[-count:]) for count in range(1, len(Path(name).parts) + 1)]
        for one in (name, *(os.path.join(folder, end) for folder in folders for end in ends)):
            if (unit.directory / f"{one}.gch").exists():
                raise BenchmarkInitError(unit.input.path, f"{one} is there as a precompiled header, too")
    theirs = _user_tokens(text, unit)
    ours = _clang([*by_clang, *mode[:1]], unit)
    headers = _by_files(ours.stdout, unit)[2]
    differing = _differing_macros(unit, origin, level, unknown)
    names = set(theirs)
    cplusplus = unit.language == "c++"
    if is_gcc(origin.compiler):
        if others := names & (_OF_COMPILERS | (_OF_CPLUSPLUS if cplusplus else set())):
            raise BenchmarkInitError(unit.input.path, f"compilers have different values for {min(others)}")
        if not cplusplus:
            _check_types(unit, origin, theirs)
    if not ours.returncode and theirs == _user_tokens(ours.stdout, unit) and names.isdisjoint(differing):
        if names.isdisjoint(_PLACES):
            return unit, headers
        if _literals(_run(by_build, unit, origin), unit) == _literals(_clang(by_clang, unit).stdout, unit):
            return unit, headers
    found = _retold(unit, origin, scratch)
    done = _clang([*_known_words(found, level, unknown), "-fsyntax-only", "-fno-color-diagnostics"], found)
    if done.returncode:
        why = next((line for line in done.stderr.splitlines() if "error:" in line), "")
        raise BenchmarkInitError(
            unit.input.path,
            f"clang would read another text, and not take that of {os.path.basename(origin.compiler[0])}: {why}",
        )
    return found, headers


def _check_types(unit: Unit, origin: Origin, tokens: Sequence[str]) -> None:
    """Refuse C whose own lines use types of which the compilers make different values.

    GCC computes with a bit-field that is wider than `int` in its own width, clang in the type that is declared.
    It divides complex constants in another precision, and does not pad what is atomic to a power of two.

    Raises:
        BenchmarkInitError: when they do.
    """
    text = " ".join(tokens)
    if _FIELD.search(text):
        text = " ".join(_user_tokens(_run([*origin.compiler, *recorded_words(unit), "-E"], unit, origin), unit))
        for name in _WIDE_FIELD.findall(text):
            if re.search(rf"(?:- >|\.) {name}\b", text):
                raise BenchmarkInitError(
                    unit.input.path, f"compilers compute with the bit-field {name} in other widths"
                )
    if name := next((one for one in _ATOMIC.findall(text) if not _NUMBER.fullmatch(one)), ""):
        raise BenchmarkInitError(unit.input.path, f"an atomic {name} may have another size")
    if name := next(iter(_COMPLEX & {*tokens}), ""):
        raise BenchmarkInitError(unit.input.path, f"compilers round constants of {name} types in other ways")


def retold(unit: Unit, scratch: Path) -> Unit:
    """Return a unit with the text that the build's compiler reads, as `readable` does where clang would read another.

    The rules for `make` that the build asks for are written as well.

    Args:
        unit: with what was recorded of it.
        scratch: where the text is written.

    Raises:
        BenchmarkInitError: when it cannot be preprocessed.
    """
    assert unit.origin is not None
    return _as_gcc(_retold(unit, unit.origin, scratch, _rule_words(unit)), unit.origin)


def _retold(unit: Unit, origin: Origin, scratch: Path, more: Sequence[str] = ()) -> Unit:
    by_build = [*origin.compiler, *recorded_words(unit), "-E", *more]
    cplusplus = unit.language == "c++"
    language = "c++-cpp-output" if cplusplus else "cpp-output"
    path = scratch / f"{os.path.basename(unit.input.path)}-{abs(hash(unit)):x}.i"
    pretty = [] if cplusplus or not is_gcc(origin.compiler) else [_PRETTY]
    text = _run([*by_build, *pretty], unit, origin)
    if _PACK in text:
        text = _run([*by_build, *pretty, *_without_packs(scratch)], unit, origin)
    for theirs_only, known in _PACKS.items() if cplusplus else ():
        text = text.replace(theirs_only, known)
    if not cplusplus and not _FLOAT.search("\n".join(_by_files(text, unit)[0])):  # only a system's has any
        text = _FLOAT.sub(lambda found: _FLOATS[found[0]], text)
    path.write_text(text, errors="surrogateescape")
    return replace(unit, source=path, input=Input(str(path), language, language))


def is_self_contained(unit: Unit) -> bool:
    """Say whether clang makes the same of the command that compiles a unit as of the unit.

    That has no other source, no options of which nothing is left, and no assembly that includes files.
    """
    if unit.origin is None or len(unit.origin.command.sources) != 1:
        return False
    if unit.origin.command.plain() != unit.origin.command:
        return False
    return not includes_files(unit.source, unit.directory, unit.command.options())


def has_plain_rules(unit: Unit) -> bool:
    """Say whether `retold` can write what the build's compiler wrote beside an object of a unit."""
    return unit.origin is not None and not any(word.startswith("-Wp,-M") for word in unit.origin.command.words)


def _rule_words(unit: Unit) -> list[str]:
    """Return the options with which a preprocessor writes the rules for `make` that a unit's compilation writes."""
    assert unit.origin is not None and unit.object is not None
    words = [word for token in unit.origin.command.tokens if token.kind == "dependency" for word in token.words]
    if {"-MD", "-MMD"}.isdisjoint(words):
        return []
    if not any(word.startswith("-MF") for word in words):
        words += ["-MF", str(unit.object.with_suffix(".d"))]
    if not any(word.startswith(("-MT", "-MQ")) for word in words):
        words += ["-MQ", object_name(unit.origin.command, unit)]
    return words


def _conditioned(line: Sequence[str], unit: Unit, origin: Origin) -> tuple[str, tuple[str, ...]]:
    """Return a unit's text when its conditionals are done, and with which options; if need be with its macros expanded.

    A condition with `__COUNTER__` is an error where macros are left.
    """
    try:
        return _run([*line, *_DIRECTIVES], unit, origin), _DIRECTIVES
    except BenchmarkInitError:
        return _run(line, unit, origin), ()


def _without_packs(scratch: Path) -> list[str]:
    """Return options by which the C library's checked functions are macros, as they are for compilers but GCC."""
    header = scratch / "without-packs/sys/cdefs.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text("#include_next <sys/cdefs.h>\n#undef __va_arg_pack\n#undef __va_arg_pack_len\n")
    return ["-isystem", str(header.parent.parent)]


def _differing_macros(unit: Unit, origin: Origin, level: str, unknown: AbstractSet[str]) -> set[str]:
    """Return the names that the two compilers define in different ways, or that only one of them defines.

    Raises:
        BenchmarkInitError: when one tells that they would compile the same text to another program.
    """
    source = replace(unit, input=Input(os.devnull, unit.input.language, unit.input.language))
    theirs = dict(_DEFINED.findall(_run([*origin.compiler, *recorded_words(source), "-E", "-dM"], unit, origin)))
    ours = dict(_DEFINED.findall(_clang([*_known_words(source, level, unknown), "-E", "-dM"], unit).stdout))
    if not ours:
        return set()  # clang does not take the options, and will say so
    differing = {name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)}
    telling = {name for name in differing if _TELLING.fullmatch(name)}
    telling |= {name for name in theirs.keys() ^ ours.keys() if _TELLING_IF_DEFINED.fullmatch(name)}
    if not any(word.startswith(("-std", "--std", "-ansi")) for word in unit.command.words):
        telling |= differing & {"__STDC_VERSION__", "__cplusplus"}
    if telling:
        raise BenchmarkInitError(
            unit.input.path, f"clang and {os.path.basename(origin.compiler[0])} differ in {min(telling)}"
        )
    return differing


def _literals(text: str, unit: Unit) -> list[str]:
    """Return the numbers and strings in the user's lines."""
    # GCC's INT_MAX is 0x7fffffff
    tokens = (_HEX.sub(lambda number: str(int(number[0], 16)), token) for token in _user_tokens(text, unit))
    return [token for token in tokens if token.isdigit() or token.startswith('"')]


def _own_folders(unit: Unit) -> tuple[str, ...]:
    """Return the beginnings of the names of those headers that only the build calls a system's."""
    names = ("C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
    found = [one for name in names for one in unit.environment.get(name, "").split(os.pathsep)]
    found += _folders(unit, "-(?:cxx-)?(?:isystem(?:-after)?|idirafter)")
    return tuple(f"{one.rstrip('/')}/" for one in found if one and not one.startswith(_SYSTEM))


def _folders(unit: Unit, options: str = "-I|-(?:cxx-)?(?:isystem(?:-after)?|idirafter|iquote)") -> Iterator[str]:
    """Yield the folders of headers that the options of a unit name."""
    for token in unit.command.tokens:
        if option := re.match(options, token.words[0]):
            yield "".join(token.words)[option.end() :]


def _user_tokens(text: str, unit: Unit) -> list[str]:
    """Return the tokens of the lines that do not come from system headers or the command line."""
    lines, _, _ = _by_files(text, unit)
    spliced = "\n".join(lines).replace("\\\n", "")  # as GCC leaves them where macros are not expanded
    return [found[0] for found in _TOKEN.finditer(spliced) if found["skip"] is None]


def _by_files(text: str, unit: Unit) -> tuple[list[str], set[str], set[str]]:
    """Return the user's lines of a preprocessed text, the names of the user's files, and those of system headers.

    A header that calls itself the system's, after it began as the user's, is the user's, and so is what says that it is
    from one that is not there.
    """
    folders = _own_folders(unit)
    lines, is_users = [], False
    own: set[str] = set()
    systems: set[str] = set()
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            name = marker[1]
            is_users = "3" not in marker[2].split() or name in own or name.startswith(folders)
            is_users = is_users or not (name in systems or (unit.directory / name).is_file())
            (own if is_users else systems).add(name)
            is_users = is_users and not name.startswith("<")
        elif is_users:
            lines.append(line)
    return lines, own, systems


def _check_marks(unit: Unit, source: str, level: str, unknown: AbstractSet[str], headers: AbstractSet[str]) -> None:
    """Refuse a unit with an attribute or a pragma that clang does not honour and that may mean something.

    Args:
        source: its name, as the build has it.
        headers: names of system headers, of which this does not matter.
    """
    words = _known_words(unit, level, unknown, silent=False)
    warnings = ["unknown-attributes", "ignored-attributes", "unknown-pragmas", "ignored-pragmas", "system-headers"]
    only = ["-Wno-everything", *(f"-W{name}" for name in warnings), "-fno-caret-diagnostics", "-fno-color-diagnostics"]
    told = _clang([*words, *only, "-Wno-error", "-Qunused-arguments", "-fsyntax-only"], unit).stderr
    for file, number, text, kind in _IGNORED.findall(told):
        if file in headers:
            continue
        line = _line(unit.directory / file, int(number))
        name = (re.findall(r"'([\w:]+)'", text) or [""])[0].rpartition("::")[2].strip("_")
        if kind.endswith("attributes"):
            free = name in _FREE_ATTRIBUTES and (name != "optimize" or _optimizes_freely(line))
            what = f"the attribute {name}"
        else:
            free = _is_free_pragma(line)
            what = f"`{line.strip()}`"
        if not free:
            raise BenchmarkInitError(source, f"clang does not honour {what}, line {number}")


def _is_free_pragma(line: str) -> bool:
    found = re.match(r"\s*#\s*pragma\s+(\w+)(.*)", line)
    if found is None:
        return False  # it is in a macro
    words = f"{found[1]}{found[2]}"
    return found[1] not in _READ_PRAGMAS or _FREE_PRAGMA.match(words) is not None or _optimizes_freely(line)


def _optimizes_freely(line: str) -> bool:
    """Say whether all that a line asks GCC's optimiser for changes only the speed."""
    found = re.findall(r"\boptimize(?:__)?\s*\(([^()]*)\)", line)
    options = [one for text in found for one in re.findall(r'"([^"]*)"', text)]
    options = [option for text in options for option in text.split(",")]
    return bool(found) and all(
        re.fullmatch(r"-?O[23sz]|[23]", option)  # the others take less for granted
        or not (re.match(r"-?O|\d", option) or is_meaning(f"-f{option.removeprefix('-f')}"))
        for option in options
    )


def _line(path: Path, number: int) -> str:
    try:
        with open(path, errors="replace") as file:
            return next((line for at, line in enumerate(file, 1) if at == number), "")
    except OSError:
        return ""


def _is_free(option: str, compiler: Sequence[str]) -> bool:
    """Say whether a program is the same without an option."""
    free = _FREE_OPTIONS.fullmatch(option) is not None
    if is_meaning(option):
        return free and not option.startswith("-f")
    name = re.sub(r"^-fno-", "-f", option).partition("=")[0]
    return free or option.startswith("--param") or name in optimisers(tuple(compiler))


@functools.lru_cache(maxsize=16)
def optimisers(compiler: tuple[str, ...]) -> frozenset[str]:
    """Return the options that a GCC lists as those of its optimiser."""
    try:
        done = subprocess.run([*compiler, "-Q", "--help=optimizers"], capture_output=True, text=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(re.findall(r"^\s+(-f[\w-]+)", done.stdout, re.MULTILINE))


def added(unit: Unit, origin: Origin) -> Iterator[str]:
    """Yield the options that a compiler has and the build did not give, as those that are scripts add some."""
    line = [*origin.compiler, *recorded_words(unit), "-c", "-o", os.devnull, "-###"]
    told = _asked(line, unit.directory, origin.environment)
    collected = re.findall(r"^COLLECT_GCC_OPTIONS=(.*)$", told.stderr, re.MULTILINE)
    if not collected:
        return
    given = {*recorded_words(unit), "-c", "-o", os.devnull, "-###", "-v"}
    given |= {"-mtune=generic", "-march=x86-64", "-shared-libgcc"}
    words = iter(shlex.split(collected[0]))
    for word in words:
        if word in ("-dumpdir", "-dumpbase", "-dumpbase-ext"):
            next(words, "")
        elif word.startswith("-std=") and any(one.startswith("-std=") for one in given):
            continue  # another name of the same
        elif not {word, word.partition("=")[0]} & given and word.startswith("-") and not word.startswith(_TEXT_OPTIONS):
            yield word


def recorded_words(unit: Unit) -> list[str]:
    """Return the words that compile a unit as the build did, without what says how far and where to."""
    assert unit.origin is not None
    source = unit.input
    language = ["-x", source.explicit] if source.explicit else []
    tokens = [token for token in unit.origin.command.tokens if not token.words[0].startswith(_BESIDE)]
    options = replace(unit.origin.command, tokens=tuple(tokens)).options("dependency")
    return [*options, *language, source.path]


def _run(line: Sequence[str], unit: Unit, origin: Origin) -> str:
    return _started(line, unit.directory, origin, unit.input.path)


def _started(line: Sequence[str], directory: Path, origin: Origin, name: str) -> str:
    """Run the build's compiler, and return what it prints.

    Raises:
        BenchmarkInitError: when it fails.
    """
    try:
        done = _asked(line, directory, origin.environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkInitError(name, f"it cannot be compiled again: {error}") from None
    if done.returncode:
        why = next((text for text in done.stderr.splitlines() if "error" in text), "")
        raise BenchmarkInitError(name, f"it does not compile again as the build did: {why}")
    return done.stdout


def _clang(words: Sequence[str], unit: Unit) -> "subprocess.CompletedProcess[str]":
    environment: Mapping[str, str] = {**unit.environment, **loader_environment(), "LC_ALL": "C"}
    return _asked([*find_toolchain().command(), *words], unit.directory, environment)


def _asked(line: Sequence[str], directory: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command that reads nothing, and keep what it says."""
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    how |= {"errors": "surrogateescape", "timeout": TIMEOUT}
    return subprocess.run(line, cwd=directory, env=dict(environment), **how)
