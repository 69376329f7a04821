"""The taskset of verifiers: rollouts of scripted models with real tools and compilers, and tricks that earn nothing."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs pip install 'aiocg[verifiers]'")

import verifiers.v1 as vf
from verifiers.v1.runtimes.subprocess import SubprocessRuntime

import aiocg
from aiocg.agents import verifiers as taskset
from aiocg.agents.verifiers import BASELINE, ENVIRONMENT, REWARD, earned

pytestmark = pytest.mark.slow

PATH = Path(__file__).parents[2] / "examples/verifiers_scripted.py"
SPEC = importlib.util.spec_from_file_location("verifiers_scripted", PATH)
assert SPEC is not None and SPEC.loader is not None
example = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(example)

CRC, BWT, JSON = (f"benchmark://programs-v0/{name}" for name in ("crc32", "bwt", "json"))
OZ = ("step", {"actions": list(BASELINE)})

# What -Oz does, without globalopt: a table stays writable, in .data, where it is no part of the text size.
FUNCTIONS = (
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,jump-threading,"
    "correlated-propagation,reassociate,loop-mssa(loop-simplifycfg,licm,loop-rotate<no-header-duplication>),"
    "loop(loop-idiom,indvars,loop-deletion),gvn,sccp,bdce,adce,memcpyopt,dse,"
    "simplifycfg<switch-range-to-icmp;hoist-common-insts;sink-common-insts>,instcombine<no-verify-fixpoint>)"
)
ENDLESS = [",".join(["default<O3>"] * 800)] * 100  # takes hours
MOVED = ["mark<minsize>", FUNCTIONS, "cgscc(inline)", FUNCTIONS, "codegen<size>"]

# Its loop ends when a number overflows, which it may not: some passes make it endless.
ENDS = """
int puts(const char *);
int main(void) {
  int i = 1;
  while (i > 0) i += 1000;
  return puts("ended") < 0;
}
"""
NEVER_ENDS = ["function(sroa,loop-mssa(loop-rotate),loop(indvars),simplifycfg)"]


@pytest.fixture(autouse=True)
def _installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent's loop run with the packages that are installed here; uv would download them."""

    async def here(runtime: SubprocessRuntime, script: str, *_: Any, **__: Any) -> list[str]:
        assert runtime.workdir is not None
        await runtime.write("agent.py", script.encode())
        return [sys.executable, "-P", str(runtime.workdir / "agent.py")]

    monkeypatch.setattr(SubprocessRuntime, "prepare_uv_script", here)


def told(trace: vf.Trace) -> list[str]:
    """Return what the tools said."""
    assert not trace.errors, trace.errors
    return [str(node.message.content) for node in trace.nodes if node.message.role == "tool"]


async def test_rollout_earns_the_best_that_its_steps_have_reached() -> None:
    """It is the one that the page shows."""
    trace = await example.play(example.SCRIPT, programs=[CRC])
    _, misspelt, tried, refused, oz, best, undone = told(trace)
    assert "did you mean" in misspelt and "mem2reg" in tried and "have no internalize" in refused
    assert json.loads(oz)["episode_reward"] == 1 and json.loads(oz)["steps_left"] == 43
    assert json.loads(undone)["actions_taken"] == 2
    assert trace.reward == pytest.approx(json.loads(best)["episode_reward"]) and trace.reward > 1
    assert trace.state.actions == [*BASELINE, "codegen<size>"]
    assert trace.info["verdict"].startswith("same: it was run")
    page = (PATH.parents[1] / "docs/agents.md").read_text(encoding="utf-8")
    assert example.transcript(trace) in page, "python examples/verifiers_scripted.py has another transcript"


async def test_claims_and_deleted_programs_earn_nothing() -> None:
    expand = ("expand", {"candidates": [list(BASELINE)]})
    deletions = [["internalize", "globaldce"], ["module(globaldce,module(internalize),globaldce)"]]
    claim = json.dumps({"episode_reward": 9.0, "actions": list(BASELINE), "reward": 9.0})
    steps = [("step", {"actions": texts}) for texts in deletions]
    trace = await example.play([expand, *steps, ("submit", {"reward": 9.0}), claim], programs=[CRC])
    _, first, second, unknown = told(trace)
    assert "have no internalize" in first and "have no internalize" in second and "unknown tool" in unknown
    assert trace.reward == 0 and trace.info["verdict"] == "no step has made it smaller"


async def test_bytes_that_are_moved_into_data_count() -> None:
    trace = await example.play([("step", {"actions": MOVED})], programs=[BWT])
    async with aiocg.Runtime(workers=1) as runtime, await runtime.make(ENVIRONMENT, benchmark=BWT) as env:
        rewards = {}
        for space in (REWARD, "ObjectTextSizeOzMinsize"):
            env.reward_space = space
            await env.reset()
            await env.apply(MOVED)
            rewards[space] = env.episode_reward
    assert rewards["ObjectTextSizeOzMinsize"] > 1 > rewards[REWARD], "it is smaller than -Oz, if data are left out"
    assert trace.reward == pytest.approx(rewards[REWARD])


async def test_steps_and_time_are_limited_and_what_was_reached_before_is_kept() -> None:
    steps = [["sroa"], ["sroa"] * 101, ENDLESS, list(BASELINE)]
    script = [("step", {"actions": texts}) for texts in steps]
    trace = await example.play(script, programs=[CRC], steps=3, seconds=3.0)
    first, many, slow, late = told(trace)
    assert "1 to 100 actions" in many and "deadline of 3 s" in slow and "your 3 steps" in late
    assert trace.reward == pytest.approx(json.loads(first)["episode_reward"]) and 0 < trace.reward < 1
    assert trace.state.actions == ["sroa"]


async def test_program_that_becomes_an_endless_loop_earns_nothing(tmp_path: Path) -> None:
    (tmp_path / "loop.c").write_text(ENDS)
    script = [("step", {"actions": NEVER_ENDS}), ("observe", {"space": "Ir"})]
    trace = await example.play(script, programs=[f"file://{tmp_path}/loop.c"])
    step, ir = told(trace)
    assert json.loads(step)["episode_reward"] > 0.5 and "call i32 @puts" not in ir
    assert trace.reward == 0 and trace.info["verdict"].startswith("varies or undefined")


async def test_agent_that_never_ends_is_stopped_and_earns_what_it_has_reached() -> None:
    looking = ("observe", {"space": "IrInstructionCount"})
    trace = await example.play([OZ, *[looking] * 1000], agent={"max_turns": 4}, programs=[CRC])
    assert trace.stop_condition == "max_turns" and len(told(trace)) <= 4
    assert trace.reward == pytest.approx(1)


async def test_reward_believes_no_state_that_it_cannot_reach_again() -> None:
    (task,) = vf.load_taskset(taskset.CodeSizeConfig(id="aiocg-codesize", programs=[CRC]))
    task = task.with_data(steps=1, seconds=3.0)
    about = vf.TraceTask(type="Shrink", data=task.data, key=task.key, hash=task.hash)
    for forged in (["internalize", "globaldce"], ["no-such-pass"], ["cgscc(attributor-cgscc)"], ENDLESS):
        state = taskset.Reached(actions=forged, reward=9.0)
        trace = vf.Trace(task=about, agent=vf.AgentInfo(config=vf.AgentConfig()), state=state)
        await task.score(trace)
        assert trace.reward == 0, trace.info


@pytest.mark.parametrize(
    ("program", "actions", "verdict"),
    [
        (CRC, ["internalize", "globaldce"], "main is no longer defined"),
        (JSON, ["lower-expect", "sroa", "attributor-cgscc", "dse", "licm"], "differs: miscompiled"),
    ],
)
async def test_programs_are_compared_even_if_all_passes_were_allowed(
    monkeypatch: pytest.MonkeyPatch, program: str, actions: list[str], verdict: str
) -> None:
    monkeypatch.setattr(taskset, "check_passes", lambda *_: None)
    reward, said = await earned(program, actions)
    assert reward == 0 and said.startswith(verdict)


def test_tasks_are_programs_of_a_dataset_or_named() -> None:
    tasks = list(vf.load_taskset(taskset.CodeSizeConfig(id="aiocg-codesize", steps=7)))
    assert len(tasks) == 42 and len({task.key for task in tasks}) == 42
    assert tasks[0].data.program in tasks[0].data.prompt and "7 steps" in tasks[0].data.prompt
    generated = vf.load_taskset(taskset.CodeSizeConfig(id="aiocg-codesize", programs=["generator://aiocg-v0"]))
    assert [task.data.program for task in generated.take(2)] == ["generator://aiocg-v0/0", "generator://aiocg-v0/1"]
