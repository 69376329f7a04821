"""Classifying failures of a compiler, and warnings, by its messages."""

import re
import signal
import tomllib
from pathlib import Path
from typing import Any

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

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("failures.toml").read_text(encoding="utf-8"))
_REASONS: dict[str, re.Pattern[str]] = {reason: re.compile(pattern) for reason, pattern in _TABLES["patterns"].items()}
WARNING = ("-Wall", "-Wshift-negative-value", "-fno-diagnostics-show-caret")
_UNDEFINED = re.compile(
    r"warning: .*\[-W(aggressive-loop-optimizations|array-bounds|dangling-pointer|div-by-zero|format|format-overflow"
    r"|free-nonheap-object|nonnull|restrict|return-local-addr|return-type|sequence-point|shift-[a-z-]+"
    r"|stringop-overflow|stringop-overread|uninitialized|use-after-free)=?\d*\]$"
)


def problem(done: Completed) -> str:
    """Return why a command failed; "" if it succeeded."""
    if done.stopped:
        return done.stopped
    if done.status == 0:
        return ""
    said = done.errors.decode(errors="replace")
    for reason, pattern in _REASONS.items():
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
    text = _TABLES["texts"][reason].format(
        name=name, what=what, seconds=done.seconds, status=done.status, signal=-done.status
    )
    said = done.errors[: 4 * MESSAGES].decode(errors="replace").strip()[:MESSAGES]
    return CompilationError(code, f"{text}\n{said}".rstrip(), reason=reason)


def undefined(messages: bytes) -> list[str]:
    """Return the warnings of undefined behaviour among a compiler's messages, which was called with `WARNING`."""
    return [line for line in messages.decode(errors="replace").splitlines() if _UNDEFINED.search(line)]
