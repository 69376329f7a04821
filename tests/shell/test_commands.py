"""What commands do and print, without a terminal."""

import asyncio
import json
import os
import signal
from pathlib import Path

import msgspec
import pytest

import aiocg
from aiocg.cli.shell.session import ShellSession

from .conftest import Spoken, spoken

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one runtime for all of them


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def spoke(say: Spoken, text: str) -> None:
    """Wait until a shell has printed something, and is at what comes behind that."""
    async with asyncio.timeout(60):
        while text not in say.out + say.err:  # noqa: ASYNC110, a string tells nobody
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)


# --------------------------------------------------------------------------------------------- arithmetic


async def test_actions_tell_what_they_did(say: Spoken) -> None:
    assert await say("action double nothing 1")
    assert say.out.splitlines() == [
        "double  reward -5.0000  in all -5.0000",
        "value: 10",
        "nothing  reward 0.0000  in all -5.0000  no effect",
        "value: 10",
        "increment  reward -1.0000  in all -6.0000",
        "value: 11",
        "3 actions with reward -6.0000",
    ]


async def test_a_hyphen_repeats_the_last_action_and_a_question_mark_draws_one(say: Spoken) -> None:
    assert not await say("action -")
    assert "no action yet" in say.err
    assert await say("action double - ; action -")
    assert say.shell.session.actions == ("double",) * 3
    await say("set-action-space Recipes")
    assert await say("action ?; random 2")
    assert len(say.shell.session.actions) == 6


async def test_nothing_is_done_if_one_action_of_several_does_not_exist(say: Spoken) -> None:
    assert not await say("action double incremnt")
    assert "unknown action 'incremnt'; did you mean increment" in say.err
    assert not await say("action 99")
    assert "action 99 is not in the range 0 to 12" in say.err
    assert say.shell.session.actions == ()


async def test_undo_and_redo_say_where_one_is(say: Spoken) -> None:
    await say("action double increment double")
    assert await say("undo 2")
    assert say.out == "undid increment, double: now after 1 action, reward in all -5.0000\n"
    assert await say("redo")
    assert say.out == "redid increment: now after 2 actions, reward in all -6.0000\n"
    mistakes = {"undo 3": "only 2 actions to undo", "redo 2": "only 1 action to redo", "undo x": "not 'x'"}
    for line, says in mistakes.items():
        assert not await say(line)
        assert says in say.err
    assert await say("back 2; stack")
    rows = [line for line in say.out.splitlines() if "│" in line]
    assert [row.split("│")[3].strip() for row in rows] == ["double", "increment", "double", "(as it came)"]
    assert ">" in rows[-1]
    assert not await say("undo")
    assert "no action to undo" in say.err
    assert await say("redo; action square")
    assert not await say("redo")
    assert await say("reset")
    assert say.out == "scripted-v0/5 as it came\n"


async def test_what_fails_is_told_and_the_rest_of_the_line_not_done(say: Spoken) -> None:
    assert not await say("action double; action abort; action increment")
    assert "abort: the compiler died (signal SIGABRT)" in say.err
    assert "aborting, as asked" in say.err
    assert "the program is as it was, after 1 action" in say.err
    assert say.shell.session.actions == ("double",)
    assert await say("action increment")


async def test_an_unknown_command_and_wrong_arguments_are_told(say: Spoken) -> None:
    for line, says in (
        ("acton", "unknown command 'acton'; did you mean action"),
        ("save", "save needs FILE: save FILE"),
        ("stack 3", "stack takes no argument"),
        ("save 'x", "without another that closes it"),
        ("reward pit", "unknown reward space 'pit'; did you mean pid"),
        ("observation valu", "did you mean value"),
        ("set-benchmark scripted-v1/3", "scripted-v0"),
        ("set-env scripted-v1", "did you mean scripted-v0"),
        ("set-action-space Recipe", "did you mean Recipes"),
        ("load missing.json", "No such file or directory: missing.json"),
        ("save no/such/folder.json", "cannot write no/such/folder.json: No such file or directory"),
        ("write program.txt", "should end in .bc"),
        ("write program.ll", "scripted-v0 makes no .ll file"),
        ("diff", "no action yet"),
        ("commandline", "no tool"),
    ):
        assert not await say(line)
        assert says in say.err
        assert "Traceback" not in say.err


async def test_an_error_that_nobody_thought_of_does_not_end_the_shell(
    say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("surprise")

    with monkeypatch.context() as patch:
        patch.setattr(ShellSession, "go_to", broken)
        assert await say("action double")
        assert not await say("undo")
    assert "KeyError: 'surprise'" in say.err
    assert await say("undo")


async def test_interrupting_goes_back_to_before_and_the_shell_goes_on(say: Spoken) -> None:
    async with asyncio.timeout(30):
        await say("action double")
        line = asyncio.create_task(say("action increment hang double; action double"))
        await spoke(say, "value: 11")
        say.shell.interrupt()
        assert not await line
        assert "interrupted" in say.err
        assert say.shell.session.actions == ("double", "increment")
        assert await say("action double")
    assert "value: 22" in say.out


async def test_interrupting_the_way_back_too_leaves_a_shell_that_can_be_used(
    say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(self: object) -> bool:
        await asyncio.sleep(3600)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(ShellSession, "recover", endless)
        line = asyncio.create_task(say("action double hang"))
        for text in ("value: 10", "interrupted"):
            await spoke(say, text)
            say.shell.interrupt()
        assert not await line
    assert "uncertain" in say.err
    async with asyncio.timeout(20):
        assert await say("undo; action increment")
    assert "value: 6" in say.out


async def test_interrupting_when_nothing_runs_does_nothing(say: Spoken) -> None:
    say.shell.interrupt()
    assert await say("action double")


async def test_searches_need_a_reward(say: Spoken) -> None:
    assert await say("set-default-reward")
    for line in ("greedy", "hill-climb", "try-all-actions"):
        assert not await say(line)
        assert "set-default-reward" in say.err


async def test_try_all_actions_sorts_by_reward_and_shows_what_fails(say: Spoken) -> None:
    await say("set-action-space Recipes; action odd")
    assert await say("try-all-actions")
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in say.out.splitlines() if "│" in line]
    assert rows == [
        ["increment", "changed", "-1.0000"],
        ["double,increment", "changed", "-12.0000"],
        ["square,square", "changed", "-14630.0000"],
    ]
    assert say.shell.session.actions == ("double,increment",)
    assert await say("try-all-actions 1")
    assert "3 actions by value" in say.out
    assert "square" not in say.out


async def test_rewards_and_observations_are_listed_with_the_defaults(say: Spoken) -> None:
    assert await say("list-rewards; list-observations; action-spaces; list-actions in; envs; list-datasets")
    for word in ("decrease of the number", "the number in decimal", "Recipes", "increment", "scripted-v0", "default"):
        assert word in say.out
    assert not await say("list-actions zzz")
    assert await say("list-actions 'in*'; list-benchmarks scripted-v0 3")
    assert "nothing" not in say.out
    assert "scripted-v0/2\n(endlessly many more" in say.out


async def test_reward_is_that_of_the_episode_and_of_the_last_action(say: Spoken) -> None:
    assert await say("reward")
    assert say.out == "value 0.0000\n"
    assert await say("action double increment; reward; reward pid")
    assert say.out.endswith(
        "value -6.0000, of which the last action -1.0000\npid 0.0000, of which the last action 0.0000\n"
    )
    assert await say("set-default-reward pid; reward; set-default-reward value; reward")
    assert "pid: 0.0000 after 2 actions" in say.out
    assert "value -6.0000" in say.out


async def test_observations_are_shown_by_kind(say: Spoken) -> None:
    assert await say("observation value digits")
    assert say.out == "value\n5\ndigits\n5\n"
    assert await say("observation block; observation places; set-default-observation digits; action double")
    assert "[5 5 5 ... 5 5 5]" in say.out
    assert "@0" in say.out
    assert "digits: 10" in say.out
    assert await say("set-default-observation; action double")
    assert say.out.endswith("in all -15.0000\n")
    assert not await say("observation")
    assert not await say("set-default-observation impossible")
    assert say.shell.session.env.observation_space is None


async def test_help_has_every_command_and_more_of_each(say: Spoken) -> None:
    assert await say("help; tutorial")
    for command in say.shell.table:
        assert command.usage in say.out
        assert await spoken(say.shell.session)(f"help {command.name}")
    assert await say("help set_benchmark")
    assert "example: set-benchmark programs-v0/gcd" in say.out


async def test_every_command_that_the_tutorial_names_exists(say: Spoken) -> None:
    from aiocg.cli.shell._commands import TUTORIAL

    lines = [line.strip() for line in TUTORIAL.splitlines() if line.startswith("    ")]
    assert len(lines) > 20
    for line in lines:
        name, *words = line.split()
        say.shell.table.find(name).check(words)


async def test_history_numbers_what_was_typed(say: Spoken) -> None:
    await say("action double; undo")
    await say("nonsense")
    assert await say("history 3")
    assert [line.split(maxsplit=1) for line in say.out.splitlines()] == [
        ["2", "undo"],
        ["3", "nonsense"],
        ["4", "history 3"],
    ]


async def test_python_can_await_and_what_it_does_is_history(say: Spoken) -> None:
    assert await say('python await env.observe("value"), 1 + 1')
    assert say.out == "(5, 2)\n"
    assert await say('python _ = await env.step(["double", "increment"])')
    assert say.shell.session.actions == ("double", "increment")
    mistakes = {"for x in 1,:": "more of this Python", "1/0": "ZeroDivisionError", "def f(:": "SyntaxError"}
    for code, says in mistakes.items():
        assert not await say(f"python {code}")
        assert says in say.err
    assert not await say("breakpoint")
    assert "needs CODE" in say.err


async def test_states_are_saved_and_loaded(say: Spoken) -> None:
    assert await say("action double increment; save 'my state.json'; set-benchmark scripted-v0/9")
    assert json.loads(Path("my state.json").read_text(encoding="utf-8"))["actions"] == ["double", "increment"]
    assert await say("load 'my state.json'")
    state = msgspec.structs.replace(say.shell.session.env.state, actions=("double", "double"), reward=None)
    Path("states.csv").write_text(f"{state.csv_header()}\n{state.to_csv()}\n{state.to_csv()}\n", encoding="utf-8")
    assert await say("load states.csv:3")
    assert say.out == "scripted-v0/5 after 2 actions, reward in all -15.0000\n"
    assert not await say("load states.csv")
    assert "there are 2 states: say which one by its line, as in states.csv:2" in say.err
    assert not await say("load -")
    assert await say("load 'my state.json'")
    assert say.out == "scripted-v0/5 after 2 actions, reward in all -6.0000\n"
    Path("bad.json").write_text("{}", encoding="utf-8")
    assert not await say("load bad.json")
    assert "not a state as JSON" in say.err
    assert say.shell.session.position == 2


async def test_exit_is_the_end_of_the_line(say: Spoken) -> None:
    assert await say("action double; quit; action double")
    assert say.shell.finished
    assert say.shell.session.actions == ("double",)


async def test_progress_appears_on_a_terminal_when_a_command_takes_long(
    session: ShellSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiocg.cli.shell._command.PATIENCE", 0.05)
    shown = spoken(session, terminal=True)
    assert await shown("action " + "nap " * 30)
    assert "Ctrl-C interrupts" in shown.out
    assert "/30" in shown.out
    assert not shown.shell.progress.shown
    hidden = spoken(session)
    assert await hidden("action " + "nap " * 10)
    assert "Ctrl-C" not in hidden.out


# ---------------------------------------------------------------------------------------------- compiling


@pytest.mark.slow
async def test_a_session_with_llvm_from_first_to_last(folder: Path) -> None:
    async with aiocg.Runtime(workers=2) as runtime:
        say = spoken(await ShellSession.open(runtime, "llvm-ic-v0", benchmark="programs-v0/gcd", seed=1))
        env = say.shell.session.env
        assert await say("action mem2reg gvn gvn; undo; diff; diff 2; greedy 2; reward")
        assert "+++ after gvn" in say.out
        assert "--- before mem2reg, gvn" in say.out
        assert say.shell.session.position == 4
        total = say.shell.session.present.total
        assert total is not None and total > 0.8

        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        assert await say("hill-climb 5; action instsimplify instsimplify; simplify-stack")
        assert (say.shell.session.present.total or 0) >= total - 1e-9
        assert not any(entry.had_no_effect for entry in say.shell.session.entries)

        assert await say("commandline")
        assert say.out.startswith("opt -relocation-model=pic '-passes=")
        assert await say("observation Ir; write best.ll; write best.bc")
        text = Path("best.ll").read_text(encoding="utf-8")
        assert say.out.startswith(text)
        assert Path("best.bc").read_bytes()[:4] == b"BC\xc0\xde"
        assert await say("observation AutophaseDict; set-default-observation Ir; action dce")
        assert "TotalInsts" in say.out
        assert "characters: `observation Ir` shows them" in say.out

        assert await say("set-action-space FunctionPasses; action @main(sroa); set-action-space Passes")
        assert await say("set-env llvm-codesize-v0")
        assert say.shell.session.benchmark_name == "programs-v0/gcd"
        assert await say("set-benchmark ./best.ll; try-all-actions 3; reward IrInstructionCount")
        assert say.shell.session.env is not env
