"""What IR2Vec embeddings are made of, against libLLVM's own pass that computes them."""

import itertools
import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aiocg.datasets import default_datasets
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations._ir2vec import ENTITIES, OPCODES, TYPES, Counter
from aiocg.workers.llvm.states import State

Compile = Callable[..., bytes]
Vector = list[float]

DIMENSIONS = 3
FORMS = ("symbolic", "flow-aware")
FEW = ("gcd", "qsort")
ALL = tuple(uri.path for uri in default_datasets()["programs-v0"].benchmark_uris())
PASSES = ("mem2reg", "sroa", "simplifycfg", "instcombine<no-verify-fixpoint>", "gvn", "loop-rotate", "inline")
FUNCTION_VECTOR = re.compile(r"^IR2Vec embeddings for function (.*):\nFunction vector:  \[(.*)\]$", re.MULTILINE)

# Loads the files named last and lets libLLVM print their embeddings.
PRINT = """
import ctypes, pathlib, sys
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module
path, vocabulary, form, *files = sys.argv[1:]
library = Library(path)
options = [b"", b"-ir2vec-vocab-path=" + vocabulary.encode(), b"-ir2vec-kind=" + form.encode()]
library.c.LLVMParseCommandLineOptions(len(options), (ctypes.c_char_p * len(options))(*options), None)
for file in files:
    print(f"FILE {file}", file=sys.stderr, flush=True)
    with Module.parse(library, pathlib.Path(file).read_bytes()) as module:
        module.run_passes("print<ir2vec>", None)
"""

SMALL = b"""
@table = global i32 7
declare i32 @extern(ptr)

define i32 @small(i32 %x) {
entry:
  %a = add i32 %x, 1
  %b = mul i32 %a, %a
  %c = icmp sgt i32 %b, %x
  br i1 %c, label %yes, label %no

yes:
  %d = call i32 @extern(ptr @table)
  br label %no

no:
  %e = phi i32 [ %b, %entry ], [ %d, %yes ]
  ret i32 %e

dead:
  %f = sub i32 %x, %x
  br label %dead
}
"""
# By hand. With each instruction once:
SYMBOLIC = {
    **{"Add": 1, "Mul": 1, "ICmp": 1, "Br": 2, "Call": 1, "PHI": 1, "Ret": 1},
    **{"IntegerTy": 5, "VoidTy": 3},
    **{"Variable": 1 + 2 + 2 + 3 + 1 + 2 + 1, "Constant": 1, "Pointer": 1, "Function": 1, "ICMP_sgt": 1},
}
# Depth first: entry, yes, no. %e is used by ret; %d by %e; %b by %c (which br uses) and by %e; %a twice by %b.
TIMES = {"ret": 1, "e": 2, "d": 1 + 2, "c": 1 + 1, "b": 1 + 2 + 2, "a": 1 + 2 * 5}
FLOW_AWARE = {
    **{"Add": TIMES["a"], "Mul": TIMES["b"], "ICmp": TIMES["c"], "Call": TIMES["d"], "PHI": TIMES["e"]},
    **{"Br": 2, "Ret": 1, "VoidTy": 3, "IntegerTy": sum(TIMES[name] for name in "abcde")},
    **{"Variable": TIMES["a"] + TIMES["c"] + 2 + 1, "Constant": TIMES["a"]},
    **{"Pointer": TIMES["d"], "Function": TIMES["d"], "ICMP_sgt": TIMES["c"]},
}


LITERALS = {"i32": "7", "double": "2.5", "i1": "false"}


def random_program(chance: random.Random) -> bytes:
    """Write a function of random blocks: branches any way, loops, phis from all around, and blocks out of reach."""
    count = chance.randint(1, 9)
    successors = [chance.choices(range(1, count), k=chance.randint(0, 3)) if count > 1 else [] for _ in range(count)]
    values: list[dict[str, list[str]]] = [{"i32": ["%x"], "double": ["%d"], "i1": ["true"]} for _ in range(count)]
    predecessors = [[one for one, targets in enumerate(successors) for to in targets if to == b] for b in range(count)]
    numbers = itertools.count()

    def pick(block: int, kind: str) -> str:
        """Choose a value that is there at the end of a block: its own, the entry's, a parameter or a constant."""
        return chance.choice([*values[block][kind], *values[0][kind], LITERALS[kind]])

    def body(block: int) -> Iterator[str]:
        for _ in range(chance.randint(0, 6)):
            x, y, d, e = (pick(block, kind) for kind in ("i32", "i32", "double", "double"))
            kind, text = chance.choice(
                [
                    ("i32", f"{chance.choice(['add nsw', 'sub', 'mul', 'xor', 'lshr'])} i32 {x}, {y}"),
                    ("double", f"{chance.choice(['fadd', 'fmul fast', 'frem'])} double {d}, {e}"),
                    ("double", f"fneg double {d}"),
                    ("i1", f"icmp {chance.choice(['eq', 'ne', 'ult', 'uge', 'sgt', 'sle'])} i32 {x}, {y}"),
                    ("i1", f"fcmp {chance.choice(['oeq', 'une', 'ord', 'uno', 'ule', 'true'])} double {d}, {e}"),
                    ("i32", f"select i1 {pick(block, 'i1')}, i32 {x}, i32 {y}"),
                    ("i32", f"call i32 @callee(i32 {x}, ptr {chance.choice(['@table', '@f', 'null'])})"),
                    ("i32", f"extractelement <4 x i32> %v, i32 {x}"),
                    ("i32", "load i32, ptr @table"),
                    ("double", f"sitofp i32 {x} to double"),
                ]
            )
            values[block][kind].append(name := f"%v{next(numbers)}")
            yield f"  {name} = {text}"

    def phis(block: int) -> Iterator[str]:
        for kind in ("i32", "double") if predecessors[block] else ():
            brought = {one: pick(one, kind) for one in predecessors[block]}  # the same by each edge of a switch
            edges = ", ".join(f"[ {brought[one]}, %b{one} ]" for one in predecessors[block])
            yield f"  %p_{block}_{kind} = phi {kind} {edges}"

    def end(block: int) -> str:
        match successors[block]:
            case []:
                return chance.choice([f"  ret i32 {pick(block, 'i32')}", "  unreachable"])
            case [one]:
                return f"  br label %b{one}"
            case [one, other]:
                return f"  br i1 {pick(block, 'i1')}, label %b{one}, label %b{other}"
            case [default, *rest]:
                cases = " ".join(f"i32 {number}, label %b{one}" for number, one in enumerate(rest))
                return f"  switch i32 {pick(block, 'i32')}, label %b{default} [ {cases} ]"
        raise AssertionError

    for block in range(count):
        for kind in ("i32", "double") if predecessors[block] else ():
            values[block][kind].append(f"%p_{block}_{kind}")
    bodies = [list(body(block)) for block in range(count)]
    blocks = [[f"b{block}:", *phis(block), *bodies[block], end(block)] for block in range(count)]
    header = "@table = global i32 1\ndeclare i32 @callee(i32, ptr)\ndefine i32 @f(i32 %x, double %d, <4 x i32> %v) {\n"
    return (header + "\n".join(itertools.chain(*blocks)) + "\n}\n").encode()


def make_counter(library: Library, folder: Path) -> Counter:
    return Counter(NativeLibraries(library, find_clang(library), folder).load("ir2vec"))


@pytest.fixture(scope="session")
def counter(natives: NativeLibraries) -> Counter:
    return Counter(natives.load("ir2vec"))


@pytest.fixture(scope="session")
def vocabulary(library: Library, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Vector]]:
    """A random vocabulary of LLVM's form; large integers, because LLVM prints but two decimals."""
    chance = random.Random(5)
    weights = [struct.unpack("f", struct.pack("f", weight))[0] for weight in (1.0, 0.5, 0.2)]
    sections = [OPCODES.split(), TYPES.split()]
    sections.append(list(ENTITIES[sum(map(len, sections)) :]))
    vectors = [[[float(chance.randint(-(10**6), 10**6)) for _ in range(DIMENSIONS)] for _ in one] for one in sections]
    path = tmp_path_factory.mktemp("ir2vec") / "vocabulary.json"
    named = [dict(zip(names, rows, strict=True)) for names, rows in zip(sections, vectors, strict=True)]
    if library.version[0] >= 23:
        named[0] |= dict.fromkeys(("CondBr", "UncondBr"), named[0]["Br"])  # what took its place
    path.write_text(json.dumps(dict(zip(("Opcodes", "Types", "Arguments"), named, strict=True))))
    matrix = [[weight * x for x in row] for weight, rows in zip(weights, vectors, strict=True) for row in rows]
    return path, matrix


def named(counts: Sequence[float]) -> dict[str, float]:
    return {entity: count for entity, count in zip(ENTITIES, counts, strict=True) if count}


def floats(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def assert_agrees(engine: Engine, states: list[State], folder: Path, vocabulary: tuple[Path, list[Vector]]) -> None:
    """Compare the embeddings of all functions of some programs with those that libLLVM prints."""
    counter, (path, matrix) = Counter(engine.natives.load("ir2vec")), vocabulary
    files = [folder / f"{number}.bc" for number in range(len(states))]
    for file, state in zip(files, states, strict=True):
        file.write_bytes(engine.bitcode(state))
    for form in FORMS:
        command = [sys.executable, "-P", "-c", PRINT, str(engine.library.path), str(path), form, *map(str, files)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        for state, text in zip(states, printed.split("FILE ")[1:], strict=True):
            expected = {name: [float(x) for x in vector.split()] for name, vector in FUNCTION_VECTOR.findall(text)}
            pointer = engine.module(state).pointer
            names, counts = counter.names(pointer), floats(counter.functions(pointer, flow_aware=form == "flow-aware"))
            assert names
            for number, name in enumerate(names):
                row = counts[number * len(ENTITIES) : (number + 1) * len(ENTITIES)]
                for dimension, value in enumerate(expected.pop(name)):
                    terms = [count * vector[dimension] for count, vector in zip(row, matrix, strict=True)]
                    # Half of the last decimal printed, and what doubles lose in another order of summing.
                    assert abs(sum(terms) - value) <= 0.006 + 1e-12 * sum(map(abs, terms)), (name, form)
            assert not any(x for vector in expected.values() for x in vector)  # declarations


def skip_without_printer(library: Library) -> None:
    if library.version[0] < 22:
        pytest.skip(f"LLVM {library.version_text} computes no embeddings by this definition, which LLVM 22 made")


@pytest.mark.few(1)
@pytest.mark.parametrize("pipeline", ["verify", "default<O2>", "default<O1>,reg2mem"])
def test_embeddings_are_those_of_llvms_own_pass(
    engine: Engine, compile_program: Compile, tmp_path: Path, vocabulary: tuple[Path, list[Vector]], pipeline: str
) -> None:
    skip_without_printer(engine.library)
    programs = [compile_program(name) for name in ("sorting.c", "matrix.c", "calculator.c", "shapes.cc")]
    programs.append(compile_program("calculator.c", "-g"))
    assert_agrees(engine, [engine.apply(engine.load(one), pipeline) for one in programs], tmp_path, vocabulary)


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("program", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in ALL])
def test_embeddings_of_our_programs_are_those_of_llvms_own_pass(
    engine: Engine, tmp_path: Path, vocabulary: tuple[Path, list[Vector]], program: str
) -> None:
    skip_without_printer(engine.library)
    initial = engine.load(default_datasets()["programs-v0"].benchmark(program).content)
    chance, state, states = random.Random(program), initial, [initial, engine.apply(initial, "default<O3>")]
    for pipeline in chance.sample(PASSES, 5):
        state = engine.apply(state, pipeline)
        states.append(state)
    assert_agrees(engine, states, tmp_path, vocabulary)


@pytest.mark.slow
def test_embeddings_of_random_programs_are_those_of_llvms_own_pass(
    engine: Engine, tmp_path: Path, vocabulary: tuple[Path, list[Vector]]
) -> None:
    skip_without_printer(engine.library)
    chance = random.Random(11)
    assert_agrees(engine, [engine.load(random_program(chance)) for _ in range(100)], tmp_path, vocabulary)


def test_counts_of_a_small_program_are_those_made_by_hand(library: Library, counter: Counter) -> None:
    if library.version[0] < 15:
        pytest.skip("the program is written with opaque pointers")
    with Module.parse(library, SMALL) as module:
        assert named(floats(counter.program(module.pointer, flow_aware=False))) == SYMBOLIC
        assert named(floats(counter.program(module.pointer, flow_aware=True))) == FLOW_AWARE
        assert counter.names(module.pointer) == ["small"]


@pytest.mark.parametrize("flow_aware", [False, True])
def test_a_program_is_the_sum_of_its_functions(
    engine: Engine, counter: Counter, compile_program: Compile, flow_aware: bool
) -> None:
    module = engine.module(engine.load(compile_program("calculator.c")))
    rows = floats(counter.functions(module.pointer, flow_aware=flow_aware))
    assert len(rows) == len(ENTITIES) * len(counter.names(module.pointer))
    sums = tuple(sum(rows[place :: len(ENTITIES)]) for place in range(len(ENTITIES)))
    assert sums == floats(counter.program(module.pointer, flow_aware=flow_aware))


def test_names_that_are_not_utf8_stay_different(library: Library, counter: Counter) -> None:
    text = b'define void @"\\FF"() {\n  ret void\n}\ndefine void @"\\FE"() {\n  ret void\n}\n'
    with Module.parse(library, text) as module:
        assert counter.names(module.pointer) == ["\\xff", "\\xfe"]


def test_a_program_without_bodies_counts_nothing(library: Library, counter: Counter) -> None:
    with Module.parse(library, b"declare i32 @f(i32)\n") as module:
        assert not any(floats(counter.program(module.pointer, flow_aware=True)))
        assert counter.names(module.pointer) == []
        assert counter.functions(module.pointer, flow_aware=False) == b""


def test_flow_aware_counts_stay_finite(library: Library, counter: Counter) -> None:
    """Each instruction uses the one before twice, so that the first counts 2 to the power of their number."""
    lines = [f"  %v{number} = add i32 %v{number - 1}, %v{number - 1}" for number in range(1, 3000)]
    text = "define i32 @f(i32 %v0) {\n" + "\n".join(lines) + "\n  ret i32 %v2999\n}\n"
    with Module.parse(library, text.encode()) as module:
        counts = floats(counter.program(module.pointer, flow_aware=True))
    assert 1e300 < max(counts) < 1e305


@pytest.mark.few(1)
@pytest.mark.parametrize("major", [14, 19])
@pytest.mark.parametrize("name", ["sorting.c", "calculator.c", "shapes.cc"])
def test_an_older_llvm_counts_the_same(
    system_library: Callable[[int], Library],
    compile_with: Compile,
    counter: Counter,
    library: Library,
    cache_dir: Path,
    major: int,
    name: str,
) -> None:
    """But for functions called through a cast, which are functions again once pointers have no types."""
    older = system_library(major)
    bitcode = compile_with(find_clang(older), name, "-O0")  # without lifetime markers, which LLVM 22 rewrites
    with Module.parse(older, bitcode) as module:
        old = [
            floats(make_counter(older, cache_dir).program(module.pointer, flow_aware=form)) for form in (False, True)
        ]
    with Module.parse(library, bitcode) as module:
        new = [floats(counter.program(module.pointer, flow_aware=form)) for form in (False, True)]
    assert [named(one) for one in old] == [named(one) for one in new]
    assert old[0][ENTITIES.index("Switch")] or name != "calculator.c"
