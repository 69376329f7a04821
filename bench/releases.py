"""Compares releases of LLVM: the levels of each release's own clang, and what a short search adds.

    python -m bench.releases --output docs/releases.md          # installs the releases; some 20 minutes
    python -m bench.releases --seconds 10 --releases 22 23

Bytes are those that an object brings into an image, as each release's `clang -OX -c` writes it. Instructions are those
of the IR. The search is `functionwise` for the bytes, which runs what it finds.
"""

import argparse
import asyncio
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiocg
from aiocg.datasets.llvm_releases import find_release, install, on_this_machine
from aiocg.datasets.programs import PROGRAMS_DIRECTORY
from aiocg.datasets.toolchain import compile_flags, loader_environment
from aiocg.transport.elf import image_size

RELEASES = ("17", "18", "19", "20", "21", "22", "23")
LEVELS = ("O1", "O2", "O3", "Os", "Oz")
COUNTED = ("O3", "OsOptsize", "OzMinsize")
REWARD = "ObjectImageSizeOzMinsize"
REFERENCE = "22"
CHANGED = 6  # programs that are listed

Row = dict[str, Any]


def clang_sizes(release: str, source: Path) -> dict[str, int]:
    """Return the image bytes of a program at each level of a release's clang."""
    clang = find_release(release).clang
    language = "c" if source.suffix == ".c" else "c++"
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "program.o")
        for level in LEVELS:
            words = [str(clang), f"--driver-mode={'gcc' if language == 'c' else 'g++'}", f"-{level}", "-c", str(source)]
            words += [*compile_flags(clang, language), "-w", "-o", str(target)]
            subprocess.run(words, check=True, env={**loader_environment(), "PATH": "/usr/bin:/bin"})
            sizes[level] = image_size(target.read_bytes()).stored
    return sizes


async def measure(release: str, seconds: float) -> list[Row]:
    """Measure all programs with one release."""
    rows = []
    async with aiocg.Runtime(workers=2, llvm=release) as runtime:
        for source in sorted(PROGRAMS_DIRECTORY.glob("*.c*")):
            env = await runtime.make("llvm-codesize-v0", benchmark=f"programs-v0/{source.stem}", reward_space=REWARD)
            await env.reset()
            counts = await env.observe(*(f"IrInstructionCount{level}" for level in COUNTED))
            row: Row = {"release": release, "version": env.compiler_version, "program": source.stem}
            row["bytes"] = await asyncio.to_thread(clang_sizes, release, source)
            row["instructions"] = dict(zip(COUNTED, map(int, counts), strict=True))
            if seconds:
                found = await aiocg.search.functionwise(env, budget=aiocg.search.Budget(seconds=seconds))
                await env.reset()
                comparison = await aiocg.search.compare(env, found.actions)
                assert comparison is not None
                row["bytes"]["search"] = int(comparison.found)
                row["behaviour"], row["wrong"] = found.checks.behaviour.value, found.checks.wrong
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
            await env.close()
    return rows


def ratio(rows: Iterable[Row], others: Iterable[Row], kind: str, level: str, other: str = "") -> float:
    """Return the geometric mean over programs of what some rows have, relative to what others have."""
    beside = {row["program"]: row[kind][other or level] for row in others}
    logs = [math.log(row[kind][level] / beside[row["program"]]) for row in rows]
    return math.exp(sum(logs) / len(logs))


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---", *["---:"] * (len(head) - 1)], *lines))


def page(rows: Sequence[Row], seconds: float, command: str) -> str:
    """Return the page."""
    by = {release: [row for row in rows if row["release"] == release] for release in RELEASES}
    by = {release: found for release, found in by.items() if found}
    base = by[REFERENCE]
    bytes_ = [
        [found[0]["version"], *(f"{ratio(found, base, 'bytes', level):.3f}" for level in LEVELS)]
        for found in by.values()
    ]
    counts = [
        [found[0]["version"], *(f"{ratio(found, base, 'instructions', level):.3f}" for level in COUNTED)]
        for found in by.values()
    ]
    parts = [
        "# Releases of LLVM compared",
        f"Made by `{command}`, on the {len(base)} programs of programs-v0. Any\nrelease is installed by "
        "`aiocg llvm install` ([Which LLVM is it](faq.md#which-llvm-is-it-and-can-i-use-another)).",
        "## Bytes by clang's levels",
        "What an object brings into an image, as each release's own `clang -OX -c` writes it, relative to the same "
        f"level of\nLLVM {REFERENCE}: geometric means, below 1 is smaller.",
        table(["clang of", *(f"-{level}" for level in LEVELS)], bytes_),
        "![Bytes by release](releases.svg)",
        "## Instructions of the IR",
        f"After `default<O3>`, and after what clang does at -Os and -Oz, relative to LLVM {REFERENCE}.",
        table(["LLVM", "-O3", "-Os", "-Oz"], counts),
    ]
    first, last = by[min(by)], {row["program"]: row for row in by[max(by)]}
    changes = sorted(
        (last[row["program"]]["bytes"]["Oz"] / row["bytes"]["Oz"], row["program"], row["bytes"]["Oz"]) for row in first
    )
    listed = [*changes[:CHANGED], *changes[-CHANGED:]]
    parts += [
        "## Programs that changed most",
        f"Bytes of `clang -Oz`, from LLVM {min(by)} to {max(by)}: on average "
        f"{100 * (1 - ratio(by[max(by)], by[min(by)], 'bytes', 'Oz')):.1f} % fewer; "
        f"{sum(change < 1 for change, *_ in changes)} became smaller, "
        f"{sum(change > 1 for change, *_ in changes)} larger.",
        table(
            ["program", min(by), max(by), "ratio"],
            [[name, f"{size:,}", f"{last[name]['bytes']['Oz']:,}", f"{change:.3f}"] for change, name, size in listed],
        ),
    ]
    searched = {name: found for name, found in by.items() if all("search" in row["bytes"] for row in found)}
    if searched:
        found = [
            [
                rows[0]["version"],
                f"{1 / ratio(rows, rows, 'bytes', 'search', 'Oz'):.3f}",
                f"{ratio(rows, base, 'bytes', 'search', 'Oz'):.3f}",
                f"{sum(row['bytes']['search'] > row['bytes']['Oz'] for row in rows)}",
                f"{sum(row['behaviour'] == 'same' for row in rows)}",
                f"{sum(row['wrong'] for row in rows)}",
            ]
            for rows in searched.values()
        ]
        parts += [
            "## What a search adds",
            f"`functionwise` for {seconds:g} s a program, on two busy cores: how many times smaller than by the same "
            f"release's `clang -Oz`,\nthe bytes relative to `clang -Oz` of LLVM {REFERENCE}, how many programs are "
            "larger than by their `clang -Oz`, how many\nresults were run and did the same, and how many candidates "
            "did something else and were not taken.",
            table(["LLVM", "times smaller", f"relative to {REFERENCE}", "larger", "same", "refused"], found),
        ]
    return "\n\n".join(parts) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the bytes of each level by release."""
    import matplotlib

    from bench.plots.style import BLUE, GREY, ORANGE, RED, SETTINGS, TEAL, VIOLET, figure, save

    by: Mapping[str, list[Row]] = {
        release: found for release in RELEASES if (found := [row for row in rows if row["release"] == release])
    }
    with matplotlib.rc_context(SETTINGS):
        drawn = figure(6.4, 3.0)
        axes = drawn.subplots()
        for level, colour in zip((*LEVELS, "search"), (GREY, BLUE, VIOLET, ORANGE, TEAL, RED), strict=True):
            names = [name for name, found in by.items() if all(level in row["bytes"] for row in found)]
            values = [ratio(by[name], by[REFERENCE], "bytes", level, "Oz") for name in names]
            if names:
                label = level if level == "search" else f"-{level}"
                axes.plot(names, values, color=colour, marker="o", markersize=3, label=label)
        axes.set_xlabel("release of LLVM")
        axes.set_ylabel(f"bytes / clang -Oz of {REFERENCE}")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2f}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:.2f}")
        axes.grid(axis="y")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save(drawn, path)


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", nargs="+", default=list(RELEASES), choices=RELEASES)
    parser.add_argument("--seconds", type=float, default=1.0, help="of the search for each program")
    parser.add_argument(
        "--search", nargs="*", default=[REFERENCE, RELEASES[-1]], help="releases that are searched with"
    )
    parser.add_argument("--rows", type=Path, help="lines of JSON of an earlier run, which are not measured again")
    parser.add_argument("--output", type=Path, help="write the page here, with its plot beside it")
    arguments = parser.parse_args()
    if REFERENCE not in arguments.releases:
        parser.error(f"all is relative to LLVM {REFERENCE}: name it too")
    rows: list[Row] = [json.loads(line) for line in arguments.rows.read_text().splitlines()] if arguments.rows else []
    known = {row["release"] for row in rows}
    for release in arguments.releases:
        if release not in known:
            if not any(one.version.partition(".")[0] == release for one in on_this_machine() if one.origin != "system"):
                install(release)
            rows += asyncio.run(measure(release, arguments.seconds if release in arguments.search else 0.0))
    text = page(rows, arguments.seconds, f"python -m bench.releases --seconds {arguments.seconds:g}")
    if arguments.output is None:
        print(text)
    else:
        arguments.output.write_text(text)
        draw(rows, arguments.output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
