"""Write the tracks of the leaderboard, with the hashes and costs that this machine finds.

    python -m bench.leaderboard_tracks leaderboard/tracks/bytes-1s-1core.toml     # some of them
    python -m bench.leaderboard_tracks                                           # all that are not there yet

A track is never changed once it has entries: a new LLVM, another program or another budget is a new track.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import aiocg
from aiocg.datasets import default_datasets
from aiocg.datasets.llvm_releases import using
from aiocg.leaderboard._track import Baseline, Budget, Compiler, Hidden, Suite, Track, compiler_files, facts_of

Part = TypeVar("Part", Track, Compiler)
TRACKS = Path("leaderboard/tracks")
SMALL = (
    *("aes", "chacha20", "digests", "eventsim", "hashmap", "json"),
    *("matrix", "nbody", "nqueens", "rbtree", "regex", "sparse"),
)
SEEDS = range(1_000_000, 1_000_042)  # of aiocg-v0
SDIST = 42  # programs of the test split
SMALLEST, LARGEST = 1_000, 80_000  # bytes of those
OZ = Baseline(name="clang -Oz", actions=("mark<minsize>", "clang<Oz>"), attributes=("minsize", "optsize"))
O3 = Baseline(name="-O3", actions=("default<O3>",))
RELEASES = {"22.1.8": "", "23.1.4": "-llvm23"}  # and what names of tracks end with
GRACES = {1: 2.0, 60: 5.0, 3600: 60.0}


def tracks() -> dict[str, tuple[Track, dict[str, list[str]]]]:
    """Return the tracks without programs, and the programs of their suites."""
    datasets = default_datasets()
    small = {
        "programs-v0": [f"benchmark://programs-v0/{name}" for name in SMALL],
        "aiocg-v0": [f"generator://aiocg-v0/{seed}" for seed in SEEDS[:12]],
    }
    full = {
        "programs-v0": [str(uri) for uri in datasets["programs-v0"].benchmark_uris()],
        "aiocg-v0": [f"generator://aiocg-v0/{seed}" for seed in SEEDS],
        "sdist-v0-test": [
            str(uri) for uri in datasets["sdist-v0"].split()["test"].shuffled(0)[: 3 * SDIST].benchmark_uris()
        ],
    }
    found = {}
    for release, suffix in RELEASES.items():
        for seconds, cores, suites, hidden in ((1, 1, small, 8), (60, 2, full, 42), (3600, 2, full, 42)):
            length = f"{seconds // 3600}h" if seconds >= 3600 else f"{seconds}s"
            on = f"{cores} core{'s' if cores > 1 else ''}"
            name, title = f"bytes-{length}-{on.replace(' ', '')}{suffix}", f"Bytes in the image, {length} on {on}"
            found[name] = _track(name, title, release, seconds, cores, hidden), suites
        time = msgspec_replace(
            _track(f"time-60s-2cores{suffix}", "Running time, 60s on 2 cores", release, 60, 2, 0),
            metric="time", reward="runtime", cost="Runtime", baseline=O3, hidden=None,
        )  # fmt: skip
        found[time.name] = time, {"programs-v0": [f"benchmark://programs-v0/{n}" for n in ("fft", "nbody", "qsort")]}
    return found


def msgspec_replace(part: Part, **changes: object) -> Part:
    """Return a track, or a part of one, with other fields."""
    import msgspec

    return msgspec.structs.replace(part, **changes)


def _track(name: str, title: str, release: str, seconds: int, cores: int, hidden: int) -> Track:
    return Track(
        name=name,
        title=f"{title}, LLVM {release.rpartition('.')[0]}",
        environment="llvm-v0",
        reward="ObjectImageSizeOzMinsize",
        cost="ObjectImageSizeMinsizeBytes",
        compiler=Compiler(version=f"LLVM {release}", files={}),
        baseline=OZ,
        budget=Budget(seconds=float(seconds), cores=cores, grace=GRACES[seconds]),
        suites=(),
        hidden=Hidden(dataset="generator://aiocg-v0", programs=hidden),
    )


async def pinned(track: Track, suites: dict[str, list[str]]) -> Track:
    """Return a track with its programs; of files of sdist-v0 those that are neither tiny nor huge."""
    found = []
    async with aiocg.Runtime(llvm=track.compiler.version.removeprefix("LLVM ")) as runtime:
        for name, uris in suites.items():
            facts, problems = await facts_of(runtime, track, uris)
            for problem in problems:
                print(problem, file=sys.stderr)
            programs = [facts[uri].program for uri in uris if uri in facts]
            if name.startswith("sdist"):
                programs = [one for one in programs if SMALLEST <= one.start <= LARGEST][:SDIST]
            found.append(Suite(name=name, programs=tuple(programs)))
    return msgspec_replace(track, suites=tuple(found))


def to_toml(track: Track) -> str:
    """Return a track as a file."""
    quoted = {name: json.dumps(getattr(track, name)) for name in
              ("name", "title", "environment", "reward", "cost", "metric", "seeds")}  # fmt: skip
    lines = [f"{name} = {value}" for name, value in quoted.items()]
    lines += ["", "[compiler]", f"version = {json.dumps(track.compiler.version)}", "", "[compiler.files]"]
    lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in sorted(track.compiler.files.items())]
    for name in ("baseline", "budget", "hidden"):
        if (part := getattr(track, name)) is not None:
            lines += ["", f"[{name}]"]
            lines += [f"{field} = {json.dumps(getattr(part, field))}" for field in part.__struct_fields__]
    for suite in track.suites:
        lines += ["", "[[suites]]", f"name = {json.dumps(suite.name)}", "programs = ["]
        lines += [
            f'  {{ uri = {json.dumps(one.uri)}, sha256 = "{one.sha256}", start = {one.start}, '
            f"baseline = {one.baseline} }},"
            for one in suite.programs
        ]
        lines.append("]")
    return "\n".join(lines) + "\n"


def main(paths: Sequence[str]) -> None:
    """Write the tracks that are named, or all that are not there."""
    for name, (track, suites) in tracks().items():
        path = TRACKS / f"{name}.toml"
        if path.name in [Path(one).name for one in paths] or (not paths and not path.exists()):
            with using(track.compiler.version.removeprefix("LLVM ")):
                compiler = msgspec_replace(track.compiler, files=compiler_files())
                made = asyncio.run(pinned(msgspec_replace(track, compiler=compiler), suites))
            path.write_text(to_toml(made), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
