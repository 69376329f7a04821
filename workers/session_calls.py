"""Calls of a compiler's session whose answers are checked, and the errors that they end with."""

import traceback
from typing import Any

from aiocg.transport.messages import Action, FailureCode
from aiocg.workers.compilation import CompilationError, CompilationSession

__all__ = ["apply_actions", "as_compilation_error", "forked", "hash_of", "sendable", "wrong_answer"]


def sendable(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates become escape sequences."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def as_compilation_error(error: Exception) -> CompilationError:
    """Return a compiler's own failure as it is, and any other exception as a bug with its traceback."""
    if not isinstance(error, CompilationError):
        error = CompilationError(FailureCode.INTERNAL, "".join(traceback.format_exception(error)))
    error.code, error.message = str(error.code), sendable(str(error.message))
    return error


def apply_actions(session: CompilationSession, actions: tuple[Action, ...], effects: list[bool]) -> None:
    """Apply actions, and append for each whether it changed the state."""
    for action in actions:
        effect = session.apply_action(action)
        if effect is not True and effect is not False:
            raise wrong_answer("apply_action", effect, "True or False")
        effects.append(effect)


def hash_of(session: CompilationSession) -> int:
    """Return the hash of the session's state."""
    value = session.state_hash()
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise wrong_answer("state_hash", value, "an unsigned integer of 64 bits")
    return value


def forked(session: CompilationSession) -> CompilationSession:
    """Return a fork of the session."""
    child = session.fork()
    if not isinstance(child, CompilationSession) or child is session:
        raise wrong_answer("fork", child, "another session")
    return child


def wrong_answer(method: str, value: Any, expected: str) -> CompilationError:
    """Return the error for a method of a session that returned a wrong value."""
    text = repr(value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return CompilationError(FailureCode.INTERNAL, f"{method} of the session returned {text}; expected {expected}")
