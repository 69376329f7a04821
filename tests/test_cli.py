"""The command line: what each command prints, writes and leaves, and how it fails."""

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from aiocg.cli.app import app
from aiocg.llvm import text_size

from .command_line import Run, runner
from .machine import needs_headers

CHEAPEST = "programs-v0/qsort"  # to be run on all its inputs, which a search does with what it found
PLAIN = str(Path(__file__).resolve().parents[1] / "datasets/programs/qsort.c")  # of which nothing is run
SEARCH_KEYS = {
    "validated",
    "checks",
    "text",
    "baselines",
    "timing",
    "improved",
    "start",
    "algorithm",
    "environment",
    "benchmark",
    "compiler_version",
    "reward_space",
    "reward",
    "action_space",
    "instructions",
    "metrics",
    "actions",
    "commandline",
    "evaluations",
    "walltime",
    "complete",
    "output",
}
C_SOURCE = "static int twice(int x) { int y = x + x; return y; }\nint main(void) { return twice(0) + twice(1) - 2; }\n"
IR_SOURCE = """\
define i32 @f(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  ret i32 %y
}
"""


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


def test_version_is_the_packages(aiocg: Run) -> None:
    from aiocg import __version__

    assert aiocg("--version").out == f"aiocg {__version__}\n"


# ---------------------------------------------------------------------------------------------- what there is


def test_envs_lists_whole_names_even_on_a_narrow_terminal(aiocg: Run) -> None:
    done = aiocg("envs")
    for name in ("llvm-v0", "llvm-ic-v0", "llvm-autophase-ic-v0", "llvm-ir-ic-v0", "IrInstructionCountOz"):
        assert name in done.out


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


# ----------------------------------------------------------------------------------------------------- search


@pytest.mark.slow
@pytest.mark.parametrize("space", ["ParametrizedPasses", "FunctionPasses"])
def test_search_in_another_action_space_is_replayed(aiocg: Run, space: str) -> None:
    chosen = ("--action-space", space, "--evaluations", "30", "--state", "state.json")
    found = aiocg("search", "random", CHEAPEST, *chosen, "--json").json
    assert (found["action_space"], found["reward"] > 0) == (space, True)
    assert (found["commandline"] is None) == any(text.startswith(("@", "{")) for text in found["actions"])
    assert aiocg("replay", "state.json", "--json").json["state"]["actions"] == found["actions"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [("random", "--evaluations", "60"), ("greedy",), ("beam", "--width", "2", "--depth", "2")],
    ids=lambda words: words[0],
)
def test_search_prints_a_table_that_ends_with_what_it_took(aiocg: Run, words: tuple[str, ...]) -> None:
    done = aiocg("search", *words, CHEAPEST)
    assert done.status == 0, done.err
    assert f"{words[0]} search, benchmark://{CHEAPEST}" in done.out
    counts = re.search(r"│\s+instructions │\s+(\d+) │\s+(\d+) │\s+(\d+) │\s+(\d+) │", done.out)
    assert counts is not None
    before, _, _, found = map(int, counts.groups())
    assert found < before
    assert re.fullmatch(r"wall time   [\d.]+ s, \d+ evaluations(, ended by its budget)?", done.out.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        *("functionwise", "greedy", "random", "beam", "evolve", "anneal", "mcts", "portfolio", "coreset"),
        *("cma", "lamcts", "nevergrad", "opentuner", "optuna"),
    ],
)
def test_search_json_has_stable_keys(aiocg: Run, algorithm: str) -> None:
    found = aiocg("search", algorithm, CHEAPEST, "--budget", "0.3", "--json").json
    assert set(found) == SEARCH_KEYS and found["reward"] >= max(found["baselines"].values())
    assert found["algorithm"] == algorithm
    assert found["benchmark"] == f"benchmark://{CHEAPEST}"
    for costs in (found["instructions"], found["text"]):
        assert set(costs) == {"before", "O3", "Oz", "OzMinsize", "found"}


def test_a_prior_that_is_another_file_is_refused_by_name(aiocg: Run) -> None:
    Path("prior.npz").write_text("no model")
    for search in ("mcts", "beam"):
        done = aiocg("search", search, CHEAPEST, "--prior", "prior.npz")
        assert done.status == 1 and "prior.npz is not the file of a prior: it is damaged" in done.err
        assert aiocg("search", search, CHEAPEST, "--prior", "missing.npz").status == 2


@pytest.mark.slow
def test_a_front_is_a_table_with_the_levels_and_can_be_drawn(aiocg: Run) -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")
    names = ("IrInstructionCount", "ObjectTextSizeBytes")
    words = ("search", "pareto", CHEAPEST, "--costs", ", ".join(names), "--evaluations", 12)
    done = aiocg(*words, "--plot", "front.svg")
    assert done.status == 0, done.err
    assert all(heading in done.out for heading in (*names, "made by", "validated", "OzMinsize"))
    assert "WRONG" not in done.out and done.out.splitlines()[-1].endswith("12 evaluations, ended by its budget")
    drawn = Path("front.svg").read_text(encoding="utf-8")
    assert "</svg>" in drawn and os.listdir() == ["front.svg"]
    refused = aiocg("search", "pareto", PLAIN, *words[3:], "--plot", "front.docx")
    assert refused.status == 1 and "cannot draw front.docx: the formats are" in refused.err


@pytest.mark.slow
def test_a_front_as_json_has_what_the_table_has(aiocg: Run) -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")
    names = ("IrInstructionCount", "ObjectTextSizeBytes")
    words = ("search", "pareto", CHEAPEST, "--costs", ",".join(names), "--start", "Oz", "--evaluations", 60)
    done, found = aiocg(*words), aiocg(*words, "--json").json
    assert found["costs"] == list(names) and set(found["baselines"]) == {"O0", "O2", "O3", "Os", "Oz", "OzMinsize"}
    for point in found["points"]:
        assert set(point) == {"costs", "baseline", "validated", "actions"} and point["validated"] is True
        if not point["baseline"]:
            assert ",".join(point["actions"]) in done.out


@pytest.mark.slow
def test_random_search_ends_by_whichever_budget_is_used_up_first(aiocg: Run) -> None:
    words = ("search", "random", PLAIN, "--json", "--evaluations")
    assert aiocg(*words, 10_000_000, "--budget", "0.2").json["evaluations"] < 10_000_000
    assert aiocg(*words, 5, "--budget", "3600").json["evaluations"] == 5


@pytest.mark.slow
@needs_headers
def test_passes_are_printed_on_one_line_that_can_be_copied(aiocg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    words = ("search", "evolve", PLAIN, "--evaluations", 120, "--seed", 3)
    actions = aiocg(*words, "--json").json["actions"]
    assert len(",".join(actions)) > 50
    assert ",".join(actions) in aiocg(*words).out.splitlines()


@pytest.mark.slow
def test_seed_decides_a_random_search_whatever_the_number_of_workers(aiocg: Run) -> None:
    words = ("search", "evolve", PLAIN, "--evaluations", 100, "--json", "--workers")
    one, two = aiocg(*words, 1, "--seed", 3).json, aiocg(*words, 2, "--seed", 3).json
    other = aiocg(*words, 2, "--seed", 4).json
    assert one["actions"] == two["actions"]
    assert one["actions"] != other["actions"]


@pytest.mark.slow
def test_other_reward_space_is_what_is_maximised(aiocg: Run) -> None:
    words = ("search", "random", CHEAPEST, "--evaluations", "30", "--json")
    found = aiocg(*words, "--reward", "IrInstructionCount").json
    counts = found["instructions"]
    assert found["reward_space"] == "IrInstructionCount"
    assert found["reward"] == counts["before"] - counts["found"]


@needs_headers
def test_budget_ends_a_search_and_says_so(aiocg: Run) -> None:
    done = aiocg("search", "greedy", PLAIN, "--budget", "0")
    assert done.status == 0
    assert done.out.splitlines()[-1].endswith("0 evaluations, ended by its budget")
    assert re.search(r"nothing better than -O\w was found, so that is the answer", done.out)


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "source"), [("one.c", C_SOURCE), ("two.cc", C_SOURCE), ("three.ll", IR_SOURCE)])
def test_own_file_is_optimised_and_the_bitcode_written_loads_again(aiocg: Run, name: str, source: str) -> None:
    Path(name).write_text(source, encoding="utf-8")
    first = aiocg("search", "beam", name, "--width", 2, "--depth", 2, "-o", "best.bc", "--json").json
    assert first["output"] == "best.bc"
    assert first["instructions"]["found"] < first["instructions"]["before"]
    again = aiocg("search", "random", "best.bc", "--evaluations", 5, "--json").json
    assert again["instructions"]["before"] == first["instructions"]["found"]


@pytest.mark.slow
def test_saved_state_replays_to_the_same_bitcode_or_to_what_the_suffix_says(aiocg: Run) -> None:
    words = ("search", "random", CHEAPEST, "--evaluations", "30")
    assert aiocg(*words, "-o", "best.bc", "--state", "best.json").status == 0
    done = aiocg("replay", "best.json", "-o", "again.bc", "--json")
    assert done.status == 0
    assert Path("again.bc").read_bytes() == Path("best.bc").read_bytes()
    saved = json.loads(Path("best.json").read_bytes())
    assert done.json["state"]["actions"] == saved["actions"]
    assert done.json["expected_reward"] == saved["reward"]
    assert aiocg("replay", "best.json", "-o", "best.ll").status == 0
    assert "define " in Path("best.ll").read_text(encoding="utf-8")
    assert aiocg("replay", "best.json", "-o", "best").status == 0
    assert subprocess.run([Path("best").absolute()], capture_output=True, check=True).stdout
    done = aiocg("replay", "best.json", "-o", "best.txt")
    assert done.status == 1
    assert "best.txt should end in .bc" in done.err
    assert aiocg("replay", "best.json", "-o", "best.s").status == 0
    assert "main:" in Path("best.s").read_text(encoding="utf-8")


def test_what_cannot_be_linked_is_told_after_its_state_was_saved(aiocg: Run) -> None:
    Path("one.c").write_text(C_SOURCE.replace("main", "other"), encoding="utf-8")
    words = ("search", "random", "one.c", "--evaluations", "3", "--state", "best.json")
    done = aiocg(*words, "-o", "one")
    assert done.status == 1
    assert "undefined symbol: main" in done.err
    assert not Path("one").exists()
    assert Path("best.json").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
def test_a_picture_that_cannot_be_written_is_told_after_what_was_found(aiocg: Run) -> None:
    words = ("search", "random", PLAIN, "--evaluations", "3", "--state", "best.json", "--plot", "/dev/full")
    done = aiocg(*words)
    assert done.status == 1 and "cannot write /dev/full: No space left on device" in done.err
    assert "3 evaluations" in done.out and Path("best.json").exists()
    done = aiocg(*words, "--json")
    assert done.status == 1 and done.json["evaluations"] == 3
    assert done.json["error"] == "cannot write /dev/full: No space left on device"


def test_replay_of_a_state_with_another_reward_fails(aiocg: Run) -> None:
    state = {
        "environment": "llvm-ic-v0",
        "benchmark": f"benchmark://{CHEAPEST}",
        "actions": ["mem2reg"],
        "reward_space": "IrInstructionCountOz",
        "reward": 0.125,
    }
    Path("state.json").write_text(json.dumps(state), encoding="utf-8")
    done = aiocg("replay", "state.json")
    assert done.status == 1
    assert "not 0.125 as saved" in done.err


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("search", "greedy", CHEAPEST, "--env", "lvm-v0"), "unknown environment 'lvm-v0'; did you mean llvm-v0"),
        (("describe", "llvm-v1"), "unknown environment 'llvm-v1'; did you mean llvm-v0"),
        (("search", "greedy", "programs-v0/qsrt"), "did you mean 'benchmark://programs-v0/qsort'?"),
        (("search", "greedy", "program-v0/qsort"), "no dataset is named 'program-v0'; did you mean"),
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


@pytest.mark.parametrize(
    "words", [("search", "wide", "x"), ("search", "greedy"), ("search", "random", "x", "--budget", "-1")], ids=" ".join
)
def test_wrong_usage_shows_the_usage_and_status_2(aiocg: Run, words: tuple[str, ...]) -> None:
    done = aiocg(*words)
    assert done.status == 2
    assert "Usage: aiocg search" in done.err
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
    assert done.stderr.startswith("error: ")
    assert "/missing/compiler" in done.stderr
    assert variable in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert place.leftovers() == []


# ---------------------------------------------------------------------------- processes, terminals and pipes


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["aiocg-*/llvm-*", "aiocg-*"], ids=["while searching", "while starting"])
def test_ctrl_c_ends_with_130_and_leaves_nothing(place: Any, moment: str) -> None:
    command = ["aiocg", "search", "random", "programs-v0/sha256", "--budget", "600", "--workers", "2"]
    process = place.start(*command)
    try:
        while not list(place.temporary.glob(moment)):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert re.match(r"interrupted (before anything was evaluated|after [\d.]+ s)", output), output
    assert place.leftovers() == []
    assert place.processes() == []


def test_kill_of_the_command_leaves_nothing_either(place: Any) -> None:
    command = ["aiocg", "search", "random", "programs-v0/sha256", "--budget", "600", "--workers", "2"]
    process = place.start(*command, stdout=subprocess.DEVNULL)
    try:
        while not list(place.temporary.glob("aiocg-*/llvm-*")):
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert place.remains() == []


@pytest.mark.slow
def test_reader_that_leaves_early_is_no_error_of_ours(place: Any) -> None:
    done = place.run("bash", "-c", "aiocg describe llvm-v0 | head -n 1")
    assert done.returncode == 0
    assert done.stdout.startswith("llvm-v0")
    assert done.stderr == ""


@pytest.mark.slow
def test_files_are_written_even_when_nobody_reads_the_table(place: Any) -> None:
    done = place.run("bash", "-c", f"aiocg search random {CHEAPEST} --evaluations 5 -o best.bc | true")
    assert (place.folder / "best.bc").read_bytes().startswith(b"BC")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@needs_headers
def test_terminal_sees_progress_and_then_the_table(place: Any) -> None:
    ours, theirs = pty.openpty()
    command = ["aiocg", "search", "random", PLAIN, "--evaluations", "60"]
    environment = {**place.environment, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=place.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as it:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunks.append(os.read(ours, 65536))
            except OSError:  # Linux's way to say that the other side is closed
                break
            if not chunks[-1]:
                break
        assert it.wait() == 0
    os.close(ours)
    output = b"".join(chunks).decode(errors="replace")
    assert re.search(r"random  .*reward \d\.\d+.*  [\d.]+ s  \d+ of 60 evaluated", output)
    assert output.index("random search, ") < output.index("wall time")


def test_program_that_no_pass_may_touch_gets_a_hint(aiocg: Run, tmp_path: Path) -> None:
    (tmp_path / "sealed.ll").write_text(
        "define i32 @f(i32 %x) noinline optnone {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n", encoding="utf-8"
    )
    done = aiocg("search", "greedy", "sealed.ll")
    assert done.status == 0, done.err
    assert "optnone" in done.out


@pytest.mark.slow
def test_a_program_alone_is_searched_function_by_function_and_written_as_an_object(aiocg: Run, tmp_path: Path) -> None:
    found = aiocg("search", CHEAPEST, "--evaluations", "60", "-o", tmp_path / "best.o", "--json").json
    assert (found["algorithm"], found["reward_space"]) == ("functionwise", "ObjectTextSizeOzMinsize")
    assert found["text"]["found"] <= min(found["text"]["Oz"], found["text"]["OzMinsize"])
    assert text_size((tmp_path / "best.o").read_bytes()) == found["text"]["found"]


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_a_program_of_ones_own_is_made_faster_where_the_command_says_how_it_is_run(aiocg: Run, tmp_path: Path) -> None:
    (tmp_path / "it.c").write_text(C_SOURCE)
    done = aiocg("search", "it.c", "--reward", "runtime")
    assert done.status == 1 and "it has no runs" in done.err and "--run './program ARGUMENTS'" in done.err
    words = ("--reward", "runtime", "--run", "./it 5 'a b'", "--budget", "0.5", "-o", "fast.o", "--json")
    found = aiocg("search", "it.c", *words).json
    assert set(found) == SEARCH_KEYS and found["algorithm"] == "racing"
    assert found["validated"] is (True if found["actions"] else None)  # nothing, where the program as it was is as fast
    assert found["benchmark"].endswith("it.c?flag=-O3") and set(found["baselines"]) == {"O0", "O2", "O3"}
    assert found["timing"]["faster"] == found["improved"] and found["timing"]["runs"] >= 5
    assert text_size((tmp_path / "fast.o").read_bytes()) > 0
    done = aiocg("search", f"{CHEAPEST}?flag=-O1", "--reward=runtime", "--budget", "0.5")
    assert "-O3 does less here than clang -O3" in done.out and " -O3 " in done.out and "runs in turns" in done.out
    done = aiocg("search", "it.c", "--reward=runtime", "--run", "'", "--budget", "0.5")
    assert done.status == 1 and "is no command line" in done.err


@pytest.mark.slow
def test_ctrl_c_ends_a_race_with_the_best_so_far_and_its_time(place: Any) -> None:
    ours, theirs = pty.openpty()
    command = ["aiocg", "search", f"{CHEAPEST}", "--reward", "runtime", "--budget", "600"]
    environment = {**place.environment, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=place.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as it:
        os.close(theirs)
        output = ""
        while " ms, -O3 " not in output:
            output += os.read(ours, 65536).decode(errors="replace")
        it.send_signal(signal.SIGINT)
        output = ""
        while "so far" not in output or "default<" not in output:
            output += os.read(ours, 65536).decode(errors="replace")
        assert it.wait() == 130
    os.close(ours)
    assert re.search(r"best so far: [\d.]+ ms, -O3 [\d.]+ ms\s+with", output)
    assert place.leftovers() == [] and place.processes() == []


def test_another_environment_needs_the_name_of_a_search(aiocg: Run) -> None:
    done = aiocg("search", CHEAPEST, "--env", "gcc-v0")
    assert done.status == 1
    assert "name a search, as in `aiocg search screening" in done.err
