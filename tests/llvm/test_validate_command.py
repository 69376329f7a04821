"""`aiocg validate` and `aiocg replay` on files of states."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aiocg.cli._state import Aggregation, Summary, line
from aiocg.cli.app import app
from aiocg.datasets.toolchain import find_toolchain
from aiocg.states.files import CompilerEnvStateWriter
from aiocg.states.state import CompilerEnvState
from aiocg.validation import ValidationResult

GCD = "benchmark://programs-v0/gcd"
GOOD = CompilerEnvState(environment="llvm-v0", benchmark=GCD, actions=("sroa", "gvn"))
BAD = CompilerEnvState(
    environment="llvm-v0",
    benchmark=GCD,
    actions=("sroa",),
    reward_space="IrInstructionCountOz",
    reward=99.0,
    walltime=1.0,
)
LEGACY = """\
benchmark,reward,walltime,commandline
benchmark://programs-v0/gcd,1.25,2.0,opt -sroa -gvn -barrier -simplifycfg -barrier input.bc -o output.bc
benchmark://no-such-v0/crc32,1.0,4.0,opt -mem2reg -loop-reroll input.bc -o output.bc
"""


def run(*arguments: object, stdin: str = "") -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def write(path: Path, *states: CompilerEnvState) -> Path:
    """Write states to a file."""
    with CompilerEnvStateWriter(open(path, "w")) as writer:
        for state in states:
            writer.write_state(state)
    return path


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked for on the web."""
    monkeypatch.setenv("AIOCG_OFFLINE", "1")


def test_states_in_json_and_csv_are_validated_and_a_bad_one_decides_the_exit_status(tmp_path: Path) -> None:
    one, lines, table = tmp_path / "one.json", tmp_path / "lines.json", tmp_path / "table.csv"
    one.write_text(json.dumps(json.loads(GOOD.to_json()), indent=2))
    lines.write_text(f"{GOOD.to_json()}\n{BAD.to_json()}\n")
    write(table, BAD)
    result = run("validate", one, lines, table, "--no-semantics", "--inorder", "--json")
    value = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, value["states"], value["failed"]) == (1, 4, 2)
    assert [one["reward_validation_failed"] for one in value["results"]] == [False, False, True, True]


@pytest.mark.slow
def test_good_states_are_told_line_by_line(tmp_path: Path) -> None:
    path = write(tmp_path / "good.csv", GOOD)
    result = run("validate", path, "--run", "small", "--no-sanitizers")
    assert (result.exit_code, result.stdout) == (0, "✅  programs-v0/gcd\n1 of 1 states are proven, 0 are wrong\n")
    result = run("validate", "-", "--no-semantics", "--summary-only", stdin=path.read_text())
    assert (result.exit_code, result.stdout) == (0, "0 of 1 states are proven, 0 are wrong; 1 not run\n")


def test_bad_states_say_what_is_wrong_in_their_line(tmp_path: Path) -> None:
    result = run("validate", write(tmp_path / "bad.csv", BAD), "--no-semantics")
    (first, *_) = result.stdout.splitlines()
    assert first.startswith("❌  programs-v0/gcd  Wrong reward: said 99.0000, is 0.")
    assert (result.exit_code, "0 of 1 states are proven, 1 are wrong" in result.stdout) == (1, True)


@pytest.mark.few(2)
@pytest.mark.needs("libc")
@pytest.mark.parametrize(
    ("source", "status", "mark", "says"),
    [
        ("int main(void) { return 3; }", 0, "✅", ""),
        ("int *p; int main(void) { return *p; }", 3, "❔", "your program fails by itself: segmentation fault"),
        ("int f(int x) { return x + x; }", 3, "❔", "not run, because it has no main"),
        (
            '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d", (int)getpid()); }',
            *(3, "❔", "varies or undefined: what it writes varies from run to run"),
        ),
    ],
    ids=["same", "fails", "not run", "varies"],
)
def test_exit_status_tells_proven_states_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, status: int, mark: str, says: str
) -> None:
    monkeypatch.setenv("AIOCG_SANDBOX", "rlimits")  # in a box each process has the number of the one before it
    path = tmp_path / "program.c"
    path.write_text(source)
    state = CompilerEnvState(environment="llvm-v0", benchmark=f"file://{path}", actions=("sroa",))
    result = run("validate", write(tmp_path / "one.csv", state), "--no-sanitizers")
    assert (result.exit_code, result.stdout[:1], says in result.stdout) == (status, mark, True), result.stdout


@pytest.mark.slow
@pytest.mark.skipif(find_toolchain().major not in (22, 23), reason="that is a bug of LLVM 22 and 23")
def test_miscompiled_program_is_reported_with_the_fewest_passes(tmp_path: Path) -> None:
    actions = ("lower-expect", "sroa", "attributor-cgscc", "dse")  # of which attributor-cgscc is wrong
    state = CompilerEnvState(environment="llvm-v0", benchmark="benchmark://programs-v0/json", actions=actions)
    path = write(tmp_path / "wrong.csv", state)
    result = run("validate", path, "--run", "small", "--no-sanitizers", "--flakiness", "1", "--json")
    value = json.loads(result.stdout.splitlines()[-1])
    (found,) = value["results"]
    assert (result.exit_code, value["failed"], found["behaviour"]) == (1, 1, "differs")
    assert "attributor-cgscc" in found["reproducer"] and len(found["reproducer"]) < len(actions)
    read = ValidationResult.from_json(json.dumps(found))
    first, second = line(read).splitlines()
    assert "differs: miscompiled:" in first and second.split()[0] == "report"
    assert second.endswith(f"{','.join(found['reproducer'])} on benchmark://programs-v0/json (llvm-v0)")


def test_a_run_that_a_program_does_not_have_is_named(tmp_path: Path) -> None:
    result = run("validate", write(tmp_path / "good.csv", GOOD), "--run", "smal")
    assert result.exit_code == 1
    assert result.stdout.startswith("❌  programs-v0/gcd  Unknown run: unknown run 'smal'; did you mean small?")


@pytest.mark.slow
def test_states_of_compilergym_are_valid_whatever_they_earn_and_say_what_was_left_out(tmp_path: Path) -> None:
    path, log = tmp_path / "leaderboard.csv", tmp_path / "log.jsonl"
    path.write_text(LEGACY)
    result = run("validate", path, "--inorder", "--no-semantics", "--validation-log", log)
    first, second, *summary = result.stdout.splitlines()
    assert first.split()[:2] == ["❔", "programs-v0/gcd"] and 0 < float(first.split()[2]) < 1.25
    assert "said to be 1.2500 with another compiler; 3 of 5 flags of LLVM 10 have a pass in LLVM" in first
    assert "left out: -barrier (2 times)" in first and first.endswith("not run, because it was not to be run")
    assert second.startswith("❌  no-such-v0/crc32  Benchmark unavailable: no dataset is named 'no-such-v0'")
    assert summary[0].startswith(
        "0 of 2 states are proven, 1 are wrong; 1 not run; 1 could not be checked for want of the benchmark"
    )
    assert summary[1] == "mean wall time 2.000 s (standard deviation 0.000 s)"
    assert summary[2].startswith("geometric mean of IrInstructionCountOz 0.")
    assert summary[3] == "1 of 1 state with a reward found with another compiler; said to be 1.250"
    assert summary[4] == "3 of 7 flags of LLVM 10 were left out, as nothing does their job today:"
    assert [line.split()[:2] for line in summary[5:]] == [["-barrier", "2"], ["-loop-reroll", "1"]]
    assert result.exit_code == 1
    again = [ValidationResult.from_json(line) for line in log.read_text().splitlines()]
    assert [not one.wrong for one in again] == [True, False]

    value = json.loads(run("validate", log, "--no-semantics", "--json").stdout.splitlines()[-1])
    assert (value["failed"], value["unavailable"], value["flags"]) == (1, 1, 7)
    assert value["flags_gone"]["-barrier"]["times"] == 2
    assert value["rewards"]["IrInstructionCountOz"]["of_another_compiler"] == 1
    assert value["rewards"]["IrInstructionCountOz"]["said"] == pytest.approx(1.25)


def test_rows_that_are_no_states_are_an_error_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "damaged.csv"
    path.write_text(f"{CompilerEnvState.csv_header()}\n{GOOD.to_csv()}\nonly this\n{GOOD.to_csv()}\n")
    result = run("validate", path, "--no-semantics")
    assert result.exit_code == 1
    assert "damaged.csv, line 3: expected 6 columns, found 1" in str(result.exception)
    result = run("validate", path, "--no-semantics", "--skip-invalid")
    assert result.exit_code == 1
    assert "0 of 2 states are proven, 0 are wrong; 2 not run\n1 row left out, as no states\n" in result.stdout
    assert "damaged.csv, line 3" in result.stderr


def test_files_that_cannot_be_read_or_hold_no_states_are_errors(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    for path in (tmp_path / "missing", empty, tmp_path):
        result = run("validate", path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(path) in result.stderr
    assert "there is no directory" in run("validate", empty, "--validation-log", tmp_path / "no/log").stderr


def test_rewards_become_one_number_by_either_mean() -> None:
    assert Aggregation.GEOMEAN.of([1.0, 4.0]) == pytest.approx(2.0)
    assert Aggregation.GEOMEAN.of([1.0, 0.0]) == Aggregation.GEOMEAN.of([1.0, -4.0]) == 0.0
    assert Aggregation.MEAN.of([1.0, -4.0]) == -1.5
    summary = Summary(Aggregation.MEAN)
    for space, reward, failed in (("a", 1.0, False), ("a", 2.0, False), ("b", 5.0, False), ("a", 9.0, True)):
        state = CompilerEnvState(environment="e", benchmark="b", reward_space=space, reward=reward, walltime=reward)
        summary.results.append(ValidationResult(state=state, reward=reward, reward_validation_failed=failed))
    assert summary.lines() == [
        "0 of 4 states are proven, 1 are wrong; 3 not run",
        "mean wall time 2.667 s (standard deviation 1.700 s)",
        "mean of a 1.500 (standard deviation 0.500)",
        "mean of b 5.000 (standard deviation 0.000)",
    ]


# ---------------------------------------------------------------------------------------------------- replay


@pytest.mark.slow
def test_a_line_of_a_table_is_replayed(tmp_path: Path) -> None:
    path = write(tmp_path / "two.csv", GOOD, BAD)
    result = run("replay", f"{path}:2")
    assert (result.exit_code, "actions    sroa,gvn" in result.stdout) == (0, True)
    result = run("replay", f"{path}:3")
    assert (result.exit_code, "not 99.0 as saved" in result.stderr) == (1, True)
    assert "there are 2 states" in str(run("replay", path).exception)


@pytest.mark.slow
def test_a_state_of_compilergym_is_replayed_and_says_what_became_of_its_flags(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.csv"
    path.write_text(LEGACY)
    result = run("replay", f"{path}:2", "-o", tmp_path / "found.bc")
    assert result.exit_code == 0
    assert "actions    sroa,gvn,simplifycfg" in result.stdout
    assert "(saved by another compiler: 1.2500)" in result.stdout
    assert "-barrier is left out: does nothing" in result.stdout
    assert (tmp_path / "found.bc").read_bytes()[:2] == b"BC"
    value = json.loads(run("replay", f"{path}:2", "--env", "llvm-v0", "--json").stdout)
    assert (value["state"]["environment"], value["state"]["reward"]) == ("llvm-v0", None)
    assert value["translation"]["gone"] == {"-barrier": 2}
