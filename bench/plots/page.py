"""The tables of docs/performance.md. Each stands between two marks, so that no figure is ever written by hand."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.plots.stored import LARGE, Comparison, Missing, Row, Stored, short
from bench.report import number

_SECTION = re.compile(r"(?P<begin><!-- made: (?P<name>\w+) -->\n).*?(?P<end><!-- /made -->)", re.DOTALL)


def rewrite(text: str, stored: Stored) -> str:
    """Return the page with all sections that are made of measurements made anew.

    Raises:
        Missing: when the page has a section that nobody makes, or lacks one.
    """
    names = [match["name"] for match in _SECTION.finditer(text)]
    if sorted(names) != sorted(SECTIONS):
        raise Missing(f"the page has the sections {', '.join(names)}, and should have {', '.join(SECTIONS)}")
    return _SECTION.sub(lambda match: f"{match['begin']}{SECTIONS[match['name']](stored)}\n{match['end']}", text)


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
    head = ["program", "instructions", "in place", "as values", "aiocg", "of that, compiler", "beyond in place"]
    head += ["by processor time", "times in place"]
    rows = []
    for program in stored.walked():
        beyond, over = program.rows["aiocg beyond in place, mean"], program.rows["aiocg over in place, mean"]
        means = [number(program.median(f"{side}, mean")) for side in ("in place", "as values", "aiocg")]
        means.append(number(program.median("aiocg, part compiler")))
        work = _spread(program.rows["aiocg beyond in place, processor time"])
        rows.append([program.name, f"{program.instructions:,}", *means, _judged(beyond), work, _spread(over)])
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
    head = ["environments", "in place", "as values", "aiocg", "aiocg to in place", "aiocg to as values"]
    rows = []
    for count, found in stored.many().items():
        rates = [number(found[side]["median"]) for side in ("in place", "as values", "aiocg")]
        rows.append([f"{count:,}", *rates, _judged(found["aiocg of in place"]), _spread(found["aiocg of as values"])])
    return table(head, rows)


def versus(stored: Stored) -> str:
    """Tabulate what was compared with the original, over programs."""
    head = ["what", "CompilerGym", "aiocg", "unit", "times better", "LLVM alone", "target", "met"]
    rows = []
    for kind in stored.kinds():
        found = stored.compared(kind)
        for name, group in ((kind, _small(found)), (f"{kind}, large", _large(found))):
            if group:
                rows.append([name, *_range_of(group)])
    return table(head, rows)


def programs(stored: Stored) -> str:
    """Tabulate a step with Autophase for each program."""
    empty = {one["program"]: one for one in stored.compared("step without an action")}
    head = ["program", "instructions", "CompilerGym", "without its empty step", "LLVM 22, in place", "aiocg"]
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
    """Count which promises are kept."""
    found = [*stored.versus["comparisons"], *stored.versus.get("overviews", ())]
    judged = [one for one in found if one["met"] is not None]
    budgets = [row for row in stored.measurement["rows"] if row["met"] is not None]
    beyond_reach = [one for one in judged if one["bound"] and one["bound"]["median"] < one["target"]]
    return (
        f"Beside the original {sum(one['met'] for one in judged)} of {len(judged)} targets are met; "
        f"{len(beyond_reach)} of the {len(judged)} ask for more than LLVM 22 alone reaches in a bare loop. "
        f"Beside that loop {sum(row['met'] for row in budgets)} of {len(budgets)} budgets are met."
    )


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


def _range_of(group: Sequence[Comparison]) -> list[str]:
    """Return the cells of several comparisons of one kind."""
    targets = {one["target"] for one in group} - {None}
    met = [one["met"] for one in group if one["met"] is not None]
    bounds = [one["bound"]["median"] for one in group if one["bound"]]
    return [
        _range([one["original"]["median"] for one in group]),
        _range([one["ours"]["median"] for one in group]),
        group[0]["unit"],
        _range([one["ratio"]["median"] for one in group]),
        _range(bounds),
        " ".join(f"{target:g}" for target in sorted(targets)),
        f"{sum(met)} of {len(met)}" if met else "",
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
    "tail": tail,
    "many": many,
    "profile": profile,
    "versus": versus,
    "programs": programs,
    "compilers": compilers,
}
