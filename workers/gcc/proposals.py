"""What a help text promises, as options; the compiler has still to be asked whether it keeps it."""

from collections.abc import Iterable
from typing import NamedTuple

from aiocg.transport.options import Option
from aiocg.workers.gcc.compiler_options import Dropped
from aiocg.workers.gcc.help_text import Entry

__all__ = ["GREATEST", "Proposal", "propose"]

GREATEST = 2**31 - 1  # of a number where the help names no end: what an int can be
_ALIGNMENTS = (*[str(2**power) for power in range(13)], "16:8", "32:8", "32:16", "64:16", "64:32", "16:11:8")


class Proposal(NamedTuple):
    """An option as the help has it; `ask` is that its values must be asked for."""

    option: Option
    ask: bool = False


def propose(entries: Iterable[Entry]) -> tuple[list[Proposal], list[Dropped]]:
    """Return an option for all entries that are forms of one, and what cannot be one.

    `-falign-loops` and `-falign-loops=`, or `-O<number>` and `-Os`, are forms of one option.
    """
    families: dict[str, list[Entry]] = {}
    dropped: list[Dropped] = []
    for entry in entries:
        if not entry.name:
            dropped.append(Dropped(entry.line, "this line of the help could not be read"))
        else:
            family = families.setdefault(_stem(entry.name), [])
            if entry not in family:
                family.append(entry)
    proposals = []
    for stem, family in families.items():
        proposal = _proposal(stem, family)
        if isinstance(proposal, Dropped):
            dropped.append(proposal)
        else:
            proposals.append(proposal)
    return proposals, dropped


def _stem(name: str) -> str:
    """Return what all forms of an option have in common."""
    if name.startswith("-O"):
        return "-O"
    name = name.removesuffix("=")
    return f"-f{name[5:]}" if name.startswith("-fno-") else name


def _proposal(stem: str, family: list[Entry]) -> Proposal | Dropped:
    description = next((entry.description for entry in family if entry.description), "")
    initial = next((entry.setting for entry in family if entry.setting), "")
    if stem == "-O":
        levels = [level for entry in family for level in (entry.name[2:] or "0123")]
        levels = [text for entry in family for text in ([entry.name[2:]] if entry.name[2:] else "0123")]
        return Proposal(
            Option(stem, "level", "Set the optimization level.", tuple([f"-O{level}" for level in levels]), initial="-O0")
        )
    aliased = {entry.setting for entry in family if entry.setting.startswith("-") and not entry.setting[1:].isdigit()}
    valued = [entry for entry in family if entry.name.endswith("=")]
    flags = [entry for entry in family if not entry.name.endswith("=")]
    if aliased and not valued:
        return Dropped(stem, f"another name of {' '.join(sorted(aliased))}")
    texts = [] if not flags else [f"-fno-{stem[2:]}"] if aliased else [stem, f"-fno-{stem[2:]}"]
    if not valued:
        return Proposal(Option(stem, "flag", description, tuple(texts), initial=initial))
    initial = next((entry.setting for entry in valued if entry.setting), initial)
    entry = valued[0]
    param = stem.startswith("--param=")
    if entry.values:
        texts += [f"{stem}={value}" for value in entry.values]
        return Proposal(Option(stem, "param" if param else "enum", description, tuple(texts), initial=initial))
    if "align" in stem and not param:
        texts += [f"{stem}={value}" for value in _ALIGNMENTS]
        return Proposal(Option(stem, "alignment", description, tuple(texts), initial=initial))
    number = entry.setting.removeprefix("-").isdigit()
    low = entry.low if entry.low is not None else min(0, int(entry.setting)) if number else 0
    high = entry.high if entry.high is not None else GREATEST
    kind = "param" if param else "integer"
    ask = entry.low is None and not number
    return Proposal(Option(stem, kind, description, tuple(texts), f"{stem}={{}}", low, high, initial), ask)
