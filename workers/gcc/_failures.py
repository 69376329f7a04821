"""Classifying failures of a compiler, and warnings, by its messages."""

import re
import signal

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.runner import Completed

MESSAGES = 4096  # limit in characters for a compiler's messages

LASTING = {"refused": "", "internal compiler error": "memory", "memory": "memory", "timeout": "timeout"}
"""Reproducible reasons, with the limit that must not be higher for them to recur; "" if no limit matters.

Compilers that get no memory break in many ways.
"""

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

# GCC's and its assembler's messages about their input. All other failures may be the machine's fault.
_REFUSAL = re.compile(r"\b[Ee]rror: |sorry, unimplemented")

_REASONS = (
    ("memory", re.compile(r"out of memory|memory exhausted|annot allocate memory|bad_alloc|failed to map segment")),
    (
        "killed",
        re.compile(
            r"\b(Killed|Terminated|Hangup|Interrupt|Quit|CPU time limit exceeded)"
            r"( signal terminated program| \(program)"
        ),
    ),
    ("output", re.compile(r"File size limit exceeded|File too large")),
    ("disk", re.compile(r"No space left on device|quota exceeded|Input/output error|Read-only file system|Bus error")),
    (
        "installation",
        re.compile(r"cannot execute|installation problem|while loading shared libraries|not found \(required by"),
    ),
    (
        "system",
        re.compile(
            r"Permission denied|Operation not permitted|Resource temporarily unavailable|Too many open files"
            r"|Interrupted system call|Device or resource busy|Text file busy|Stale file handle|Connection timed out"
        ),
    ),
    ("missing", re.compile(r"fatal error: .*: No such file or directory")),
    ("internal compiler error", re.compile(r"internal compiler error")),
)
WARNING = ("-Wall", "-Wshift-negative-value", "-fno-diagnostics-show-caret")
_UNDEFINED = re.compile(
    r"warning: .*\[-W(aggressive-loop-optimizations|array-bounds|dangling-pointer|div-by-zero|format|format-overflow"
    r"|free-nonheap-object|nonnull|restrict|return-local-addr|return-type|sequence-point|shift-[a-z-]+"
    r"|stringop-overflow|stringop-overread|uninitialized|use-after-free)=?\d*\]$"
)
_TEXTS = {
    "refused": "{name} does not compile {what} with these options",
    "internal compiler error": "{name} hit an internal error on {what} with these options",
    "timeout": "{name} had not compiled {what} after {seconds:.1f} s, and was stopped",
    "memory": "{name} needed more memory for {what} than was available",
    "killed": "{name} was killed while it compiled {what}",
    "output": "{name} wrote too much output for {what}",
    "disk": "{name} had no disk space for its output for {what}; set TMPDIR",
    "installation": "{name} is incompletely installed and cannot compile {what}",
    "missing": "{name} does not find a file that {what} includes",
    "system": "{name} was denied a system resource for {what}",
    "failed": "{name} ended with status {status} on {what}, without an error message",
    "crashed": "{name} was killed by signal {signal} on {what}",
    "nothing": "{name} reported success but has written nothing for {what}",
}


def problem(done: Completed) -> str:
    """Return why a command failed; "" if it succeeded."""
    if done.stopped:
        return done.stopped
    if done.status == 0:
        return ""
    said = done.errors.decode(errors="replace")
    for reason, pattern in _REASONS:
        if pattern.search(said):
            return reason
    if done.status < 0:
        return "killed" if -done.status in _FROM_OUTSIDE else "crashed"
    return "refused" if _REFUSAL.search(said) else "failed"


def failure(
    reason: str, name: str, what: str, done: Completed, code: str = FailureCode.OBSERVATION
) -> CompilationError:
    """Return the error for a failed command.

    Args:
        reason: the reason, also put into the error's fields.
        name: the compiler's name.
        what: describes what was compiled.
        done: how the command ended.
        code: the error's code.
    """
    text = _TEXTS[reason].format(name=name, what=what, seconds=done.seconds, status=done.status, signal=-done.status)
    said = done.errors[: 4 * MESSAGES].decode(errors="replace").strip()[:MESSAGES]
    return CompilationError(code, f"{text}\n{said}".rstrip(), reason=reason)


def undefined(messages: bytes) -> list[str]:
    """Return the warnings of undefined behaviour among a compiler's messages, which was called with `WARNING`."""
    return [line for line in messages.decode(errors="replace").splitlines() if _UNDEFINED.search(line)]
