"""What CompilerGym 0.2.5 observes of three programs, and we of the same bitcode; `bench/goldens.py` has asked it.

`docs/migration.md` has a table of what differs, and why. These tests say how much of it there is.
"""

import base64
import itertools
import json
import lzma
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aiocg.compat import compiler_gym
from aiocg.compat.compiler_gym.errors import DownloadFailed

FOLDER = Path(__file__).with_name("goldens")
CASES = {"crc32": 5, "rbtree": 2, "fft": 2}  # lists of actions
LIFETIMES = (20, 6, 6, 6, 10)  # markers in crc32
FILES = (24, 10, 10, 11, 11)  # nodes of crc32 that are a `FILE *`, or lead to one
STATEMENTS = (26, 18, 12, 13, 23)  # of crc32, with a `FILE *`, or an attribute of a marker's argument
NUMBERS = (21, 9, 7, 8, 13)  # of statements of crc32 that differ: some of those that do are in no dictionary
PARALLEL = {"crc32": (0, 0, 0, 1, 0), "rbtree": (51, 7), "fft": (65, 2)}  # edges
NAMES = ("IrInstructionCount", "InstCount", "AutophaseDict", "Inst2vecPreprocessedText", "Programl", "ProgramlJson")

Golden = Mapping[str, Any]


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    with compiler_gym.make("llvm-v0") as made:
        yield made


@pytest.fixture(scope="module", params=[(name, number) for name, count in CASES.items() for number in range(count)])
def case(request: pytest.FixtureRequest, env: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a program, the number of its list of actions, what CompilerGym observes, and what we do."""
    name, number = request.param
    golden = json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))[number]
    path = tmp_path_factory.mktemp("golden") / "program.bc"
    path.write_bytes(base64.b64decode(golden["bitcode"]))
    env.reset(benchmark=env.make_benchmark(path))
    return name, number, golden, {space: env.observation[space] for space in NAMES}


@pytest.mark.few(2)
def test_counts_are_equal(case: Any) -> None:
    """But for the sizes of what markers of lifetimes mark."""
    name, number, theirs, ours = case
    assert ours["IrInstructionCount"] == theirs["IrInstructionCount"]
    assert ours["InstCount"].tolist() == theirs["InstCount"]
    counts = ours["AutophaseDict"]
    if name == "crc32":
        counts = {**counts, "const64Bit": counts["const64Bit"] + LIFETIMES[number]}
    assert list(counts.values()) == theirs["Autophase"]


def test_statements_of_inst2vec_are_equal(case: Any) -> None:
    """But for structures that the program has only pointers to, and attributes of markers of lifetimes."""
    name, number, theirs, ours = case
    pairs = list(zip(theirs["Inst2vecPreprocessedText"], ours["Inst2vecPreprocessedText"], strict=True))
    differing = [(one, other) for one, other in pairs if one != other]
    assert len(differing) == (STATEMENTS[number] if name == "crc32" else 0)
    for one, other in differing:
        assert "opaque*" in one or one.replace("nonnull ", "") == other


@pytest.mark.slow  # the dictionary is fetched
def test_numbers_of_statements_are_equal_where_statements_are(case: Any, env: Any) -> None:
    name, number, theirs, _ = case
    try:
        numbers = env.observation["Inst2vecEmbeddingIndices"]
    except DownloadFailed as error:
        pytest.skip(f"no package index: {error}")
    pairs = list(zip(theirs["Inst2vecEmbeddingIndices"], numbers, strict=True))
    assert sum(one != other for one, other in pairs) == (NUMBERS[number] if name == "crc32" else 0)


def test_program_graphs_are_equal(case: Any) -> None:
    """But for structures that the program has only pointers to; and all parallel edges arrive."""
    name, number, theirs, ours = case
    graph = ours["Programl"]
    edges = [(source, target, data) for source, target, data in graph.edges(data=True)]
    columns = {
        **{key: [data[key] for _, data in graph.nodes(data=True)] for key in ("type", "text", "function", "block")},
        "functions": [function["name"] for function in graph.graph["function"]],
        "source": [source for source, _, _ in edges],
        "target": [target for _, target, _ in edges],
        **{key: [data[key] for _, _, data in edges] for key in ("flow", "position")},
    }
    assert [node["text"] for node in ours["ProgramlJson"]["nodes"]] == columns["text"]
    assert len(edges) == len(theirs["Programl"]["flow"]) + PARALLEL[name][number]
    positions = [Counter(zip(one["flow"], one["position"], strict=True)) for one in (theirs["Programl"], columns)]
    assert not positions[0] - positions[1]
    here, there = shape(columns), shape(theirs["Programl"])
    missing, surplus = there - here, here - there
    assert missing.total() == surplus.total() == (FILES[number] if name == "crc32" else 0)
    assert all("struct*" in node[1] for node in missing)
    untyped = Counter((kind, text.replace("struct", "i8"), *rest) for (kind, text, *rest) in missing.elements())
    assert untyped == surplus


def shape(graph: Golden) -> Counter[Any]:
    """Return each node with its neighbours, in a form that does not depend on how data and functions are numbered.

    Instructions have numbers; data are told apart by their texts and neighbours. Parallel edges count as one. Names of
    intrinsics have lost the types in them.
    """
    functions = [name.replace("p0i8", "p0") for name in graph["functions"]]
    order = itertools.count()
    labels = [
        next(order) if kind == 0 and not text.startswith(";") else f"{kind}"
        for kind, text in zip(graph["type"], graph["text"], strict=True)
    ]
    before: list[set[Any]] = [set() for _ in labels]
    after: list[set[Any]] = [set() for _ in labels]
    for source, target, flow in zip(graph["source"], graph["target"], graph["flow"], strict=True):
        before[target].add((flow, labels[source]))
        after[source].add((flow, labels[target]))
    return Counter(
        (kind, text, functions[function] if kind < 2 else function, block, frozenset(sources), frozenset(targets))
        for kind, text, function, block, sources, targets in zip(
            *(graph[name] for name in ("type", "text", "function", "block")), before, after, strict=True
        )
    )
