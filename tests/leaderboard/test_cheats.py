"""Submissions that cheat: programs taken apart, passes that are no actions, and results that nobody has seen run."""

import csv
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import aiocg
from aiocg.cli._leaderboard import _accepted
from aiocg.datasets import FilesDataset, default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.leaderboard import Kind, Refused, Report, add_entry
from aiocg.leaderboard._checks import Checked, losses, offered_passes, read_checked, unoffered
from aiocg.leaderboard._track import facts_of

from .forge import TRACK, Forge, with_facts
from .test_replayed import checked

pytestmark = pytest.mark.slow

LIBRARY = "benchmark://parts-v0/library.ll"
LOOP = "benchmark://parts-v0/loop.ll"

PART = """
@limit = global i32 10
@table = constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
@local = internal global i32 5
@llvm.used = appending global [1 x ptr] [ptr @kept], section "llvm.metadata"
@other = alias i32 (i32), ptr @scale
@chosen = ifunc i32 (i32), ptr @resolver

declare void @print(i32)

define internal void @kept() {
  ret void
}
define internal ptr @resolver() {
  ret ptr @scale
}
define i32 @scale(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %v = load i32, ptr %slot
  %l = load i32, ptr @limit
  %y = mul i32 %v, %l
  call void @print(i32 %y)
  ret i32 %y
}
define weak i32 @hook(i32 %x, ptr byval([2 x i32]) %pair) {
  %y = call i32 @scale(i32 %x)
  ret i32 %y
}
define linkonce_odr i32 @spare() {
  ret i32 1
}
define void @set(i32 %x) {
  store i32 %x, ptr @limit
  ret void
}
"""

# Its loop has too many rounds for -Oz to fold it, which another pass can mend: one instruction is left of 13.
FOLDED = """
define i32 @folded() {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %x = phi i32 [ 1, %entry ], [ %z, %loop ]
  %a = shl i32 %x, 13
  %b = xor i32 %x, %a
  %c = lshr i32 %b, 17
  %d = xor i32 %b, %c
  %e = shl i32 %d, 5
  %z = xor i32 %d, %e
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, 128
  br i1 %more, label %loop, label %end
end:
  ret i32 %z
}
"""
OZ = ("default<Oz>",)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[aiocg.Runtime]:
    """A runtime with programs that have no `main`, and so cannot be run."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "library.ll").write_text(PART)
    (folder / "loop.ll").write_text(FOLDED)
    datasets = default_datasets()
    datasets["parts-v0"] = FilesDataset("parts-v0", folder)
    async with aiocg.Runtime(workers=2, datasets=datasets) as runtime:
        yield runtime


@pytest.fixture
async def forged(tmp_path: Path, parts: aiocg.Runtime) -> Forge:
    """A submission for two programs that cannot be run."""
    text = TRACK.replace('["mark<minsize>", "clang<Oz>"]', '["default<Oz>"]').replace("OzMinsize", "Oz")
    text = text.replace("seeds = 2", "seeds = 1")
    text = re.sub(r"hidden = .*\n", "", text).replace("benchmark://programs-v0/gcd", LIBRARY)
    text = text.replace("benchmark://programs-v0/nqueens", LOOP)
    facts, problems = await facts_of(parts, Forge(tmp_path / "made", text).track, (LIBRARY, LOOP))
    assert problems == []
    forge = Forge(tmp_path, with_facts(text, facts, (LIBRARY, LOOP)))
    forge.about = msgspec.structs.replace(forge.about, seeds=1)
    return forge


async def submitted(forge: Forge, parts: aiocg.Runtime, **actions: tuple[str, ...]) -> Report:
    """Check a submission with the rewards that its actions really earn."""
    forge.rows = []
    for uri, name in ((LIBRARY, "library"), (LOOP, "loop")):
        texts = actions.get(name, OZ)
        async with await parts.make("llvm-v0", benchmark=uri, reward_space="IrInstructionCountOz") as env:
            await env.reset()
            if texts:
                await env.step_texts(texts)
            forge.rows.append(forge.row(uri, reward=env.episode_reward or 0.0, actions=texts))
    forge.write()
    return await checked(forge, parts)


def kinds(report: Report) -> set[tuple[Kind, str]]:
    """Return the classes of what is wrong, with the programs."""
    return {(one.kind, one.benchmark) for one in report.problems}


async def test_honest_results_of_programs_that_cannot_be_run_pass(forged: Forge, parts: aiocg.Runtime) -> None:
    for actions in (OZ, ("mark<minsize>", "default<Oz>"), ("global-merge<merge-external>", "mergefunc", "globaldce")):
        report = await submitted(forged, parts, library=actions)
        assert report.problems == []
        assert (report.rows, report.replayed, report.executed) == (2, 2, 0)


@pytest.mark.parametrize(
    "action",
    [
        "internalize",
        "internalize<preserve-gv=scale>",
        "module(internalize)",
        "module(globaldce,module(internalize))",
        "{merge-functions=1}internalize",
        "cgscc(function(sroa),attributor-cgscc)",
        "function(structurizecfg,sroa)",
        "@scale(sroa,expand-memcmp)",
        "@scale(sroa)@set(typepromotion)",
        "lto<Oz>",
        "metarenamer",
    ],
)
async def test_pass_that_is_no_action_is_not_replayed(forged: Forge, parts: aiocg.Runtime, action: str) -> None:
    """The first of them deletes a library, and the reward of what is left is as it says."""
    report = await submitted(forged, parts, library=(action, "globaldce"))
    assert kinds(report) == {(Kind.REPLAY, LIBRARY)}
    assert "the action spaces of llvm-v0 have no" in report.problems[0].detail
    assert [one.benchmark for one in report.checked] == [LOOP]


async def test_names_in_parameters_and_targets_are_no_passes(parts: aiocg.Runtime) -> None:
    async with await parts.make("llvm-v0") as env:
        offered = offered_passes(env)
        honest = ['@"internalize,x"(adce)', "@a(inline<@internalize>,sroa)", "mark<minsize>", "@f:2(unroll<full>)"]
        honest += ["codegen<size>", "codegen<size;disable-lsr=false>"]
        assert list(unoffered(env, offered, [*honest, "-globaldce", "default<O3>", "devirt<3>(inline)"])) == []
        assert list(unoffered(env, offered, ["adce<(internalize)>"])) == [">", "internalize"]


async def test_unlikely_result_needs_a_person(forged: Forge, parts: aiocg.Runtime, tmp_path: Path) -> None:
    folded = ("@folded:0(unroll<4>)", *OZ)
    report = await submitted(forged, parts, loop=folded)
    assert kinds(report) == {(Kind.UNPROVEN, LOOP)}
    assert "13.0 times as good as the baseline, and not proven (not run, because" in report.problems[0].detail
    assert report.exit_status == 19
    with pytest.raises(Refused):
        add_entry(forged.board, forged.folder, report)
    report = await checked(forged, parts, accepted={LOOP: "Ann: 128 rounds of a constant"})
    assert report.problems == []
    added = add_entry(forged.board, forged.folder, report)
    assert {one.benchmark: one.accepted for one in read_checked(added / "checked.csv")} == {
        LIBRARY: "",
        LOOP: "Ann: 128 rounds of a constant",
    }
    from aiocg.leaderboard.site import pages

    text, _ = pages(forged.board)
    assert "Ann: 128 rounds of a constant" in text and "13.0 times" in text
    forged.folder = added  # an entry that says itself that a person has accepted it
    assert kinds(await checked(forged, parts)) >= {(Kind.UNPROVEN, LOOP)}


async def test_acceptance_is_kept_only_where_it_is_needed(forged: Forge, parts: aiocg.Runtime) -> None:
    await submitted(forged, parts)
    report = await checked(forged, parts, accepted={LIBRARY: "Ann: why not"})
    assert {one.accepted for one in report.checked} == {""}


@pytest.mark.parametrize("text", ["", LIBRARY, f"{LIBRARY} Ann", f"{LIBRARY} : why", f"{LIBRARY} Ann: \x1b[2J"])
def test_acceptance_says_who_and_why(text: str) -> None:
    with pytest.raises(SystemExit):
        _accepted(text)


def test_interval_that_no_measurement_has_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "checked.csv"
    fields = ",".join(Checked.__struct_fields__)
    for low, high in (("nan", "1"), ("1", "inf"), ("-1", "1")):
        path.write_text(f"{fields}\nb,0,1.5,{low},{high},1,1,True,\n")
        with pytest.raises(Refused, match="malformed"):
            read_checked(path)


# ------------------------------------------------------------------------------------------------ what is left


CHEATS = {
    "the body is unreachable": (r"(define i32 @scale\(i32 %x\) {\n).*?\n}", r"\1  unreachable\n}", "neither returns"),
    "the body traps": (
        r"(define i32 @scale\(i32 %x\) {\n).*?\n}",
        r"\1  call void @llvm.trap()\n  unreachable\n}\ndeclare void @llvm.trap()",
        "neither returns",
    ),
    "the body loops": (
        r"(define i32 @scale\(i32 %x\) {\n).*?\n}",
        r"\1  br label %on\non:\n  store i32 1, ptr @limit\n  br label %on\n}",
        "neither returns",
    ),
    "the body ends the process": (
        r"(define i32 @scale\(i32 %x\) {\n).*?\n}",
        r"\1  call void @print(i32 1)\n  unreachable\n}",
        "no longer returns",
    ),
    "a function is gone": (r"define void @set.*?\n}", "", "set is no longer defined"),
    "a function is only declared": (r"define void @set.*?\n}", "declare void @set(i32)", "set is no longer defined"),
    "a function is for inlining only": (
        r"define void @set", "define available_externally void @set", "set is no longer defined"
    ),
    "a function is local": (r"define void @set", "define internal void @set", "set is no longer defined"),
    "a function is hidden": (r"define void @set", "define hidden void @set", "another visibility: hidden"),
    "a function may be replaced": (r"define void @set", "define weak void @set", "another linkage: weak"),
    "a function is kept for this module only": (
        r"define weak i32 @hook", "define linkonce i32 @hook", "hook is no longer defined"
    ),
    "an argument is gone": (r"@set\(i32 %x\) {\n  store i32 %x", "@set() {\n  store i32 1", r"type: void \(\)"),
    "a result is gone": (r"define void @set(.*?)ret void", r"define i32 @set\1ret i32 0", "another type: i32"),
    "an argument is passed otherwise": (r"ptr byval\(\[2 x i32\]\) %pair", "ptr %pair", "another convention"),
    "calls go otherwise": (r"define void @set", "define fastcc void @set", "another convention"),
    "a variable is gone": (r"@table = .*?\n", "", "table is no longer defined"),
    "a variable is local": (r"@limit = global", "@limit = internal global", "limit is no longer defined"),
    "a variable is a constant": (
        r"@limit = global(.*)store i32 %x, ptr @limit", r"@limit = constant\1", "limit was a variable"
    ),
    "a variable is shorter": (r"@table = .*?\n", "@table = constant [1 x i32] [i32 1]\n", r"another type: \[1 x i32\]"),
    "a variable is one of each thread": (r"@limit = global", "@limit = thread_local global", "another thread_local"),
    "an alias is gone": (r"@other = .*?\n", "", "other is no longer defined"),
    "an ifunc is gone": (r"@chosen = .*?\n", "", "chosen is no longer defined"),
    "what `used` keeps is gone": (r"@llvm.used = .*?\n|define internal void @kept.*?\n}", "", "kept is no longer"),
}  # fmt: skip


async def exported(parts: aiocg.Runtime, text: str) -> dict[str, Any]:
    """Return what a program exports."""
    program = Benchmark.from_file_contents("benchmark://parts-v0/own", text.encode())
    async with await parts.make("llvm-v0", benchmark=program) as env:
        await env.reset()
        found: dict[str, Any] = await env.observe("Exports")
        return found


@pytest.mark.parametrize(("pattern", "replacement", "told"), CHEATS.values(), ids=CHEATS)
async def test_what_others_can_see_is_still_there(
    parts: aiocg.Runtime, pattern: str, replacement: str, told: str
) -> None:
    cheat = re.sub(pattern, replacement, PART, flags=re.DOTALL)
    assert cheat != PART
    original, result = await exported(parts, PART), await exported(parts, cheat)
    found = list(losses(original, original, result))
    assert len(found) == 1 and re.search(told, found[0])
    assert list(losses(original, result, result)) == []  # the baseline has lost it as well


async def test_what_only_this_module_can_see_may_go(parts: aiocg.Runtime) -> None:
    original = await exported(parts, PART)
    assert set(original) == {"limit", "table", "other", "chosen", "kept", "scale", "hook", "set"}
    honest = re.sub(r"@local = .*?\n|define linkonce_odr.*?\n}", "", PART, flags=re.DOTALL)
    assert await exported(parts, honest) == original


async def test_strangers_state_and_edited_rows(forged: Forge, parts: aiocg.Runtime) -> None:
    await submitted(forged, parts)
    path = forged.folder / "results.csv"
    rows = list(csv.DictReader(path.open()))
    forged.rows[0] = forged.row(LIBRARY, reward=float(rows[1]["reward"]), actions=("@folded:0(unroll<4>)", *OZ))
    forged.write()  # another program's state
    assert kinds(await checked(forged, parts)) == {(Kind.REPLAY, LIBRARY)}
    forged.rows[0] = forged.row(LIBRARY, reward=float(rows[0]["reward"]) + 0.05, actions=OZ)
    forged.write()
    assert kinds(await checked(forged, parts)) == {(Kind.REWARD, LIBRARY)}
