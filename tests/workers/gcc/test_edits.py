"""The flat list of actions: which there are, and what they do to choices."""

from aiocg.transport.options import Option
from aiocg.workers.gcc.edits import apply, edits

FLAG = Option("-fgcse", "flag", "Do it.", ("-fgcse", "-fno-gcse"))
NUMBER = Option("--param=x", "param", "", (), "--param=x={}", 0, 2**31 - 1)


def test_an_option_of_few_choices_has_an_edit_for_each_and_one_of_many_has_steps() -> None:
    assert [edit.action.name for edit in edits([FLAG, NUMBER])] == [
        "-fgcse",
        "-fno-gcse",
        *[f"--param=x[{step}]" for step in ("+1", "-1", "+10", "-10", "+100", "-100", "+1000", "-1000")],
    ]


def test_edits_stop_at_the_ends() -> None:
    by_name = {edit.action.name: edit for edit in edits([FLAG, NUMBER])}
    assert apply(by_name["-fno-gcse"], (-1, -1)) == (1, -1)
    assert apply(by_name["--param=x[-1000]"], (0, 30)) == (0, -1)
    assert apply(by_name["--param=x[+10]"], (0, 2**31 - 3)) == (0, 2**31 - 1)
