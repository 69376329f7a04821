"""The command line: help, what there is, and how commands fail."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from aiocg.cli.app import app

from .command_line import CHEAPEST, Run, runner


@pytest.fixture
def aiocg(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in this process, with a fresh folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return runner(monkeypatch, capfd)


def _commands() -> list[tuple[list[str], Any]]:
    """Return every command, however deep, after its words."""

    def walk(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
        children = getattr(command, "commands", None)
        if children is None:
            yield words, command
        for name, child in (children or {}).items():
            yield from walk(child, [*words, name])

    return list(walk(typer.main.get_command(app), []))


# ------------------------------------------------------------------------------------------------------ help


def test_every_command_has_an_example() -> None:
    for words, command in _commands():
        assert f"Example: aiocg {' '.join(words)}" in " ".join((command.help or "").split())


@pytest.mark.sampled
@pytest.mark.few(3)
@pytest.mark.parametrize("words", [words for words, _ in _commands()], ids=" ".join)
def test_help_has_an_example_of_the_command(aiocg: Run, words: list[str]) -> None:
    done = aiocg(*words, "--help")
    assert done.status == 0
    assert f"Example: aiocg {' '.join(words)}" in " ".join(done.out.split())


def test_no_arguments_show_the_commands(aiocg: Run) -> None:
    done = aiocg()
    for word in ("search", "envs", "dataset", "datasets", "describe", "replay"):
        assert word in done.out + done.err


@pytest.mark.slow
def test_help_may_be_asked_for_by_its_short_name(aiocg: Run) -> None:
    for words in (["-h"], ["search", "-h"], ["search", "greedy", "-h"], ["envs", "-h"], ["rl", "train", "-h"]):
        assert aiocg(*words).out == aiocg(*[word.replace("-h", "--help") for word in words]).out


def test_version_is_the_packages(aiocg: Run) -> None:
    from aiocg import __version__

    assert aiocg("--version").out == f"aiocg {__version__}\n"


# ---------------------------------------------------------------------------------------------- what there is


def test_envs_lists_whole_names_even_on_a_narrow_terminal(aiocg: Run) -> None:
    done = aiocg("envs")
    for name in ("llvm-v0", "llvm-ic-v0", "llvm-autophase-ic-v0", "llvm-ir-ic-v0", "IrInstructionCountOz"):
        assert name in done.out


@pytest.mark.parametrize(
    ("words", "lists"),
    [
        (["envs"], ["environments"]),
        (["datasets"], []),
        (["datasets", "programs-v0"], []),
        pytest.param(
            ["describe", "llvm-ir-ic-v0"],
            ["action_spaces", "observation_spaces", "reward_spaces"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_tables_fit_80_columns_with_every_name_whole(aiocg: Run, words: list[str], lists: list[str]) -> None:
    done = aiocg(*words)
    assert "…" not in done.out and max(map(len, done.out.splitlines())) <= 80
    for listed in lists:
        for one in aiocg(*words, "--json").json[listed]:
            name = one.get("name") or one["id"]
            assert any(name in line.replace("│", " ").split() for line in done.out.splitlines()), name
    widths = [len(line.split("┃")[-2]) for line in done.out.splitlines() if "description" in line]
    assert all(width >= 20 for width in widths)  # room for words


def test_envs_json_has_an_object_per_environment(aiocg: Run) -> None:
    for row in aiocg("envs", "--json").json["environments"]:
        assert set(row) == {"id", "description", "benchmark", "observation_space", "reward_space", "settings"}


def test_datasets_lists_datasets_and_the_benchmarks_of_one(aiocg: Run) -> None:
    assert "programs-v0" in aiocg("datasets").out
    assert "benchmark://programs-v0/" in aiocg("datasets", "programs-v0").out
    rows = {row["name"]: row for row in aiocg("datasets", "--json").json["datasets"]}
    assert {"programs-v0", "cbench-v1", "csmith-v0"} <= set(rows)
    keys = {"name", "size", "installed", "runnable", "license", "description", "deprecated"}
    assert all(set(row) == keys for row in rows.values())
    assert aiocg("dataset", "list", "--json").json == aiocg("datasets", "--json").json
    assert "cBench-v0" in aiocg("datasets", "--deprecated", "--json").out
    listed = aiocg("datasets", "programs-v0", "--limit", "3", "--json").json
    assert listed["dataset"] == "programs-v0"
    assert len(listed["benchmarks"]) == 3


@pytest.mark.slow
def test_describe_has_a_description_for_every_action_and_space(aiocg: Run) -> None:
    described = aiocg("describe", "llvm-v0", "--json").json
    assert set(described) == {
        "id",
        "description",
        "compiler_version",
        "settings",
        "action_space",
        "actions",
        "options",
        "action_spaces",
        "observation_spaces",
        "reward_spaces",
    }
    assert len(described["actions"]) >= 118
    for kind in ("actions", "action_spaces", "observation_spaces", "reward_spaces"):
        for one in described[kind]:
            assert one["name"]
            assert one["description"]


def test_describe_shows_every_action_in_a_table(aiocg: Run) -> None:
    done = aiocg("describe", "llvm-v0")
    for name in ("mem2reg", "gvn", "Autophase", "IrInstructionCountOz"):
        assert re.search(rf"│ {name}\s+│", done.out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ParametrizedPasses", "PipelineText"])
def test_describe_shows_the_actions_of_the_space_asked_for(aiocg: Run, name: str) -> None:
    described = aiocg("describe", "llvm-v0", "--action-space", name, "--json").json
    spaces = {space["name"]: space for space in described["action_spaces"]}
    assert (described["action_space"], len(described["actions"])) == (name, spaces[name]["actions"])
    assert spaces[name]["kind"] in ("discrete", "parametrized", "targeted", "text")
    if name == "ParametrizedPasses":
        assert all(action["parameters"] for action in described["actions"])
        done = aiocg("describe", "llvm-v0", "--action-space", name)
        assert "PassesLegacy124" in done.out and "no-keep-loops" in done.out


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("search", "greedy", CHEAPEST, "--env", "lvm-v0"), "unknown environment 'lvm-v0'; did you mean llvm-v0"),
        (("describe", "llvm-v1"), "unknown environment 'llvm-v1'; did you mean llvm-v0"),
        (("search", "greedy", "programs-v0/qsrt"), "did you mean 'benchmark://programs-v0/qsort'?"),
        (("search", "greedy", "program-v0/qsort"), "no dataset is named 'program-v0'; did you mean"),
        (("search", "qsort"), "no dataset is named 'qsort'; did you mean 'programs-v0/qsort'?"),
        (("search", "greedy", "qsrt"), "did you mean 'programs-v0/qsort'?"),
        (("datasets", "program-v0"), "no dataset is named 'program-v0'; did you mean"),
        (("search", "greedy", CHEAPEST, "--reward", "IrInstructionCuntOz"), "did you mean IrInstructionCountOz"),
        (("search", "beam", "missing.c"), "there is no file 'missing.c'"),
        (("search", "beam", "/usr/bin/env"), "unknown suffix"),
        (("search", "beam", CHEAPEST, "-o", "missing/x.bc"), "there is no directory"),
        (("search", "beam", CHEAPEST, "-o", "."), "it is a directory"),
        (("search", "beam", CHEAPEST, "--state", "missing/x.json"), "there is no directory"),
        (("replay", "missing.json"), "cannot read missing.json: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistake_is_one_line_that_helps_and_status_1(aiocg: Run, words: tuple[str, ...], says: str) -> None:
    done = aiocg(*words)
    assert done.status == 1
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("search unknown x", "there are functionwise, decide"),
        ("search greedy", "Missing argument 'PROGRAM'"),
        ("search random x --budget -1", "no time such as 30s"),
        ("search gredy programs-v0/qsort", "Did you mean 'greedy'?"),
        ("search gredy", "Did you mean 'greedy'?"),
        ("search hill_climb programs-v0/qsort", "Did you mean 'hill-climb'?"),
        ("search functionwize x.c --budget 3", "Did you mean 'functionwise'?"),
        ("search --bugdet 3 programs-v0/qsort", "--budget"),
        ("search greedy programs-v0/qsort --bugdet 3", "--budget"),
        ("search --budget 3 greedy programs-v0/qsort", "aiocg search greedy PROGRAM --budget"),
        ("serch programs-v0/qsort", "Did you mean 'search'"),
        ("rl trian", "Did you mean 'train'?"),
        ("dataset shwo programs-v0", "Did you mean 'show'?"),
        ("transitions mrege a b", "Did you mean 'merge'?"),
        ("leaderboard chekc x", "Did you mean 'check'?"),
        ("keys nwe", "Did you mean 'new'?"),
        ("state validte x", "No such command 'validte'"),
        ("cluster statsu", "Did you mean 'status'?"),
    ],
)
def test_wrong_usage_shows_the_usage_and_status_2(aiocg: Run, words: str, says: str) -> None:
    done = aiocg(*words.split())
    assert done.status == 2
    assert "Usage: aiocg " in done.err
    assert says in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err


def test_source_that_does_not_compile_shows_what_clang_says(aiocg: Run) -> None:
    Path("bad.c").write_text("int main(void) { return 0 }\n", encoding="utf-8")
    done = aiocg("search", "greedy", "bad.c")
    assert done.status == 1
    assert "bad.c:1:26: error: expected ';' after return statement" in done.err
    assert "Traceback" not in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "is not LLVM bitcode"),
        (b"BC\xc0\xde" + b"\1" * 60, "LLVM does not accept"),
    ],
    ids=["empty", "ELF", "garbage"],
)
def test_bitcode_file_that_is_none_says_what_it_is(aiocg: Run, content: bytes, says: str) -> None:
    Path("bad.bc").write_bytes(content)
    done = aiocg("search", "greedy", "bad.bc")
    assert done.status == 1
    assert "bad.bc" in done.err
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "state.json: there are no states"),
        ("{}", "state.json, line 1: this is not a state as JSON"),
        ("[1, 2]", "state.json, line 1: expected the columns"),
        ('{"environment": 3}', "state.json, line 1: this is not a state as JSON"),
        ("\x00", "state.json, line 1: expected the columns"),
    ],
)
def test_replay_of_what_is_no_state_says_so(aiocg: Run, text: str, says: str) -> None:
    Path("state.json").write_text(text, encoding="utf-8")
    done = aiocg("replay", "state.json")
    assert done.status == 1
    assert says in done.err


def test_replay_with_an_unknown_action_names_the_nearest(aiocg: Run) -> None:
    state = {"environment": "llvm-v0", "benchmark": f"benchmark://{CHEAPEST}", "actions": ["mem2rag"]}
    Path("state.json").write_text(json.dumps(state), encoding="utf-8")
    done = aiocg("replay", "state.json")
    assert done.status == 1
    assert "unknown action 'mem2rag'; did you mean mem2reg" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["AIOCG_LLVM_LIBRARY", "AIOCG_CLANG"])
def test_compiler_that_does_not_exist_is_named_with_its_variable(place: Any, variable: str) -> None:
    place.environment[variable] = "/missing/compiler"
    done = place.run("aiocg", "search", "greedy", CHEAPEST)
    assert done.returncode == 1
    *progress, error = done.stderr.splitlines()
    assert all("starting workers" in line for line in progress)  # on a slow machine
    assert error.startswith("error: ") and "/missing/compiler" in error and variable in error
    assert place.leftovers() == []
