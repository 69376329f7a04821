"""Flags of command lines: absl's, which CompilerGym used, where that is installed, and a few lines of ours elsewhere.

Scripts that define flags of their own import absl themselves, so they have it, and share its flags with our modules.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

__all__ = ["FLAGS", "Flags", "UsageError", "define", "run"]


class OwnUsageError(Exception):
    """A command line that makes no sense."""


class Flags:
    """Flags by name, as attributes; calling it with a command line sets them and returns what is no flag."""

    def __init__(self) -> None:
        self.__dict__["_flags"] = {}

    def define(self, kind: str, name: str, default: Any, help: str) -> None:
        """Define a flag; the first definition counts.

        Args:
            kind: "string", "integer", "float" or "boolean".
            name: without dashes.
            default: its value when it is not given.
            help: what it is for.
        """
        if name not in self._flags:
            self._flags[name] = (kind, help, default)
            self.__dict__[name] = default

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no flag --{name}")

    def __call__(self, argv: Sequence[str]) -> list[str]:
        words, rest = list(argv[1:]), list(argv[:1])
        while words:
            word = words.pop(0)
            if word == "--":
                rest += words
                break
            if not word.startswith("-") or word == "-":
                rest.append(word)
                continue
            name, given, value = word.lstrip("-").partition("=")
            if name in ("help", "h", "helpfull", "helpshort"):
                self._print_help()
            name = name if name in self._flags else name.replace("-", "_")
            if name not in self._flags and name.startswith("no") and self._kind(name[2:]) == "boolean" and not given:
                self.__dict__[name[2:]] = False
                continue
            kind = self._kind(name)
            if not kind:
                raise UsageError(f"Unknown command line flag '{name}'")
            if not given and kind == "boolean":
                value = "true"
            elif not given:
                if not words:
                    raise UsageError(f"Missing value for flag --{name}")
                value = words.pop(0)
            self.__dict__[name] = _value(kind, name, value)
        return rest

    def unparse_flags(self) -> None:
        """Set all flags back to their defaults."""
        self.__dict__.update({name: default for name, (_, _, default) in self._flags.items()})

    def _kind(self, name: str) -> str:
        return str(self._flags[name][0]) if name in self._flags else ""

    def _print_help(self) -> NoReturn:
        main = sys.modules["__main__"].__doc__
        print(f"{(main or '').strip()}\n\nflags:\n")
        for name, (kind, help, default) in sorted(self._flags.items()):
            print(f"  --{'[no]' if kind == 'boolean' else ''}{name}: {help}\n    (default: {default!r})")
        raise SystemExit(0)


def _value(kind: str, name: str, text: str) -> Any:
    try:
        if kind == "boolean":
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[text.lower()]
        return float(text) if kind == "float" else int(text, 0) if kind == "integer" else text
    except (ValueError, KeyError):
        raise UsageError(f"flag --{name}={text}: a value of type {kind} is expected") from None


def own_run(main: Callable[[list[str]], Any]) -> NoReturn:
    """Read the flags of this process's command line, call a function with what is left, and exit."""
    try:
        sys.exit(main(FLAGS(sys.argv)))
    except UsageError as error:
        print(f"{error}\nPass --help to see the flags.", file=sys.stderr)
        sys.exit(1)


def _absl(module: str) -> Any:
    try:
        return importlib.import_module(f"absl.{module}")
    except ImportError:
        return None


_flags, _app = _absl("flags"), _absl("app")
if _flags is not None:
    _flags.disclaim_key_flags()  # those of `define` are the flags of the module that calls it
FLAGS: Any = _flags.FLAGS if _flags is not None else Flags()
UsageError: Any = _app.UsageError if _app is not None else OwnUsageError


def define(kind: str, name: str, default: Any, help: str) -> None:
    """Define a flag, unless there is one of that name.

    Args:
        kind: "string", "integer", "float" or "boolean".
        name: without dashes.
        default: its value when it is not given.
        help: what it is for.
    """
    if _flags is None:
        FLAGS.define(kind, name, default, help)
    elif name not in FLAGS:
        getattr(_flags, f"DEFINE_{kind}")(name, default, help)


def run(main: Callable[[list[str]], Any]) -> None:
    """Read the flags of this process's command line and call a function with what is left of it, as `absl.app.run`."""
    if _app is None:
        own_run(main)
    else:
        _app.run(main)
