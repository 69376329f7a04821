"""CompilerGym's programs, as processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
from aiocg.compat.compiler_gym.util.flags.benchmark_from_flags import FLAGS, benchmark_from_flags

HEADER = "benchmark,reward,commandline,walltime\n"
GCD = "benchmark://programs-v0/gcd"


def run(folder: Path, program: str, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    code = f"from aiocg.compat._command import main; main(['-m', 'compiler_gym.bin.{program}', *{arguments!r}])"
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_states_are_validated(tmp_path: Path) -> None:
    good = f"{GCD},0,opt  input.bc -o output.bc,0.3\n"
    done = run(tmp_path, "validate", "--env=llvm-ic-v0", "--nproc=2", "-", stdin=HEADER + good + good)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("✅  programs-v0/gcd ") == 2
    assert "Number of validated results: \033[1m\033[94m2\033[0m of 2" in done.stdout
    assert "Geometric mean IrInstructionCountOz" in done.stdout
    log = json.loads((tmp_path / "validation.log.json").read_text())
    assert CompilerEnvState(**log[0]["state"]).benchmark == GCD

    (tmp_path / "bad.csv").write_text(f"{HEADER}{good}{GCD},0.5,opt  input.bc -o output.bc,0.3\n")
    flags = ["--env=llvm-ic-v0", "--inorder", "--reward_aggregation=mean"]
    done = run(tmp_path, "validate", *flags, "bad.csv")
    assert done.returncode == 1
    lines = [line.removeprefix("\033[K") for line in done.stdout.splitlines() if "gcd" in line]
    assert lines[0].startswith("✅  programs-v0/gcd")
    assert lines[1] == "❌  programs-v0/gcd  Expected reward 0.5 but received reward 0.0"
    assert "Mean IrInstructionCountOz" in done.stdout


@pytest.mark.slow
def test_what_is_printed_when_all_is_valid(tmp_path: Path) -> None:
    flags = ["--env=llvm-ic-v0", "--debug_force_valid", "--summary_only"]
    done = run(tmp_path, "validate", *flags, "-", stdin=f"{HEADER}{GCD},0.5,opt input.bc -o output.bc,2\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Number of validated results: \033[1m\033[94m1\033[0m of 1",
        "Mean walltime per benchmark: \033[1m\033[94m2.000s\033[0m (std: \033[1m\033[94m0.000s\033[0m)",
        "Geometric mean IrInstructionCountOz: \033[1m\033[94m0.500\033[0m (std: \033[1m\033[94m0.000\033[0m)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["-"], "", "No inputs to validate"),
        (["-"], "invalid\ncsv\n", "line 1: expected the columns"),
        (["/no/such.csv"], "", "No such file"),
        (["--colour=red", "-"], "", "colour"),
    ],
)
def test_what_cannot_be_validated_is_told(tmp_path: Path, arguments: list[str], stdin: str, message: str) -> None:
    done = run(tmp_path, "validate", "--env=llvm-ic-v0", *arguments, stdin=stdin)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_search_and_replay(tmp_path: Path) -> None:
    flags = ["--env=llvm-ic-v0", f"--benchmark={GCD}", "--output_dir=out"]
    more = ["--runtime=0.5", "--nproc=1", "--patience=10", "--fail_threshold=1000"]
    done = run(tmp_path, "random_search", *flags, *more)
    assert done.returncode == 1
    assert "below threshold of 1000" in done.stderr
    done = run(tmp_path, "random_replay", "--env=llvm-ic-v0", "--output_dir=out")
    assert done.returncode == 0, done.stderr
    assert "Step [001 / " in done.stdout


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("random_search", [], "--env must be set"),
        ("random_search", ["--env=llvm-v0", "what"], "Unknown command line arguments: ['what']"),
        ("random_replay", ["--env=llvm-v0"], "--output_dir must be set"),
        ("manual_env", [], "--env must be set"),
        ("service", ["--env=llvm-v0", "--run_on_port=7777"], "does not serve"),
    ],
)
def test_flags_that_are_missing_are_asked_for(tmp_path: Path, program: str, arguments: list[str], message: str) -> None:
    done = run(tmp_path, program, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_environments_are_listed_and_described(tmp_path: Path) -> None:
    done = run(tmp_path, "service", "--ls_env")
    assert "llvm-autophase-ic-v0" in done.stdout.split()
    done = run(tmp_path, "service", "--env=llvm-v0")
    assert done.returncode == 0, done.stderr
    for text in ("benchmark://cbench-v1", "Autophase", "IrInstructionCountOz", "-mem2reg", "122", "∞"):
        assert text in done.stdout


@pytest.mark.slow
def test_shell_reads_commands(tmp_path: Path) -> None:
    done = run(tmp_path, "manual_env", "--env=llvm-ic-v0", f"--benchmark={GCD}", stdin="action -mem2reg\nexit\n")
    assert done.returncode == 0, done.stderr
    assert "mem2reg" in done.stdout


def test_benchmark_of_the_flags_can_be_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ll"
    path.write_text("; nothing")
    FLAGS(["program"])  # they have no values before
    monkeypatch.setattr(FLAGS, "benchmark", f"file:///{path}", raising=False)
    benchmark = benchmark_from_flags()
    assert benchmark is not None
    assert not isinstance(benchmark, str)
    assert benchmark.proto.program.contents == b"; nothing"
    FLAGS.benchmark = "programs-v0/gcd"
    assert benchmark_from_flags() == "programs-v0/gcd"
    FLAGS.benchmark = None
    assert benchmark_from_flags() is None
