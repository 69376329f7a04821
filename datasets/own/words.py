"""The words that a dataset may add to the commands by which its programs are compiled and linked.

A dataset can come from anybody. Options that load plugins, start other programs or read and write files of one's
choice are not among these.
"""

import re
from collections.abc import Container, Iterable

__all__ = ["check_flags", "check_words", "is_harmless"]

_HARMLESS = re.compile(
    r"""-l:?[\w.+-]+ | -L/.+ | /.+/lib[^/]+\.so[.\d]*
    | -pthread | -pie | -no-pie | -rdynamic | -shared | -static | -static-pie | -static-libgcc | -static-libstdc\+\+
    | -nostdlib | -nodefaultlibs | -nolibc | -nostartfiles | -m32 | -m64 | -mx32 | -s | -u\w+
    | -Wl(?:,(?:--gc-sections | --no-gc-sections | --as-needed | --no-as-needed | --export-dynamic | -E | --no-undefined
        | --start-group | --end-group | --whole-archive | --no-whole-archive | -Bstatic | -Bdynamic | -Bsymbolic
        | -Bsymbolic-functions | --sort-common | --no-allow-shlib-undefined | --allow-multiple-definition | -O\d | -s
        | -z,[\w=-]+ | --hash-style=\w+ | --build-id(?:=\w+)? | --defsym[=,]\w+=[\w.+-]+ | --wrap[=,][\w.]+
        | -soname[=,][\w.+-]+ | --exclude-libs[=,][\w.+:-]+ | (?:-rpath|--rpath|-rpath-link|--rpath-link)[=,][^,]+))+
    """,
    re.ASCII | re.VERBOSE,
)


_FLAG = re.compile(
    r"""-[DU].+ | -std=[\w+:]+ | -ansi | -pthread | -undef | -trigraphs | -include | -imacros | -nostdinc(?:\+\+)?
    | -m[\w-]+(?:=[\w.+-]+)?
    | -f(?!plugin|dump|profile|sanitize|auto-profile|lto|offload|use-ld|test-coverage|callgraph|stack-usage|coverage)
        [\w+-]+(?:=[\w.+-]+)?
    """,
    re.ASCII | re.VERBOSE,
)


def is_harmless(word: str) -> bool:
    """Say whether a word of a link may stand in a dataset: it names a library, or how to link."""
    return bool(_HARMLESS.fullmatch(word))


def check_words(words: Iterable[str], files: Container[str]) -> None:
    """Refuse words that are neither harmless nor names of the dataset's own files.

    Raises:
        ValueError: it names the word.
    """
    for word in words:
        if word not in files and not is_harmless(word):
            raise ValueError(f"a dataset may not link with the word {word!r}")


def check_flags(words: Iterable[str], files: Container[str]) -> None:
    """Refuse flags for a compiler that might name a file outside of the dataset or a program to run.

    Raises:
        ValueError: it names the word.
    """
    before = ""
    for word in words:
        if before:
            if word not in files:
                raise ValueError(f"a dataset may not be compiled with {before} {word!r}, which is not in it")
        elif not _FLAG.fullmatch(word):
            raise ValueError(f"a dataset may not be compiled with the word {word!r}")
        before = word if word in ("-include", "-imacros") and not before else ""
