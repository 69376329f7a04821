"""Options that take a time, such as 30s or 2m, and options that count."""

import math
from typing import Any

import typer

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def time_option(*names: str, help: str, least: float = 0.0, counted: str = "", **more: Any) -> Any:
    """Return an option whose value is seconds, given as a number or with a unit.

    Args:
        names: of the option; that of the argument if there are none.
        help: its help; how a time is written is added.
        least: the shortest time, in seconds.
        counted: the option that counts, which may be meant, if there is one.
        more: what else `typer.Option` takes.
    """

    def read(value: str | float) -> float:
        text = str(value).strip()
        unit = next((unit for unit in UNITS if text.endswith(unit)), "")
        try:
            seconds = float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
        except ValueError:
            seconds = math.nan
        if math.isfinite(seconds) and seconds >= least:
            return seconds
        shortest = f", of at least {least:g}s" if least else ""
        raise typer.BadParameter(f"{text!r} is no time such as 30s, 500ms, 2m or 1h{shortest}{_instead(counted)}")

    return typer.Option(*names, parser=read, metavar="TIME", help=f"{help} In seconds, or as 30s, 2m, 1h.", **more)


def count_option(*, help: str, timed: str, **more: Any) -> Any:
    """Return an option whose value is a whole number.

    Args:
        help: its help.
        timed: the option that takes a time, which may be meant.
        more: what else `typer.Option` takes.
    """

    def read(value: str | int) -> int:
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number >= 1:
            return number
        raise typer.BadParameter(
            f"{str(value)!r} is not a whole number of at least 1, such as 500{_instead(timed, 'a time')}"
        )

    return typer.Option(parser=read, metavar="NUMBER", help=help, **more)


def _instead(option: str, what: str = "a number") -> str:
    return f"; {option} takes {what}" if option else ""
