"""The tables of docs/performance.md and its details, each between two marks: no figure is ever written by hand."""

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.plots.stored import LARGE, Comparison, Missing, Row, Stored, short
from bench.report import number

_SECTION = re.compile(r"(?P<begin><!-- made: (?P<name>\w+) -->\n).*?(?P<end><!-- /made -->)", re.DOTALL)


def rewrite(text: str, stored: Stored) -> str:
    """Return a page with all sections that are made of measurements made anew.

    Raises:
        Missing: when the page has a section that nobody makes.
    """
    unknown = {match["name"] for match in _SECTION.finditer(text)} - SECTIONS.keys()
    if unknown:
        raise Missing(f"nothing makes the sections {', '.join(sorted(unknown))}: there are {', '.join(SECTIONS)}")
    return _SECTION.sub(lambda match: f"{match['begin']}{SECTIONS[match['name']](stored)}\n{match['end']}", text)


def sections_of(text: str) -> list[str]:
    """Return the names of a page's sections that are made."""
    return [match["name"] for match in _SECTION.finditer(text)]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, with numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine(stored: Stored) -> str:
    """Say on what all was measured, and how disturbed."""
    said = stored.limit["machine"]
    original = stored.versus["versions"]["original"]
    others = [100 * found for found in (stored.measurement["others"], stored.versus["others"])]
    lines = [
        f"{said['cpu']}, {said['cores']} cores, {said['system']}; Python {said['python']}, {said['compiler']}, "
        f"pyzmq {said['pyzmq']}, uvloop {said['uvloop']}. The original: CompilerGym {original['version']}, "
        f"Python {original['python']}, LLVM {original['compiler'].split()[0]}.",
        "",
        f"Other processes used {others[0]:.0f} % of the machine while aiocg was measured beside LLVM alone, and "
        f"{others[1]:.0f} % beside the original.",
    ]
    if stored.limit["quick"] or stored.versus["quick"]:
        lines += ["", "**These figures are of a quick run, with few samples.**"]
    return "\n".join(lines)


def step(stored: Stored) -> str:
    """Tabulate one environment beside LLVM alone."""
    head = ["program", "instructions", "in place, µs", "aiocg, µs", "as values, µs", "times as fast as values"]
    rows = []
    for program in stored.walked():
        means = [number(program.median(f"{side}, mean")) for side in ("in place", "aiocg", "as values")]
        rows.append(
            [program.name, f"{program.instructions:,}", *means, _judged(program.rows["as values over aiocg, mean"])]
        )
    return table(head, rows)


def parts(stored: Stored) -> str:
    """Tabulate of what a step consists, in microseconds."""
    head = ["program", "aiocg", "of that, compiler", "beyond in place", "by processor time", "times in place"]
    rows = []
    for program in stored.walked():
        means = [number(program.median(f"aiocg, {what}")) for what in ("mean", "part compiler")]
        beyond = [program.rows[f"aiocg beyond in place, {what}"] for what in ("mean", "processor time")]
        rows.append([program.name, *means, *map(_spread, [*beyond, program.rows["aiocg over in place, mean"]])])
    return table(head, rows)


def tail(stored: Stored) -> str:
    """Tabulate the slowest of a hundred steps."""
    head = ["program", "in place, median", "p99", "as values, median", "p99", "aiocg, median", "p99"]
    rows = []
    for program in stored.walked():
        kinds = [kind for side in ("in place", "as values", "aiocg") for kind in (side, f"{side}, p99")]
        rows.append([program.name, *(number(program.median(kind)) for kind in kinds)])
    return table(head, rows)


def many(stored: Stored) -> str:
    """Tabulate many environments beside LLVM alone."""
    head = ["environments", "in place", "aiocg", "as values", "times in place", "times as values", "times 64"]
    rows = []
    for count, found in stored.many().items():
        rates = [number(found[side]["median"]) for side in ("in place", "aiocg", "as values")]
        ratios = [_spread(found["aiocg of in place"]), _judged(found["aiocg of as values"])]
        crowd = found.get("aiocg of 64 envs")
        rows.append([f"{count:,}", *rates, *ratios, _judged(crowd) if crowd else ""])
    return table(head, rows)


def versus(stored: Stored) -> str:
    """Tabulate what was compared with the original, over programs, with a verdict for each row."""
    rows = [
        [name, *_range_of(group), _verdict([one["ratio"]["median"] for one in group])] for name, group in _rows(stored)
    ]
    return table(["what", "CompilerGym", "aiocg", "unit", "times better", "verdict"], rows)


def targets(stored: Stored) -> str:
    """Tabulate what was asked of comparisons with the original, and what LLVM alone reaches."""
    rows = []
    for name, group in _rows(stored):
        wanted = {one["target"] for one in group} - {None}
        bounds = [one["bound"]["median"] for one in group if one["bound"]]
        if wanted or bounds:
            met = [one["met"] for one in group if one["met"] is not None]
            reached = _range([one["ratio"]["median"] for one in group])
            asked = " ".join(f"{target:g}" for target in sorted(wanted))
            rows.append([name, reached, _range(bounds), asked, f"{sum(met)} of {len(met)}" if met else ""])
    return table(["what", "times better", "LLVM alone", "target", "met"], rows)


def programs(stored: Stored) -> str:
    """Tabulate a step with Autophase for each program."""
    empty = {one["program"]: one for one in stored.compared("step without an action")}
    head = ["program", "instructions", "CompilerGym", "without its empty step", "LLVM, in place", "aiocg"]
    head += ["of that, compiler", "times better", "LLVM alone"]
    rows = []
    for one in stored.compared("step, Autophase"):
        its = one["original"]["median"]
        compiler = its - empty[one["program"]]["original"]["median"]
        figures = (its, compiler, one["llvm_alone"]["median"], one["ours"]["median"], one["ours_in_compiler"])
        ratios = [_spread(one["ratio"]), number(one["bound"]["median"])]
        rows.append([short(one["program"]), f"{one['instructions']:,}", *map(number, figures), *ratios])
    return table(head, rows)


def verdict(stored: Stored) -> str:
    """Say in how many rows we win, and name those that are lost."""
    found = {name: _verdict([one["ratio"]["median"] for one in group]) for name, group in _rows(stored)}
    lost = [name for name, said in found.items() if said == SLOWER]
    even = [name for name, said in found.items() if said == EQUAL]
    budgets = [row for row in stored.measurement["rows"] if row["met"] is not None]
    return (
        f"Of {len(found)} rows beside CompilerGym, aiocg wins {len(found) - len(lost) - len(even)}, "
        f"{len(even)} are equal{_named(even)}, and it loses {len(lost)}{_named(lost)}. "
        f"Beside LLVM in a bare loop it meets {sum(row['met'] for row in budgets)} of {len(budgets)} budgets."
    )


def _named(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""


def compilers(stored: Stored) -> str:
    """Tabulate what a step in place costs over each version of LLVM."""
    found = stored.versus["llvm_versions"]
    versions = sorted({one["compiler"] for one in found}, key=lambda name: [int(part) for part in name[5:].split(".")])
    rows = []
    for program in dict.fromkeys(one["program"] for one in found):
        medians = {one["compiler"]: number(one["median"]) for one in found if one["program"] == program}
        rows.append([short(program), *(medians.get(version, "") for version in versions)])
    return table(["program", *versions], rows)


def profile(stored: Stored) -> str:
    """Tabulate what the processor does during steps."""
    profiles = stored.profile["profiles"]
    columns = [(one["program"], side, one[side]) for side in ("worker", "client") for one in profiles]
    columns = [column for column in columns if column[1] == "worker" or column[0] == profiles[0]["program"]]
    head = ["work, % of the process's samples", *(f"{side}, {program}" for program, side, _ in columns)]
    names = dict.fromkeys(name for _, _, shares in columns for name in shares)
    rows = [[name, *(f"{shares.get(name, 0.0):.1f}" for _, _, shares in columns)] for name in names]
    return table(head, rows)


def _small(found: Iterable[Comparison]) -> list[Comparison]:
    return [one for one in found if one["instructions"] <= LARGE]


def _large(found: Iterable[Comparison]) -> list[Comparison]:
    return [one for one in found if one["instructions"] > LARGE]


def _rows(stored: Stored) -> list[tuple[str, list[Comparison]]]:
    """Return the rows of the comparison with the original: what, and its comparisons on small or large programs."""
    rows = []
    for kind in stored.kinds():
        found = stored.compared(kind)
        rows += [(kind, _small(found)), (f"{kind}, large", _large(found))]
    return [(name, group) for name, group in rows if group]


FASTER, EQUAL, SLOWER = "faster", "equal", "slower"
_NOISE = 1.05  # ratio up to which two are equal


def _verdict(ratios: Sequence[float]) -> str:
    """Return the verdict on the median of some ratios."""
    middle = statistics.median(ratios)
    return FASTER if middle >= _NOISE else SLOWER if middle <= 1 / _NOISE else EQUAL


def _range_of(group: Sequence[Comparison]) -> list[str]:
    """Return the cells of several comparisons of one kind."""
    return [
        _range([one["original"]["median"] for one in group]),
        _range([one["ours"]["median"] for one in group]),
        group[0]["unit"],
        _range([one["ratio"]["median"] for one in group]),
    ]


def _range(values: Sequence[float]) -> str:
    ends = [number(end) for end in (min(values), max(values))] if values else [""] * 2
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _spread(found: Row) -> str:
    return f"{number(found['median'])} ({number(found['low'])} to {number(found['high'])})"


def _judged(row: Row) -> str:
    if row["budget"] is None:
        return _spread(row)
    ((direction, limit),) = row["budget"].items()
    sign = "≤" if direction == "at_most" else "≥"
    return f"{_spread(row)}, {'met' if row['met'] else 'missed'}: {sign} {limit:g}"


SECTIONS: Mapping[str, Callable[[Stored], str]] = {
    "verdict": verdict,
    "machine": machine,
    "step": step,
    "parts": parts,
    "tail": tail,
    "many": many,
    "profile": profile,
    "versus": versus,
    "targets": targets,
    "programs": programs,
    "compilers": compilers,
}
