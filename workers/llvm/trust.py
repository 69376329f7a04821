"""Requests that a worker refuses from an untrusted client.

A trusted client runs as the same user on the same machine, and may run any command to link a program. No input of an
untrusted client may name a file of this machine or a command, or make a tool read or write anything but the client's
own files:

- A recipe is linked by the worker's own tools, with words from a short list and with files of the recipe, which must
  contain machine code. Otherwise a linker would accept scripts as files, and options that read and write anywhere.
- Assembly in a program may have instructions, but no directives: `.incbin "/etc/passwd"` is one.
- Observations that write files and return their paths are refused.
"""

import re
import struct
from collections.abc import Collection
from pathlib import PurePosixPath

from aiocg.transport.elf import NotElf, sections
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._program import BITCODE
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.programs.linking import EXECUTABLE, OBJECT, Tools
from aiocg.workers.programs.recipe import Program

TOOLS = ("{lld}", "{clang}", "{clang++}")
WORDS = frozenset(
    {
        *("-o", EXECUTABLE, OBJECT, "{builtins}", "-static", "--gc-sections", "--no-dynamic-linker"),
        *("-e", "_start", "-z", "noexecstack", "-pthread", "-s", "-static-pie", "-no-pie", "-nostdlib"),
        *("-lc", "-ldl", "-lm", "-lpthread", "-lrt", "-lstdc++", "-stdlib=libstdc++"),
        *("--rtlib=libgcc", "--unwindlib=libgcc", "--start-no-unused-arguments", "--end-no-unused-arguments"),
    }
)
REFUSED_OBSERVATIONS = frozenset({"BitcodeFile"})

_ELF, _ARCHIVE = b"\x7fELF", b"!<arch>\n"
_FOR_THE_LINKER = (0x6FFF4C01, 0x6FFF4C04)  # section types with linker options, and with libraries, possibly by path
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_TABLES = ((b"/", b"/SYM64/"), (b"//",))  # members that index the others: first, in this order
_SUFFIXES = ("", ".o", ".a")  # by any other suffix a compiler driver may treat a file as source code

_MODULE_ASSEMBLY = re.compile(r"^module asm\b", re.MULTILINE)
_ASSEMBLY = re.compile(r'\basm (?=(?:[a-z]+ ){0,4}"([^"]*)")')  # consumes only the word: a name may contain it
_ESCAPE = re.compile(r"\\([0-9A-F]{2})")
_INSTRUCTIONS = re.compile(r"[-+*=\w%$,():;<>\[\] \t\n]*", re.ASCII)  # directives and strings need other ones
_LONE_DOLLAR = re.compile(r"\$\$(?![-\w])", re.ASCII)  # "$$" is a dollar, and "$" begins an operand
_OPERAND = re.compile(r"\$\d")
_BACKSLASH = re.compile(r'@"[^"]*\\(?:\\|5C)')  # in a name: it ends the quotes that LLVM 19 puts around the name
_STATEMENTS = re.compile(r"[;:\n]")
_TEXTS = ("clang.arc.retainAutoreleasedReturnValueMarker", "llvm.dependent-libraries", "llvm.linker.options")


class Guard:
    """Checks the input of an untrusted client.

    Args:
        library: parses programs.
        tools: link them; their own runtime library may be linked with.
    """

    def __init__(self, library: Library, tools: Tools) -> None:
        self._library = library
        self._tools = tools

    def check_content(self, content: bytes) -> None:
        """Refuse a program with assembly that could name files.

        The result of passes must be checked again before code generation: see `check_module`.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK`.
            LlvmError: if it is not a program.
        """
        with Module.parse(self._library, content) as module:
            if problem := problem_of(module.whole_text()):
                raise CompilationError(FailureCode.BENCHMARK, problem)

    def check_module(self, module: Module) -> None:
        """Refuse a program that must not become machine code.

        Raises:
            LlvmError: with the reason.
        """
        if problem := problem_of(module.whole_text()):
            raise LlvmError(problem)

    def check_program(self, program: Program | None) -> None:
        """Refuse a recipe; see the function `check_program`.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK`.
        """
        check_program(program, self._tools.runtime)

    def check_observation(self, name: str) -> None:
        """Refuse observations that write files.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`.
        """
        if name in REFUSED_OBSERVATIONS:
            raise CompilationError(
                FailureCode.OBSERVATION, f"{name} is a file on the worker's machine: observe Bitcode or Ir instead"
            )


def check_program(program: Program | None, more: Collection[str] = ()) -> None:
    """Refuse a recipe with words or files that could make a tool access other files.

    Args:
        program: the recipe.
        more: further words that its command may have.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK`.
    """
    if program is None or not program.command:
        return
    tool, *words = program.command
    if tool not in TOOLS:
        raise _refused(f"its command begins with {tool!r}", f"one of {', '.join(TOOLS)}")
    for word in words:
        if word not in WORDS and word not in program.files and word not in more:
            expected = f"names of its files, and words from this list: {' '.join(sorted(WORDS))}"
            raise _refused(f"its command has the word {word!r}", expected)
    if program.environment:
        names = ", ".join(program.environment)
        raise _refused(f"its command has environment variables ({names})", "none")
    for name, content in program.files.items():
        if name.startswith(("-", "@")) or name in (*TOOLS, *WORDS, BITCODE):
            raise _refused(f"it has a file named {name!r}", "a name that no tool can mistake for something else")
        if _suffix(name) not in _SUFFIXES:
            raise _refused(f"it has a file named {name!r}", "names without a suffix, or with .o or .a")
        if problem := machine_code_problem(content):
            raise _refused(f"its file {name!r} {problem}", "machine code as ELF, or archives (!<arch>) of such")


def problem_of(text: str) -> str:
    """Return why a program, given as text, must not become machine code; "" if it may."""
    rule = "untrusted assembly may contain only instructions: no directives, no strings, nothing outside functions"
    if "\0" in text:
        return "the program has a NUL byte outside its strings, such as in its target triple"
    if _MODULE_ASSEMBLY.search(text):
        return f"the program has assembly outside its functions (module asm); {rule}"
    for name in _TEXTS:
        if name in text:
            return f"the program has metadata for assemblers or linkers ({name}), refused from untrusted clients"
    for found in _ASSEMBLY.finditer(text):
        written = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), found[1])
        if not _is_instructions(written):
            return f"the program has the assembly {written[:100]!r}; {rule}"
        if _OPERAND.search(written) and _BACKSLASH.search(text):
            return f"the program has the assembly {written[:100]!r} with operands, and a name with a backslash"
    return ""


def _is_instructions(text: str) -> bool:
    """Return whether assembly has only instructions; none may begin with an operand, whose text could be anything."""
    if not _INSTRUCTIONS.fullmatch(text) or _LONE_DOLLAR.search(text):
        return False
    return not any(statement.lstrip().startswith("$") for statement in _STATEMENTS.split(text))


def machine_code_problem(content: bytes) -> str:
    """Return why a file is not plain machine code; "" if it is."""
    if content.startswith(_ELF):
        try:
            kinds = {one.kind for one in sections(content)}
        except NotElf as error:
            return f"is damaged: {error}"
        return "has a section that tells the linker what to do" if kinds.intersection(_FOR_THE_LINKER) else ""
    if not content.startswith(_ARCHIVE):
        return "is none"
    place, tables = len(_ARCHIVE), list(_TABLES)
    while place < len(content):
        try:
            name, *_, size, end = _MEMBER.unpack_from(content, place)
            count = int(size)
        except (struct.error, ValueError):
            return "is an archive that cannot be read"
        member = content[place + _MEMBER.size : place + _MEMBER.size + count]
        if end != b"`\n" or count < 0 or len(member) != count:
            return "is an archive that cannot be read"
        while tables and name.rstrip(b" ") not in tables[0]:
            tables.pop(0)
        if tables:
            tables.pop(0)
        elif not member.startswith(_ELF) or machine_code_problem(member):
            return "is an archive of something else"
        place += _MEMBER.size + count + count % 2
    return ""


def _suffix(name: str) -> str:
    """Return the suffix of a file's name as LLVM sees it: a file named `.c` has one too."""
    _, dot, suffix = PurePosixPath(name).name.rpartition(".")
    return dot and dot + suffix


def _refused(reason: str, expected: str) -> CompilationError:
    return CompilationError(
        FailureCode.BENCHMARK,
        f"this worker refuses to link this program from an untrusted client: {reason}; expected {expected}",
    )
