"""`aiocg validate` on files of states."""

import json
from pathlib import Path

from typer.testing import CliRunner

from aiocg.cli.app import app
from aiocg.state import CompilerEnvState

GOOD = CompilerEnvState(environment="llvm-v0", benchmark="benchmark://programs-v0/gcd", actions=("sroa", "gvn"))
BAD = CompilerEnvState(
    environment="llvm-v0",
    benchmark="benchmark://programs-v0/gcd",
    actions=("sroa",),
    reward_space="IrInstructionCountOz",
    reward=99.0,
)


def test_states_in_json_and_csv_are_validated_and_a_bad_one_decides_the_exit_status(tmp_path: Path) -> None:
    one, lines, table = tmp_path / "one.json", tmp_path / "lines.json", tmp_path / "table.csv"
    one.write_text(json.dumps(json.loads(GOOD.to_json()), indent=2))
    lines.write_text(f"{GOOD.to_json()}\n{BAD.to_json()}\n")
    table.write_text(f"{CompilerEnvState.csv_header()}\n{BAD.to_csv()}\n")
    result = CliRunner().invoke(app, ["validate", *map(str, (one, lines, table)), "--no-semantics", "--json"])
    value = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, value["states"], value["failed"]) == (1, 4, 2)
    assert [one["reward_validation_failed"] for one in value["results"]] == [False, False, True, True]


def test_good_states_are_told_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    path.write_text(f"{GOOD.to_csv()}\n")
    result = CliRunner().invoke(app, ["validate", str(path), "--run", "small", "--no-sanitizers"])
    assert (result.exit_code, result.stdout) == (0, "✅  programs-v0/gcd\n1 of 1 states are valid\n")


def test_files_that_cannot_be_read_or_hold_no_states_are_errors(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    for path in (tmp_path / "missing", empty):
        assert CliRunner().invoke(app, ["validate", str(path)]).exit_code == 1
