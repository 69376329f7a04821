"""The audit finds passes that misbehave, shrinks what it finds, and agrees with the passes that are no actions."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import aiocg
from bench.audit import Finding, Kind, Report, audit

ROOT = Path(__file__).parents[1]


def finding(*actions: str, kind: Kind = Kind.MISCOMPILE, program: str = "a", **more: Any) -> Finding:
    return Finding(kind=kind, program=program, actions=actions, tried=20, evidence="seen | so", **more)


# ---------------------------------------------------------------------------------------------- reports


def test_the_fewest_passes_are_blamed_that_account_for_all_findings() -> None:
    report = Report(uses={"bad": 9})
    for actions in (("bad", "dse"), ("bad", "gvn"), ("sroa", "bad"), ("gvn", "worse")):
        report.add(finding(*actions))
    bad, worse = report.blames()
    assert (bad.action, len(bad.findings), bad.uses) == ("bad", 3, 9)
    assert (worse.action, len(worse.findings)) == ("worse", 1), "of two that are as frequent, the later"


def test_a_suspect_is_blamed_before_others_and_kinds_are_apart() -> None:
    report = Report(suspects=("suspect",))
    report.add(finding("suspect", "dse"))
    report.add(finding("dse", kind=Kind.CRASH))
    assert [(blame.action, blame.kind) for blame in report.blames()] == [
        ("dse", Kind.CRASH),
        ("suspect", Kind.MISCOMPILE),
    ]


def test_a_known_finding_is_counted_not_repeated() -> None:
    report = Report()
    for _ in range(3):
        report.add(finding("gvn"))
    report.add(finding("gvn", program="b"))
    assert [known.seen for known in report.findings] == [3, 1]
    assert finding("sroa", "gvn").covers(Kind.MISCOMPILE, "a", ("x", "sroa", "y", "gvn"))
    assert not finding("sroa", "gvn").covers(Kind.MISCOMPILE, "a", ("gvn", "sroa"))
    assert not finding("sroa").covers(Kind.CRASH, "a", ("sroa",))


def test_a_report_is_a_table_and_json() -> None:
    report = Report(compiler_version="LLVM 1.2.3", trajectories=7, uses={"gvn": 5, "dse": 2}, programs=3)
    assert "| none |" in report.to_markdown()
    report.add(finding("gvn", "dse", seen=2))
    table = report.to_markdown()
    assert "7 random lists with 7 passes in all, on 3 programs" in table
    assert "| `dse` | miscompile | 2 | 1 | 2 | `gvn,dse` | a | seen \\| so |" in table
    value = json.loads(json.dumps(report.to_json()))
    assert value["blames"][0]["action"] == "dse"
    assert value["findings"][0]["actions"] == ["gvn", "dse"]


# --------------------------------------------------------------------------------------------- the audit


async def programs(*names: str) -> list[aiocg.Benchmark]:
    async with aiocg.Runtime(workers=1) as runtime:
        return [runtime.benchmark(f"programs-v0/{name}") for name in names]


@pytest.mark.slow
async def test_passes_that_work_are_not_blamed() -> None:
    seen: list[int] = []
    report = await audit(
        trajectories=2,
        programs=await programs("gcd", "nqueens"),
        seed=4,
        progress=lambda report: seen.append(report.trajectories),
    )
    assert (report.trajectories, report.programs, seen) == (2, 2, [1, 2])
    assert 12 <= sum(report.uses.values()) <= 42
    assert report.findings == []


@pytest.mark.slow
async def test_a_pass_that_miscompiles_is_found_and_blamed() -> None:
    report = await audit(trajectories=4, programs=await programs("nbody"), suspects=["structurizecfg"], seed=1)
    if not report.compiler_version.startswith(("LLVM 22.", "LLVM 23.")):
        pytest.skip(f"structurizecfg miscompiles nbody with LLVM 22 and 23; this is {report.compiler_version}")
    blame = report.blames()[0]
    assert (blame.action, blame.kind, blame.uses) == ("structurizecfg", Kind.MISCOMPILE, 4)
    first = blame.findings[0]
    assert first.minimal
    assert len(first.actions) <= 3 < first.tried


@pytest.mark.slow
async def test_a_pass_that_kills_the_compiler_is_found_and_blamed_whenever_the_seed_is_the_same() -> None:
    chosen = await programs("dct")
    reports = [await audit(trajectories=4, programs=chosen, suspects=["unify-loop-exits"], seed=2) for _ in range(2)]
    if not reports[0].compiler_version.startswith(("LLVM 22.", "LLVM 23.")):
        pytest.skip(f"unify-loop-exits crashes on dct with LLVM 22 and 23; this is {reports[0].compiler_version}")
    assert reports[0].uses == reports[1].uses
    for report in reports:
        assert ("unify-loop-exits", Kind.CRASH) in [(blame.action, blame.kind) for blame in report.blames()]


async def test_what_cannot_be_audited_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="limit"):
        await audit()
    bare = aiocg.Benchmark.from_file_contents("benchmark://mine-v0/x", b"")
    with pytest.raises(ValueError, match="does not say how it is run"):
        await audit(trajectories=1, programs=[bare])
    with pytest.raises(aiocg.AiocgError, match="no-such-pass"):
        await audit(trajectories=1, programs=await programs("gcd"), suspects=["no-such-pass"])


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_it(tmp_path: Path) -> None:
    target = tmp_path / "audit.md"
    command = [sys.executable, "-m", "bench.audit", "--trajectories", "1", "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "1 random lists" in done.stdout and target.read_text() in done.stdout


# ----------------------------------------------------------------------------- the document and the exclusions


def blamed(section: str) -> set[tuple[str, str]]:
    """Read passes and misbehaviours from the tables of a section of docs/audit.md."""
    text = (ROOT / "docs" / "audit.md").read_text().split(f"## {section}")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \| ([a-zA-Z ]+) \|", text, re.MULTILINE))


def test_every_pass_that_the_audit_blames_is_no_action_or_kept_for_a_reason() -> None:
    from aiocg.workers.llvm._passes import EXCLUSIONS, KEPT

    excluded = [pattern for patterns in EXCLUSIONS.values() for pattern in patterns]
    kept = {name for names in KEPT.values() for name in names}
    for name, kind in blamed("Actions"):
        assert name in kept or any(fnmatchcase(name, pattern) for pattern in excluded), (name, kind)


def test_every_pass_that_is_no_action_because_it_misbehaves_is_blamed_by_the_audit() -> None:
    from aiocg.workers.llvm._passes import EXCLUSIONS

    measured = {
        name
        for reason, names in EXCLUSIONS.items()
        if reason.startswith(("miscompiles", "crashes", "differs between"))
        for name in names
    }
    documented = (ROOT / "docs" / "audit.md").read_text()
    for name in measured:
        assert f"`{name}`" in documented, name
