"""Why a compiler has not done what it was to do, as far as what it says tells."""

import re
import signal

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.place import Completed

__all__ = ["LASTING", "failure", "problem"]

MESSAGES = 4096  # characters of a compiler's words that are kept

LASTING = {"refused": "", "internal compiler error": "memory", "memory": "memory", "timeout": "timeout"}
"""Reasons that will be there the next time, and the limit that must not be higher then; "" if none has to do with it.

Compilers that get no memory break in many ways."""

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

# What GCC and its assembler say of what they are given. Whatever else ends them may be the machine's fault.
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
_TEXTS = {
    "refused": "{name} does not compile {what} with these options",
    "internal compiler error": "{name} broke over {what} with these options",
    "timeout": "{name} had not compiled {what} after {seconds:.1f} s, and was stopped",
    "memory": "{name} needed more memory for {what} than it may have",
    "killed": "{name} was killed while it compiled {what}",
    "output": "{name} wrote too much for {what}",
    "disk": "{name} had no place to write what it makes of {what}; set TMPDIR",
    "installation": "{name} is not whole on this machine, and cannot compile {what}",
    "missing": "{name} does not find a file that {what} includes",
    "system": "{name} was not let do what it has to for {what}",
    "failed": "{name} ended with status {status} over {what}, and does not say what is wrong",
    "crashed": "{name} was ended by signal {signal} over {what}",
    "nothing": "{name} has written nothing for {what}, and says that all is well",
}


def problem(done: Completed) -> str:
    """Return the reason why a command has failed, "" when it has not."""
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
    """Make the error for a command that has failed.

    Args:
        reason: why; it is in the error's fields.
        name: of the compiler.
        what: was compiled.
        done: how the command ended.
        code: of the error.
    """
    text = _TEXTS[reason].format(name=name, what=what, seconds=done.seconds, status=done.status, signal=-done.status)
    said = done.errors[: 4 * MESSAGES].decode(errors="replace").strip()[:MESSAGES]
    return CompilationError(code, f"{text}\n{said}".rstrip(), reason=reason)
