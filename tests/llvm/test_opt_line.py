"""Command lines for opt: read back as they were written, and run by an opt where there is one."""

import contextlib
import shlex
import subprocess
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.datasets import default_datasets
from aiocg.errors import InvalidAction, NotExpressible
from aiocg.llvm._opt_line import OptLine
from aiocg.spaces.actions import ActionSpaces
from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec

SPECS = (
    ActionSpaceSpec(
        "Passes",
        (
            ActionSpec("gvn", aliases=("-gvn",), pipeline="function(gvn)"),
            ActionSpec("instcombine", aliases=("-instcombine",), pipeline="function(instcombine<no-verify-fixpoint>)"),
            ActionSpec("licm", aliases=("-licm",), pipeline="function(loop-mssa(licm))"),
            ActionSpec("loop-rotate", pipeline="function(loop(loop-rotate))"),
            ActionSpec("inline", aliases=("-inline",), pipeline="cgscc(inline)"),
            ActionSpec("globaldce", pipeline="globaldce"),
            ActionSpec("hot-cold-split", pipeline="require<profile-summary>,hotcoldsplit"),
        ),
    ),
    ActionSpaceSpec(
        "Old",
        (
            ActionSpec("-gvn", text="gvn"),
            ActionSpec("-gone", text=""),
            ActionSpec("-loops", text="loop-rotate,loop-deletion"),
            ActionSpec("-ipsccp", text="ipsccp"),
        ),
    ),
    ActionSpaceSpec(
        "Parametrized",
        (
            ActionSpec("gvn", text="gvn$<>", parameters=(ActionParameter("pre", ("", "no-pre")),)),
            ActionSpec(
                "O2", text="${}default<O2>", parameters=(ActionParameter("inline", ("", "inliner-threshold=5")),)
            ),
        ),
        kind="parametrized",
    ),
    ActionSpaceSpec("Text", kind="text"),
)
SPACES = ActionSpaces(SPECS, OptLine)
PASSES, OLD, PARAMETRIZED, TEXT = SPACES.values()


def line(*texts: str) -> str:
    return SPACES.language.write(texts)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "opt input.bc -o output.bc"),
        ([""], "opt input.bc -o output.bc"),
        (["globaldce"], "opt -passes=globaldce input.bc -o output.bc"),
        (["gvn", "licm"], "opt '-passes=function(gvn),function(loop-mssa(licm))' input.bc -o output.bc"),
        (["inline", "licm"], "opt '-passes=cgscc(inline),function(loop-mssa(licm))' input.bc -o output.bc"),
        (["gvn<no-pre>"], "opt '-passes=function(gvn<no-pre>)' input.bc -o output.bc"),
        (["instcombine,gvn"], "opt '-passes=function(instcombine,gvn)' input.bc -o output.bc"),
        (["loop(loop-rotate),gvn"], "opt '-passes=function(loop(loop-rotate),gvn)' input.bc -o output.bc"),
        (["globaldce,function(gvn)"], "opt '-passes=module(globaldce,function(gvn))' input.bc -o output.bc"),
        (["default<O2>", "gvn"], "opt '-passes=default<O2>,function(gvn)' input.bc -o output.bc"),
        (["hot-cold-split"], "opt '-passes=module(require<profile-summary>,hotcoldsplit)' input.bc -o output.bc"),
        (["ipsccp"], "opt -passes=ipsccp input.bc -o output.bc"),
        (
            ["gvn", "ipsccp", "gvn", "licm"],
            "opt '-passes=function(gvn)' input.bc | opt -passes=ipsccp | "
            "opt '-passes=function(gvn),function(loop-mssa(licm))' -o output.bc",
        ),
    ],
)  # fmt: skip
def test_actions_become_a_line_that_opt_takes(texts: list[str], expected: str) -> None:
    assert line(*texts).replace("opt -relocation-model=pic ", "opt ") == expected
    assert line(*texts).count("-relocation-model=pic") == expected.count("-passes=")


@pytest.mark.parametrize(
    "text", ["@main(gvn)", "@main:0(unroll<2>)", "{inliner-threshold=5}default<O2>", "mark<minsize>", "clang<Oz>"]
)
def test_what_opt_cannot_do_is_refused_and_said(text: str) -> None:
    with pytest.raises(NotExpressible) as caught:
        line("gvn", text)
    assert text in str(caught.value)
    assert TEXT.to_string(["gvn", text]) == f"gvn,{text}"
    assert TEXT.from_string(f"gvn,{text}") == ["gvn", text]


@pytest.mark.parametrize(
    ("written", "actions"),
    [
        ("opt -gvn -licm input.bc -o output.bc", [0, 2]),
        ("/usr/lib/llvm-10/bin/opt -S --gvn -o out.ll -verify-each in.ll -instcombine", [0, 1]),
        ("opt-14 -enable-new-pm=0 -inline < in.bc", [4]),
        ("opt --passes 'function(gvn),function(loop-mssa(licm))' in.bc", [0, 2]),
        ("opt -p=globaldce - | opt -passes=inline -o - | opt -gvn", [5, 4, 0]),
        ("opt '-passes=cgscc(function(gvn)),module(globaldce)'", [0, 5]),
        ("opt", []),
        ("gvn, licm", [0, 2]),
    ],
)
def test_lines_are_read_old_and_new(written: str, actions: list[int]) -> None:
    assert PASSES.from_string(written) == actions


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("opt -gvn -prune-eh -licm -scalarrepl x.bc", ["-prune-eh", "-scalarrepl"]),
        ("opt -passes='function(gvn,licm),nonsense'", ["function(gvn,licm)", "nonsense"]),
        ("opt -gvn 'x.bc", ["quotation"]),
        ("opt -gvn x.bc | llvm-dis", ["opt"]),
        ("opt -gvn |", ["opt"]),
    ],
)
def test_what_is_no_action_any_more_is_named(written: str, named: list[str]) -> None:
    for space in (PASSES, PARAMETRIZED):
        with pytest.raises(InvalidAction) as caught:
            space.from_string(written)
        assert all(name in str(caught.value) for name in named)


@pytest.mark.parametrize("pipeline", ["@f(gvn)", "gvn,@f(gvn)", "{loop-unrolling=0}gvn"])
def test_actions_that_are_not_opts_are_no_part_of_its_command_line(pipeline: str) -> None:
    with pytest.raises(InvalidAction, match="no pass named"):
        TEXT.from_string(f"opt '-passes={pipeline}' x.bc")


def test_managers_inside_of_each_other_cost_no_memory_to_speak_of() -> None:
    depth = 4000
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidAction):
            TEXT.from_string(f"opt -passes={'module(' * depth}gvn{')' * depth}")
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_flags_are_names_in_the_space_that_has_them() -> None:
    assert OLD.from_string("opt -gvn -gone -ipsccp x.bc") == [0, 1, 3]
    assert TEXT.from_string("opt -gvn -passes=ipsccp x.bc") == ["gvn", "ipsccp"]
    with pytest.raises(InvalidAction, match="-gone"):
        TEXT.from_string("opt -gone x.bc")


@pytest.mark.parametrize("space", [PASSES, OLD, PARAMETRIZED], ids=lambda space: space.name)
@given(data=st.data())
def test_a_line_is_read_back_as_it_was_written(space: Any, data: st.DataObject) -> None:
    named = [space.decode(*space.encode([c])) for c in space.candidates() if space.text(c)]
    actions = data.draw(st.lists(st.sampled_from(named)))
    assert space.from_string(space.to_string(actions)) == actions


NAMES = st.sampled_from(["gvn", "licm", "loop-rotate", "inline", "globaldce", "ipsccp", "gvn<no-pre;x>", "default<O3>"])
NESTED = st.recursive(
    NAMES,
    lambda inner: st.builds(
        lambda manager, parts: f"{manager}({','.join(parts)})",
        st.sampled_from(["module", "cgscc", "function", "function<eager-inv>", "loop", "loop-mssa"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(st.lists(NESTED, min_size=1, max_size=3).map(",".join), max_size=5))
def test_a_line_of_any_pipelines_is_read_back_as_what_writes_the_same_line(texts: list[str]) -> None:
    written = line(*texts)
    again = TEXT.from_string(written)
    assert len(again) == len(texts) and line(*again) == written


@given(st.text())
def test_a_line_of_anything_is_read_or_refused(rest: str) -> None:
    for space in (PASSES, TEXT):
        with contextlib.suppress(InvalidAction):
            space.from_string(f"opt {rest}")


# ------------------------------------------------------------------------------------- on a real compiler


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", ["Passes", "PassesLegacy124", "Pipelines", "ParametrizedPasses"])
async def test_every_action_is_read_back_from_its_line(make: Callable[..., Any], name: str) -> None:
    space = (await make()).action_spaces[name]
    candidates = [c for c in space.candidates() if space.text(c)]
    actions = [action for c in candidates for action in space.decode_all(space.encode([c]))]
    for action in actions:
        assert space.from_string(space.to_string([action])) == [action]
    assert space.from_string(space.to_string(actions)) == actions


@pytest_asyncio.fixture(params=[14, 19])
async def other(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[aiocg.Env, str]]:
    """An environment of another LLVM that comes with an `opt`, and the path of that."""
    folder = Path(f"/usr/lib/llvm-{request.param}")
    if not all((folder / "bin" / name).exists() for name in ("opt", "clang")):
        pytest.skip(f"no LLVM {request.param} with opt and clang in {folder}")
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", f"/usr/lib/x86_64-linux-gnu/libLLVM-{request.param}.so")
    monkeypatch.setenv("AIOCG_CLANG", str(folder / "bin" / "clang"))
    async with aiocg.Runtime(workers=1, datasets=default_datasets()) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/crc32")
        await env.reset()
        yield env, str(folder / "bin" / "opt")


def run(command: str, opt: str, folder: Path) -> None:
    """Run a command line in a shell, with the `opt` at a path."""
    command = command.replace("opt ", f"{shlex.quote(opt)} ")
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)


@pytest.mark.few(1)
async def test_opt_does_what_the_environment_did(other: tuple[aiocg.Env, str], tmp_path: Path) -> None:
    env, opt = other
    (tmp_path / "input.bc").write_bytes(await env.observe("Bitcode"))
    names = env.action_space.names
    steps = [names[i] for i in np.random.default_rng(0).integers(len(names), size=8)]
    for walk in (steps, ["default<O1>", "gvn<no-pre>", "loop-rotate,loop-deletion", "globaldce,function(sroa)"], []):
        await env.reset(benchmark="programs-v0/crc32")
        await env.step_texts(walk)
        ours = await env.observe("IrInstructionCount")
        run(env.commandline(), opt, tmp_path)
        await env.reset(benchmark=tmp_path / "output.bc")
        assert await env.observe("IrInstructionCount") == ours


@pytest.mark.few(1)
async def test_opt_takes_every_action(other: tuple[aiocg.Env, str], tmp_path: Path) -> None:
    env, opt = other
    (tmp_path / "input.bc").write_bytes(await env.observe("Bitcode"))
    for space in (env.action_spaces["Passes"], env.action_spaces["Pipelines"]):
        run(space.to_string(space.candidates()), opt, tmp_path)
