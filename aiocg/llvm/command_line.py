"""Parser of C and C++ compiler command lines.

Only as much is understood as is needed to tell inputs from options. Light, and pure but for response files, since every
start of `aiocg cc` reads one.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

Kind = Literal["option", "input", "output", "language", "mode", "level", "dependency", "linking"]

LANGUAGES = {
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".i",), "cpp-output"),
    **dict.fromkeys((".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CC", ".CPP", ".CXX"), "c++"),
    **dict.fromkeys((".ii",), "c++-cpp-output"),
}
"""What clang takes for C or C++ by its suffix, as values of `-x`."""

_SEPARATE = frozenset(
    """
    -A -B -D -F -G -I -L -MF -MJ -MQ -MT -T -U -V -Xanalyzer -Xassembler -Xclang -Xlinker -Xpreprocessor -arch -aux-info
    -b -Map -cxx-isystem -dumpbase -dumpbase-ext -dumpdir -e -framework -gcc-toolchain -idirafter -imacros -imultilib
    -include -include-pch -install_name -iprefix -iquote -isysroot -isystem -isystem-after -ivfsoverlay -iwithprefix
    -iwithprefixbefore -iwithsysroot -l -mllvm -o -resource-dir -rpath -specs -stdlib++-isystem -target -u -undefined
    -working-directory -wrapper -x -z --output --param --serialize-diagnostics --sysroot --target
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
"""Options whose value is the next word; written as one word they are like any other."""

_MODES = {
    "-c": "compile",
    "-S": "assembly",
    "-E": "preprocess",
    "-M": "rules",
    "-MM": "rules",
    "-fsyntax-only": "check",
}
_QUESTIONS = ("--version", "--help", "-###", "-dump", "--print-", "-print-", "-cc1", "--target-help")
_LINKING = frozenset(
    """
    -Xlinker -e -no-pie -nodefaultlibs -nolibc -nostartfiles -nostdlib -pie -rdynamic -rpath -s -shared -static
    -static-libgcc -static-libstdc++ -static-pie -z
    """.split()  # noqa: SIM905
)
_LINKING_BEGINNINGS = ("-l", "-L", "-Wl,", "-T", "-u", "-fuse-ld", "--ld-path", "--rtlib", "-rtlib", "--unwindlib")
_INSTRUMENTED = tuple(
    """
    -flto -fsanitize -fprofile -fcoverage --coverage -fcs-profile -pg -finstrument -fxray -fsplit-stack -fpass-plugin
    -fplugin -fauto-profile -fmemory-profile -fthinlto
    """.split()  # noqa: SIM905
)
_OTHER_OUTPUT = tuple(
    """
    -save-temps --save-temps -emit-llvm -emit-ast --analyze --precompile -fmodules -fembed-bitcode -gsplit-dwarf
    -fcallgraph-info -fdump -ftime-trace -fopt-record -fsave-optimization-record -offload --cuda -fstack-usage -arch
    -gen-reproducer -fopt-info -aux-info -Wa,-a
    """.split()  # noqa: SIM905
)


UNTYPED_LEVELS = ("", "-O0", "-O", "-O1", "-Og")
"""The levels at which GCC lets pointers of different types lead to the same variable."""


@dataclass(frozen=True, slots=True)
class Token:
    """An option with its value, or an input: the words as they stand on the command line, and what they are about."""

    kind: Kind
    words: tuple[str, ...]

    @property
    def value(self) -> str:
        """The last word."""
        return self.words[-1]


@dataclass(frozen=True, slots=True)
class Input:
    """A file that is compiled or linked.

    Attributes:
        path: as it is written; `./` is put before what could be taken for an option or a response file.
        language: for sources in C or C++ the value of `-x`; "" for objects, libraries and all else.
        explicit: the value of the `-x` before it, "" if there is none.
    """

    path: str
    language: str
    explicit: str = ""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A compiler's command line, taken apart.

    Attributes:
        driver: the compiler's name as it is written.
        tokens: options and inputs in order.
        inputs: the inputs in order, one for each token of that kind.
        mode: "link" if there is no option that says otherwise.
        cplusplus: the driver is one for C++: it takes `.c` for C++ and links the C++ library.
    """

    driver: str
    tokens: tuple[Token, ...]
    inputs: tuple[Input, ...]
    mode: str
    cplusplus: bool

    @property
    def sources(self) -> tuple[Input, ...]:
        """The inputs in C and C++."""
        return tuple(one for one in self.inputs if one.language)

    @property
    def output(self) -> str:
        """The file that `-o` names, or "" without."""
        return next((_joined_value(token) for token in reversed(self.tokens) if token.kind == "output"), "")

    @property
    def level(self) -> str:
        """The optimisation level that holds, such as "-O2", or "" when none is given."""
        level = next((token.value for token in reversed(self.tokens) if token.kind == "level"), "")
        return "-O1" if level == "-O" else level

    @property
    def words(self) -> list[str]:
        """All words after the driver, response files expanded."""
        return [word for token in self.tokens for word in token.words]

    def obstacle(self) -> str:
        """Say why the compilation cannot be done in steps with passes of ours between them; "" if it can.

        Instrumentation, profiles and link-time optimisation are the work of passes in clang's own pipeline.
        """
        if self.mode not in ("link", "compile"):
            flag = next(token.words[0] for token in self.tokens if token.kind == "mode" and token.words[0] != "-c")
            return f"{flag} asks for no object code"
        if not self.inputs:
            return "it names no input"
        if not self.sources:
            return "it names no C or C++ source"
        if any(one.path == "-" for one in self.inputs):
            return "its source is the standard input"
        for token in self.tokens:
            word = token.words[0]
            if word.startswith(_INSTRUMENTED):
                return f"{word} needs clang's own passes"
            if word.startswith(_OTHER_OUTPUT):
                return f"{word} writes or reads more than object code"
        return ""

    def plain(self) -> "CommandLine":
        """Return the command line without what `obstacle` names: instrumentation, and output beside object code."""
        tokens = tuple(
            token
            for token in self.tokens
            if token.kind != "option" or not token.words[0].startswith((*_INSTRUMENTED, *_OTHER_OUTPUT))
        )
        return replace(self, tokens=tokens)

    def options(self, *left_out: Kind) -> list[str]:
        """Return the words of all options but those for inputs, output, mode and language, and of some kinds more."""
        without = {"input", "output", "mode", "language", *left_out}
        return [word for token in self.tokens if token.kind not in without for word in token.words]

    def bitcode_words(self, source: Input, level: str, target: str | None = None) -> list[str]:
        """Return the words after the driver that compile a source to code that no pass has touched.

        What is to be written is not said: add `-c -emit-llvm -o …`.

        Args:
            source: one of `sources`.
            level: what the code is to be optimised for, such as "-Oz"; the front end marks functions accordingly.
            target: the object that a rule for `make` is to name, where the command line asks for a rule; None for none.
        """
        return [
            *(level_words(self.level) if level != self.level else ()),
            *self.options("level", "linking", "dependency"),
            *(self._dependency_words(source, target) if target is not None else ()),
            *(level, "-Xclang", "-disable-llvm-passes", "-x", source.language, source.path),
        ]

    def object_words(self, level: str) -> list[str]:
        """Return the words after the driver that generate code for optimised bitcode, without passes over its IR.

        Which and where to is not said: add `-c -o … -x ir …`.
        """
        return [
            *self.options("level", "linking", "dependency"),
            *(level, "-Xclang", "-disable-llvm-passes", "-Qunused-arguments", "-Wno-override-module"),
        ]

    def link_words(self, objects: Sequence[str]) -> list[str]:
        """Return the words after the driver of the same command with objects in place of the sources.

        Where to is not said: add `-o …`.

        Args:
            objects: for each source one, in order; or one for all, which stands where the first source was.
        """
        waiting, inputs = iter(objects), iter(self.inputs)
        words: list[str] = []
        for token in self.tokens:
            if token.kind == "input":
                one = next(inputs)
                if one.language:
                    words += [name for name in [next(waiting, "")] if name]
                elif one.explicit:
                    words += ["-x", one.explicit, one.path, "-x", "none"]
                else:
                    words.append(one.path)
            elif token.kind not in ("language", "dependency", "output"):
                words += token.words
        return words

    def _dependency_words(self, source: Input, target: str) -> list[str]:
        """Return the options that write a rule for `make`, with what clang would derive from `-o` said outright."""
        tokens = [token for token in self.tokens if token.kind == "dependency"]
        words = [word for token in tokens for word in token.words]
        text = " ".join(words)
        if not any(word in ("-MD", "-MMD") or word.startswith(("-Wp,-MD", "-Wp,-MMD")) for word in words):
            return words
        named = self.output or target
        if "-MF" not in text and "-Wp,-MD," not in text and "-Wp,-MMD," not in text:
            words += ["-MF", str(PurePath(named).with_suffix(".d"))]
        if "-MT" not in text and "-MQ" not in text:
            words += ["-MQ", named]
        return words


def level_words(level: str) -> list[str]:
    """Return options that say at another level what a level means to GCC: its macros, and what it takes for granted.

    Args:
        level: such as "-O2"; "" for none, which is as "-O0".
    """
    aliasing = ["-fno-strict-aliasing"] if level in UNTYPED_LEVELS else []
    if level in ("", "-O0"):
        return ["-U__OPTIMIZE__", "-U__OPTIMIZE_SIZE__", "-D__NO_INLINE__=1", *aliasing]
    size = "-D__OPTIMIZE_SIZE__=1" if level in ("-Os", "-Oz") else "-U__OPTIMIZE_SIZE__"
    return ["-D__OPTIMIZE__=1", size, *aliasing, *(["-ffast-math"] if level == "-Ofast" else [])]


def parse(arguments: Iterable[str], directory: str = "") -> CommandLine:
    """Take a command line apart.

    Args:
        arguments: the driver and what follows it.
        directory: where response files are looked for, the working directory if "".

    Raises:
        ValueError: when there is no driver, the value of the last option is missing, or a response file contains
            itself or cannot be read.
    """
    driver, *words = [*arguments] or [""]
    if not driver:
        raise ValueError("the command line is empty")
    tokens = tuple(_tokens(_expanded(words, directory)))
    name = os.path.basename(driver)
    cplusplus = "++" in name or any(token.words[0] == "--driver-mode=g++" for token in tokens)
    mode = next((_mode(token) for token in tokens if token.kind == "mode" and _mode(token) != "compile"), "")
    if not mode:
        mode = "compile" if any(token.kind == "mode" for token in tokens) else "link"
    return CommandLine(driver, tokens, tuple(_inputs(tokens, cplusplus)), mode, cplusplus)


def _tokens(words: Iterable[str]) -> Iterator[Token]:
    rest = iter(words)
    for word in rest:
        if word == "--":  # what follows are inputs, whatever they look like
            yield from (Token("input", (other,)) for other in rest)
        elif word in _SEPARATE:
            value = next(rest, None)
            if value is None:
                raise ValueError(f"the option {word} lacks its value")
            yield Token(_kind(word), (word, value))
        else:
            yield Token(_kind(word), (word,))


def _kind(word: str) -> Kind:
    if not word.startswith("-") or word == "-":
        return "input"
    if word in _MODES or word.startswith(_QUESTIONS):
        return "mode"
    if word.startswith(("-o", "--output")) and not word.startswith(("-object", "-offload")):
        return "output"
    if word.startswith("-x"):
        return "language"
    if word.startswith("-O") and word not in ("-ObjC", "-ObjC++"):
        return "level"
    if word.startswith(("-M", "-Wp,-M")):
        return "dependency"
    return "linking" if word in _LINKING or (word.startswith(_LINKING_BEGINNINGS) and word != "-undef") else "option"


def _mode(token: Token) -> str:
    return _MODES.get(token.words[0], "question")


def _joined_value(token: Token) -> str:
    if len(token.words) > 1:
        return token.value
    return token.value.removeprefix("--output=").removeprefix("-o")


def _inputs(tokens: Iterable[Token], cplusplus: bool) -> Iterator[Input]:
    explicit = ""
    for token in tokens:
        if token.kind == "language":
            chosen = token.value.removeprefix("-x") if len(token.words) == 1 else token.value
            explicit = "" if chosen == "none" else chosen
        elif token.kind == "input":
            language = explicit or LANGUAGES.get(os.path.splitext(token.value)[1], "")
            if cplusplus and not explicit and language == "c":
                language = "c++"
            yield Input(_spelled(token.value), language if language in LANGUAGES.values() else "", explicit)


def _expanded(words: Iterable[str], directory: str, within: tuple[str, ...] = ()) -> Iterator[str]:
    """Replace `@file` by the words in the file, where there is such a file."""
    for word in words:
        path = os.path.join(directory, word[1:])
        if word.startswith("@") and os.path.isfile(path):
            if path in within:
                raise ValueError(f"the response file {path} contains itself")
            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    text = file.read()
            except OSError as error:
                raise ValueError(f"the response file {path} cannot be read: {error.strerror}") from None
            yield from _expanded(shlex.split(text), directory, (*within, path))
        else:
            yield word


def _spelled(path: str) -> str:
    """Return a path that cannot be taken for a response file or an option."""
    return f"./{path}" if path.startswith(("@", "-")) and path != "-" else path
