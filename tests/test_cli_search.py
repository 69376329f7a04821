"""`aiocg search` and `aiocg replay`: what they print and write, and what is found again."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from aiocg.llvm import image_size

from .command_line import CHEAPEST, PLAIN, Run
from .machine import needs_headers

SEARCH_KEYS = {
    "validated",
    "reason",
    "unproven",
    "reproducer",
    "failed_levels",
    "gcc",
    "same_meaning",
    "changes",
    "checks",
    "bytes",
    "zeroed",
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
    "advice",
    "codegen_options",
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


@pytest.fixture(autouse=True)
def narrow(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.slow
@pytest.mark.parametrize("space", ["ParametrizedPasses", "FunctionPasses"])
def test_search_in_another_action_space_is_replayed(command: Run, space: str) -> None:
    chosen = ("--action-space", space, "--evaluations", "30", "--state", "state.json")
    found = command("search", "random", CHEAPEST, *chosen, "--json").json
    assert (found["action_space"], found["reward"] > 0) == (space, True)
    assert (found["commandline"] is None) == any(text.startswith(("@", "{")) for text in found["actions"])
    assert command("replay", "state.json", "--json").json["state"]["actions"] == found["actions"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [("random", "--evaluations", "60"), ("greedy",), ("beam", "--width", "2", "--depth", "2")],
    ids=lambda words: words[0],
)
def test_search_prints_a_table_that_ends_with_what_it_took(command: Run, words: tuple[str, ...]) -> None:
    done = command("search", *words, CHEAPEST)
    assert done.status == 0, done.err
    assert f"{words[0]} search, benchmark://{CHEAPEST}" in done.out
    counts = re.search(r"│\s+instructions │\s+(\d+) │.* (\d+) │$", done.out, re.MULTILINE)
    assert counts is not None
    before, found = map(int, counts.groups())
    assert found < before
    assert re.fullmatch(r"wall time   [\d.]+ s, \d+ evaluations(, ended by its budget)?", done.out.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "algorithm",
    [
        *("functionwise", "decide", "greedy", "random", "beam", "evolve", "mcts", "portfolio", "coreset"),
        *("nevergrad", "opentuner"),
    ],
)
def test_search_json_has_stable_keys(command: Run, algorithm: str) -> None:
    found = command("search", algorithm, CHEAPEST, "--budget", "0.3", "--json").json
    assert set(found) == SEARCH_KEYS and found["reward"] >= max(found["baselines"].values())
    assert found["algorithm"] == algorithm
    assert found["benchmark"] == f"benchmark://{CHEAPEST}"
    for costs in (found["instructions"], found["bytes"], found["zeroed"]):
        assert set(costs) == {"before", "O3", "OsOptsize", "Oz", "OzMinsize", "found"}


@pytest.mark.slow
def test_a_prior_that_is_another_file_is_refused_by_name(command: Run) -> None:
    Path("prior.npz").write_text("no model")
    for search in ("mcts", "beam"):
        done = command("search", search, CHEAPEST, "--prior", "prior.npz")
        assert done.status == 1 and "prior.npz is not the file of a prior: it is damaged" in done.err
        assert command("search", search, CHEAPEST, "--prior", "missing.npz").status == 2


@pytest.mark.slow
def test_a_front_is_a_table_with_the_levels_and_can_be_drawn(command: Run) -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")
    names = ("IrInstructionCount", "ObjectImageSizeBytes")
    words = ("search", "pareto", CHEAPEST, "--costs", ", ".join(names), "--evaluations", 12)
    done = command(*words, "--plot", "front.svg")
    assert done.status == 0, done.err
    assert all(heading in done.out for heading in (*names, "made by", "validated", "OzMinsize"))
    assert "WRONG" not in done.out and done.out.splitlines()[-1].endswith("12 evaluations, ended by its budget")
    drawn = Path("front.svg").read_text(encoding="utf-8")
    assert "</svg>" in drawn and os.listdir() == ["front.svg"]
    refused = command("search", "pareto", PLAIN, *words[3:], "--plot", "front.docx")
    assert refused.status == 1 and "cannot draw front.docx: the formats are" in refused.err


@pytest.mark.slow
def test_a_front_as_json_has_what_the_table_has(command: Run) -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")
    names = ("IrInstructionCount", "ObjectImageSizeBytes")
    words = ("search", "pareto", CHEAPEST, "--costs", ",".join(names), "--start", "Oz", "--evaluations", 60)
    done, found = command(*words), command(*words, "--json").json
    assert found["costs"] == list(names) and set(found["baselines"]) == {"O0", "O2", "O3", "Os", "Oz", "OzMinsize"}
    for point in found["points"]:
        assert set(point) == {"costs", "baseline", "validated", "actions"} and point["validated"] == "same"
        if not point["baseline"]:
            assert ",".join(point["actions"]) in done.out


@pytest.mark.slow
def test_random_search_ends_by_whichever_budget_is_used_up_first(command: Run) -> None:
    words = ("search", "random", PLAIN, "--json", "--evaluations")
    assert command(*words, 10_000_000, "--budget", "0.2").json["evaluations"] < 10_000_000
    assert command(*words, 5, "--budget", "3600").json["evaluations"] == 5


@pytest.mark.slow
@needs_headers
def test_passes_are_printed_on_one_line_that_can_be_copied(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    words = ("search", "evolve", PLAIN, "--evaluations", 120, "--seed", 7)
    actions = command(*words, "--json").json["actions"]
    assert len(",".join(actions)) > 50
    assert ",".join(actions) in command(*words).out.splitlines()


@pytest.mark.slow
def test_seed_decides_a_random_search_whatever_the_number_of_workers(command: Run) -> None:
    words = ("search", "evolve", PLAIN, "--start", "Oz", "--evaluations", 100, "--json", "--workers")
    one, two = command(*words, 1, "--seed", 3).json, command(*words, 2, "--seed", 3).json
    other = command(*words, 2, "--seed", 4).json
    assert one["actions"] == two["actions"]
    assert one["actions"] != other["actions"]


@pytest.mark.slow
def test_other_reward_space_is_what_is_maximised(command: Run) -> None:
    words = ("search", "random", CHEAPEST, "--evaluations", "30", "--json")
    found = command(*words, "--reward", "IrInstructionCount").json
    counts = found["instructions"]
    assert found["reward_space"] == "IrInstructionCount"
    assert found["reward"] == counts["before"] - counts["found"]


@needs_headers
def test_budget_ends_a_search_and_says_so(command: Run) -> None:
    done = command("search", "greedy", PLAIN, "--budget", "0")
    assert done.status == 0
    assert done.out.splitlines()[-1].endswith("0 evaluations, ended by its budget")
    assert re.search(r"nothing better than -O\w was found, so that is the answer", done.out)


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "source"), [("one.c", C_SOURCE), ("two.cc", C_SOURCE), ("three.ll", IR_SOURCE)])
def test_own_file_is_optimised_and_the_bitcode_written_loads_again(command: Run, name: str, source: str) -> None:
    Path(name).write_text(source, encoding="utf-8")
    first = command("search", "beam", name, "--width", 2, "--depth", 2, "-o", "best.bc", "--json").json
    assert first["output"] == "best.bc"
    assert first["instructions"]["found"] < first["instructions"]["before"]
    again = command("search", "random", "best.bc", "--evaluations", 5, "--json").json
    assert again["instructions"]["before"] == first["instructions"]["found"]


@pytest.mark.slow
def test_saved_state_replays_to_the_same_bitcode_or_to_what_the_suffix_says(command: Run) -> None:
    words = ("search", "random", CHEAPEST, "--evaluations", "30")
    assert command(*words, "-o", "best.bc", "--state", "best.json").status == 0
    done = command("replay", "best.json", "-o", "again.bc", "--json")
    assert done.status == 0
    assert Path("again.bc").read_bytes() == Path("best.bc").read_bytes()
    saved = json.loads(Path("best.json").read_bytes())
    assert done.json["state"]["actions"] == saved["actions"]
    assert done.json["expected_reward"] == saved["reward"]
    assert command("replay", "best.json", "-o", "best.ll").status == 0
    assert "define " in Path("best.ll").read_text(encoding="utf-8")
    assert command("replay", "best.json", "-o", "best").status == 0
    assert subprocess.run([Path("best").absolute()], capture_output=True, check=True).stdout
    done = command("replay", "best.json", "-o", "best.txt")
    assert done.status == 1
    assert "best.txt should end in .bc" in done.err
    assert command("replay", "best.json", "-o", "best.s").status == 0
    assert "main:" in Path("best.s").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_what_cannot_be_linked_is_told_after_its_state_was_saved(command: Run) -> None:
    Path("one.c").write_text(C_SOURCE.replace("main", "other"), encoding="utf-8")
    words = ("search", "random", "one.c", "--evaluations", "3", "--state", "best.json")
    done = command(*words, "-o", "one")
    assert done.status == 1
    assert "undefined symbol: main" in done.err
    assert not Path("one").exists()
    assert Path("best.json").exists()


@pytest.mark.slow
@pytest.mark.needs("libc")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
def test_a_picture_that_cannot_be_written_is_told_after_what_was_found(command: Run) -> None:
    words = ("search", "random", PLAIN, "--evaluations", "3", "--state", "best.json", "--plot", "/dev/full")
    done = command(*words)
    assert done.status == 1 and "cannot write /dev/full: No space left on device" in done.err
    assert "3 evaluations" in done.out and Path("best.json").exists()
    done = command(*words, "--json")
    assert done.status == 1 and done.json["evaluations"] == 3
    assert done.json["error"] == "cannot write /dev/full: No space left on device"


def test_replay_of_a_state_with_another_reward_fails(command: Run) -> None:
    state = {
        "environment": "llvm-ic-v0",
        "benchmark": f"benchmark://{CHEAPEST}",
        "actions": ["mem2reg"],
        "reward_space": "IrInstructionCountOz",
        "reward": 0.125,
    }
    Path("state.json").write_text(json.dumps(state), encoding="utf-8")
    done = command("replay", "state.json")
    assert done.status == 1
    assert "not 0.125 as saved" in done.err


@pytest.mark.slow
def test_program_that_no_pass_may_touch_gets_a_hint(command: Run, tmp_path: Path) -> None:
    (tmp_path / "sealed.ll").write_text(
        "define i32 @f(i32 %x) noinline optnone {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n", encoding="utf-8"
    )
    done = command("search", "greedy", "sealed.ll")
    assert done.status == 0, done.err
    assert "optnone" in done.out


@pytest.mark.slow
def test_a_program_alone_is_searched_function_by_function_and_written_as_an_object(
    command: Run, tmp_path: Path
) -> None:
    found = command("search", CHEAPEST, "--evaluations", "60", "-o", tmp_path / "best.o", "--json").json
    assert (found["algorithm"], found["reward_space"]) == ("functionwise", "ObjectImageSizeOzMinsize")
    assert found["bytes"]["found"] <= min(found["bytes"]["Oz"], found["bytes"]["OzMinsize"])
    assert image_size((tmp_path / "best.o").read_bytes()) == (found["bytes"]["found"], found["zeroed"]["found"])


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_a_program_of_ones_own_is_made_faster_where_the_command_says_how_it_is_run(
    command: Run, tmp_path: Path
) -> None:
    (tmp_path / "it.c").write_text(C_SOURCE)
    done = command("search", "it.c", "--reward", "runtime")
    assert done.status == 1 and "it has no runs" in done.err and "--run './program ARGUMENTS'" in done.err
    words = ("--reward", "runtime", "--run", "./it 5 'a b'", "--budget", "0.5", "-o", "fast.o", "--json")
    found = command("search", "it.c", *words).json
    assert set(found) == SEARCH_KEYS and found["algorithm"] == "racing"
    assert found["validated"] == "same"
    assert found["benchmark"].endswith("it.c?flag=-O3") and set(found["baselines"]) == {"O0", "O2", "O3"}
    assert found["timing"]["faster"] == found["improved"] and found["timing"]["runs"] >= 5
    assert image_size((tmp_path / "fast.o").read_bytes()).stored > 0
    done = command("search", f"{CHEAPEST}?flag=-O1", "--reward=runtime", "--budget", "0.5")
    assert "-O3 does less here than clang -O3" in done.out and " -O3 " in done.out and "runs in turns" in done.out
    done = command("search", "it.c", "--reward=runtime", "--run", "'", "--budget", "0.5")
    assert done.status == 1 and "cannot be done: No closing quotation" in done.err


def test_another_environment_needs_the_name_of_a_search(command: Run) -> None:
    done = command("search", CHEAPEST, "--env", "gcc-v0")
    assert done.status == 1
    assert "name a search, as in `aiocg search screening" in done.err


@pytest.mark.slow
@needs_headers
def test_what_is_decided_is_told_by_lines_of_the_source(command: Run) -> None:
    source = next((Path(__file__).parents[1] / "datasets" / "programs").rglob("qsort.c"))
    words = ("search", "decide", str(source), "--evaluations", "80", "--no-run")
    found = command(*words, "--json", "--", "-g").json
    assert found["advice"]
    for one in found["advice"]:
        assert re.fullmatch(r"qsort\.c:\d+:\d+", one["where"])
        assert re.fullmatch(r"call of \w+ in \w+", one["what"])
        assert one["source"] in ("[[clang::always_inline]]", "[[clang::noinline]]")
    printed = command(*words, "--", "-g").out
    assert f"advice      {found['advice'][0]['where']}: {found['advice'][0]['what']}" in printed
