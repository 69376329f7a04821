"""Options that GCC lists among its optimizations and parameters, and that are no part of the space, and why.

An action is there to change the program's code. What reads or writes other files, prints, needs debug information or
a profile, changes how the program fits the libraries that it calls, or tunes the compiler's own memory is not.
"""

import re

__all__ = ["ceiling", "exclusion"]

_DEBUG_INFORMATION = "is about debug information"
_PROFILE = "reads the profile of an earlier run"
_INTERFACE = "changes how data lies in memory, or how it is passed: the program no longer fits libraries"
_LIVE_PATCHING = "is for live patching: it refuses to be combined with many other options, or adds space for patches"
_COMPILER = "is about the compiler's own memory, checks or messages"

_EXCLUSIONS: tuple[tuple[str, str], ...] = (
    (r"-g.*|-fvar-tracking.*|--param=(max-vartrack|max-debug|min-nondebug)-.*", _DEBUG_INFORMATION),
    (r"-fbranch-probabilities|-fauto-profile", _PROFILE),
    (r"-fprofile-(use|generate|arcs|values|dir|update|correction|note|prefix-path|info-section)", _PROFILE),
    (r"-fopt-info|-fsave-optimization-record", "prints or writes a report"),
    (r"-fcompare-debug.*", "compiles twice"),
    (r"-fplugin.*|-fdump-.*|-save-temps.*|-fcallgraph-info.*|-fstack-usage", "reads or writes other files"),
    (r"-flto.*|-ffat-lto-objects|-fwhole-program|-fuse-linker-plugin", "leaves the compiling to the linker"),
    (r"-fpack-struct|-fshort-(enums|wchar|double)|-f(reg|pcc)-struct-return|-fleading-underscore", _INTERFACE),
    (r"-flive-patching|-fpatchable-function-entry", _LIVE_PATCHING),
    (r"-ftree-parallelize-loops", "makes threads, for which the program would have to be linked to other libraries"),
    (r"--param=(ranger|threader)-debug", "makes the compiler explain itself in its dumps"),
    (r"--param=(con|de)structive-interference-size", "is a number for C++ programs to read"),
    (r"--param=(ggc-min|hash-table|integer-share|file-cache|gimple-fe|cxx-max-namespaces)-.*", _COMPILER),
)

# The compiler takes any number, and then asks for that much memory as soon as another option makes it use it.
_CEILINGS = {"--param=selsched-max-lookahead": 2**16}


def exclusion(name: str) -> str:
    """Return why the option of a name is no part of the space, "" when it may be."""
    return next((reason for pattern, reason in _EXCLUSIONS if re.fullmatch(pattern, name)), "")


def ceiling(name: str) -> int | None:
    """Return the greatest number that an option may have in the space, None where the compiler alone decides."""
    return _CEILINGS.get(name)
