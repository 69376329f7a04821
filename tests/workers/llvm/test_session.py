"""The LLVM session: the contract of a compiler, and every kind of bad input."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.session import LlvmSession

Compile = Callable[..., bytes]


@pytest.fixture(scope="module", autouse=True)
def _started(cache_dir: Path) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir)})


def action(name: str) -> int:
    return [one.name for one in LlvmSession.action_spaces[0].actions].index(name)


def opened(content: bytes) -> LlvmSession:
    return LlvmSession(LlvmSession.load_benchmark(content))


def refusal(content: bytes) -> str:
    """Return why a benchmark is refused, and see that the engine goes on."""
    with pytest.raises(CompilationError) as caught:
        LlvmSession.load_benchmark(content)
    assert caught.value.code == FailureCode.BENCHMARK
    session = opened(b"define i32 @f() {\n  %x = add i32 1, 2\n  ret i32 0\n}\n")
    assert session.apply_action(action("dce"))
    return caught.value.message


def test_spaces_describe_what_was_loaded() -> None:
    names = [space.name for space in LlvmSession.action_spaces]
    assert names[0] == "Passes"
    assert names[-1] == "PipelineText"
    assert len(LlvmSession.action_spaces[0].actions) == len(LlvmSession.vocabulary.passes) > 100
    assert all(one.description for space in LlvmSession.action_spaces for one in space.actions)
    assert [spec.name for spec in LlvmSession.observation_spaces] == list(OBSERVATIONS)
    assert LlvmSession.compiler_version == f"LLVM {LlvmSession.engine.library.version_text}"


def test_action_says_whether_it_changed_the_program(compile_program: Compile) -> None:
    session = opened(compile_program("sorting.c"))
    before = session.get_observation("IrInstructionCount"), session.state_hash()
    assert session.apply_action(action("mem2reg"))
    after = session.get_observation("IrInstructionCount"), session.state_hash()
    assert after[0] < before[0]
    assert after[1] != before[1]
    assert not session.apply_action(action("mem2reg"))
    assert session.state_hash() == after[1]


def test_every_action_works_on_every_program(compile_program: Compile) -> None:
    for name in ("sorting.c", "matrix.c", "calculator.c", "shapes.cc"):
        session = opened(compile_program(name))
        effects = [session.fork().apply_action(index) for index in range(len(LlvmSession.vocabulary.passes))]
        assert any(effects)
        assert not all(effects)


def test_fork_shares_the_state_and_leaves_the_parent_unchanged(compile_program: Compile) -> None:
    parent = opened(compile_program("calculator.c"))
    child = parent.fork()
    assert child.state is parent.state
    before = parent.state_hash()
    child.apply_action(action("sroa"))
    assert parent.state_hash() == before != child.state_hash()
    assert parent.apply_action(action("sroa"))
    assert parent.state_hash() == child.state_hash()


def test_candidates_tried_on_forks_cost_nothing_when_they_are_taken(compile_program: Compile) -> None:
    session = opened(compile_program("calculator.c"))
    for index in range(len(LlvmSession.vocabulary.passes)):
        session.fork().apply_action(index)
    runs = LlvmSession.statistics()["pipelines_run"]
    for index in range(len(LlvmSession.vocabulary.passes)):
        session.fork().apply_action(index)
    assert LlvmSession.statistics()["pipelines_run"] == runs


@pytest.mark.parametrize("bad", [-1, 100_000, "no-such-pass", 1.0, True, None, [1]])
def test_unknown_action_is_refused_and_changes_nothing(simple: bytes, bad: object) -> None:
    session = opened(simple)
    before = session.state_hash()
    with pytest.raises(CompilationError, match="is not an action") as caught:
        session.check_action(bad)
    assert caught.value.code == FailureCode.ACTION_UNKNOWN
    assert session.state_hash() == before


def test_unknown_observation_is_refused_with_the_names_there_are(simple: bytes) -> None:
    with pytest.raises(CompilationError, match="AutophaseDict") as caught:
        opened(simple).get_observation("Autophas")
    assert caught.value.code == FailureCode.OBSERVATION_UNKNOWN


def test_parameter_is_refused(simple: bytes) -> None:
    with pytest.raises(CompilationError) as caught:
        opened(simple).set_parameter("llvm.unknown", "1")
    assert caught.value.code == FailureCode.PARAMETER
    with pytest.raises(CompilationError, match="takes a number from 1 to 10000") as caught:
        opened(simple).set_parameter("llvm.set_runtimes_per_observation_count", "9" * 5000)
    assert caught.value.code == FailureCode.PARAMETER


def test_worker_without_a_library_says_so(tmp_path: Path) -> None:
    with pytest.raises(CompilationError, match="no libLLVM at") as caught:
        LlvmSession.start({"library": str(tmp_path / "libLLVM.so"), "cache_dir": str(tmp_path)})
    assert caught.value.code == FailureCode.COMPILER


@pytest.mark.slow
def test_cache_folder_is_that_of_the_environment_unless_one_is_given(
    cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "chosen"))
    LlvmSession.start({"cache_dir": str(cache_dir)})
    assert not (tmp_path / "chosen").exists()
    LlvmSession.start({})
    assert list((tmp_path / "chosen").rglob("*.so"))


def test_transition_memory_can_be_limited(cache_dir: Path, compile_program: Compile) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir), "transition_cache_bytes": 0})
    session = opened(compile_program("sorting.c"))
    assert session.apply_action(action("mem2reg"))
    assert LlvmSession.statistics()["transitions_remembered"] == 0


def test_memory_for_modules_can_be_limited(cache_dir: Path, compile_program: Compile) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir), "module_cache_bytes": 0})
    sessions = [opened(compile_program(name)) for name in ("sorting.c", "calculator.c")]
    for session in sessions:
        assert session.apply_action(action("mem2reg"))
        assert LlvmSession.statistics()["modules_kept"] == 1
    for session in sessions:
        assert session.apply_action(action("gvn"))


def test_session_that_is_closed_leaves_no_module_behind(cache_dir: Path, compile_program: Compile) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir), "transition_cache_bytes": 0})
    benchmark = LlvmSession.load_benchmark(compile_program("sorting.c"))
    for _ in range(100):
        session = LlvmSession(benchmark)
        fork = session.fork()
        assert session.apply_action(action("mem2reg"))
        session.close()
        fork.close()
    statistics = LlvmSession.statistics()
    assert statistics["modules_kept"] <= 8
    assert statistics["states"] <= 9


@pytest.mark.slow
def test_every_result_is_verified_when_asked(library_14: Library, clang: str, cache_dir: Path) -> None:
    """`constraint-elimination` of LLVM 14 puts a scalar where a vector was."""
    text = (
        b"define <1 x i1> @f(<1 x i32> %x, i1 %c) {\n  br i1 %c, label %a, label %b\n"
        b"a:\n  %t = icmp ule <1 x i32> %x, %x\n  ret <1 x i1> %t\nb:\n  ret <1 x i1> zeroinitializer\n}\n"
    )
    options = {"library": str(library_14.path), "clang": clang, "cache_dir": str(cache_dir)}
    try:
        for verify in (False, True):
            LlvmSession.start({**options, "verify_passes": verify})
            session = opened(text)
            if verify:
                with pytest.raises(CompilationError, match="not valid IR"):
                    session.apply_action("constraint-elimination")
            else:
                assert session.apply_action("constraint-elimination")
    finally:
        LlvmSession.start({"cache_dir": str(cache_dir)})


# ------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_empty_benchmark_is_refused(content: bytes) -> None:
    assert "empty" in refusal(content)


def test_program_for_the_machine_is_refused_by_what_it_is() -> None:
    assert "an ELF object or program" in refusal(Path(sys.executable).resolve().read_bytes()[:4096])


def test_binary_data_is_refused() -> None:
    assert "binary data" in refusal(bytes(range(256)))


def test_source_code_is_refused_as_text() -> None:
    assert "textual IR" in refusal(b"int main(void) { return 0; }\n")


def test_syntax_error_is_refused_with_its_place() -> None:
    assert "benchmark:2:7: error: " in refusal(b"define i32 @f() {\n  ret nonsense\n}\n")


def test_invalid_ir_is_refused_with_the_verifiers_words() -> None:
    text = b"define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret i32 %x\n}\n"
    message = refusal(text)
    assert "does not dominate" in message and "AIOCG_LLVM_LIBRARY" not in message


def test_syntax_that_llvm_does_not_know_may_be_of_a_newer_one() -> None:
    message = refusal(b"define i32 @f() brand_new {\n  ret i32 0\n}\n")
    assert "expected '{' in function body" in message and "If a newer one wrote this" in message


@pytest.mark.parametrize("sixteenth", range(1, 16))
def test_truncated_bitcode_is_refused_with_advice(compile_program: Compile, sixteenth: int) -> None:
    content = compile_program("calculator.c")
    message = refusal(content[: len(content) * sixteenth // 16])
    assert "does not accept this bitcode" in message
    assert "AIOCG_LLVM_LIBRARY" in message


def test_bitcode_of_a_newer_llvm_is_refused_with_advice(
    library: Library, library_14: Library, clang: str, cache_dir: Path, compile_program: Compile
) -> None:
    if library.version[0] < 17:
        pytest.skip(f"LLVM 14 reads the bitcode of LLVM {library.version[0]}")
    try:
        LlvmSession.start({"library": str(library_14.path), "clang": clang, "cache_dir": str(cache_dir)})
        message = refusal(compile_program("calculator.c"))
    finally:
        LlvmSession.start({"cache_dir": str(cache_dir)})
    assert "LLVM 14" in message
    assert "AIOCG_CLANG" in message


FLIPS = """
import random, sys
from pathlib import Path
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.session import LlvmSession

seed, cache, file = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
LlvmSession.start({"cache_dir": cache})
content = file.read_bytes()
chance = random.Random(seed)
for _ in range(40):
    damaged = bytearray(content)
    damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    try:
        LlvmSession.load_benchmark(bytes(damaged))
        print("accepted", flush=True)
    except CompilationError as error:
        print(error.code, flush=True)
session = LlvmSession(LlvmSession.load_benchmark(content))
assert session.get_observation("IrInstructionCount") > 0
print("usable", flush=True)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_bitcode_with_a_flipped_bit_is_refused_or_accepted_or_ends_the_process(
    compile_program: Compile, cache_dir: Path, tmp_path: Path, seed: int
) -> None:
    """LLVM crashes on some damaged files (its readers trust bitcode); nothing else may come out than that."""
    file = tmp_path / "program.bc"
    file.write_bytes(compile_program("sorting.c"))
    command = [sys.executable, "-P", "-c", FLIPS, str(seed), str(cache_dir), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    results = done.stdout.split()
    assert set(results) <= {"accepted", FailureCode.BENCHMARK, "usable"}
    assert "Traceback" not in done.stderr
    assert done.returncode < 0 or results[-1] == "usable"
