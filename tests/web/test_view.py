"""What the page shows, as values; and -Oz taken apart."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.errors import NotExpressible
from aiocg.spaces.actions import split_list
from aiocg.web import _view as view
from aiocg.web._panels import WHOLE, changes, colored, pipeline, prefixes, stages
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Refusal
from aiocg.web.tree import DEEPEST, SHOWN, Tree


def wide(children: int) -> Tree:
    """Return a tree whose first node has many children, the last one the best, and that stands at the worst."""
    tree = Tree(0, {"cost": 1000.0})
    for number in range(1, children + 1):
        tree.add(0, f"a{number}", number, {"cost": float(1000 - number)})
    tree.goto(1)
    return tree


def test_the_best_twelve_children_are_shown_and_the_way_to_the_present_node() -> None:
    root, *children = view.tree_nodes(wide(20), "cost")
    assert [one["id"] for one in children] == [*map(str, range(20, 8, -1)), "1", "more-0"]
    assert root["level"] == 0 and {one["level"] for one in children} == {1}
    assert children[-1]["text"] == "+7" and [one["id"] for one in children if one.get("here")] == ["1"]
    _, *children = view.tree_nodes(wide(20), "cost", {0})
    assert [one["id"] for one in children] == [*map(str, range(20, 0, -1))]


@given(st.lists(st.integers(0, 2), max_size=2000))
def test_what_is_shown_of_a_large_tree_is_bounded(parents: list[int]) -> None:
    tree = Tree(0, {"cost": 0.0})
    for number, back in enumerate(parents, 1):
        tree.add(max(0, number - 1 - back), "a", number, {"cost": 0.0})
    tree.goto(len(tree) // 2)
    assert len(view.tree_nodes(tree, "cost", range(len(tree)))) <= 2 * (SHOWN + DEEPEST)


@pytest.mark.parametrize("place", [0, 1, 20, 100, 1999, 2000])
def test_of_a_long_way_the_ends_are_shown(place: int) -> None:
    tree = Tree(0, {"cost": 0.0})
    for number in range(1, 2001):
        tree.add(number - 1, f"a{number}", number, {"cost": 0.0})
    tree.goto(place)
    found = view.tree_nodes(tree, "cost")
    assert [one["level"] for one in found] == list(range(len(found))) and len(found) <= DEEPEST + 2
    assert [one["text"] for one in found if one.get("here")] == [f"a{place}" if place else "as it came"]
    skipped = [one["text"] for one in found if "more," in one["text"]]
    assert skipped == ([f"… {place - DEEPEST} more, a{place - DEEPEST + 1}"] if place > DEEPEST else [])
    assert tree.graph("cost").svg().count("<rect") < 3 * DEEPEST


def test_a_long_action_is_shortened_to_what_says_most() -> None:
    assert view.label("mem2reg") == "mem2reg"
    assert view.label("simplifycfg<forward-switch-cond;switch-range-to-icmp;keep-loops>") == "simplifycfg<…>"
    assert view.label("annotation2metadata,forceattrs,function<eager-inv>(lower-expect,sroa<modify-cfg>)") == "… → sroa"


def test_actions_with_the_same_short_text_say_in_what_they_differ() -> None:
    common = "switch-range-to-icmp;switch-to-arithmetic"
    wide, plain, other = (
        f"simplifycfg<forward-switch-cond;{common};no-keep-loops>",
        f"simplifycfg<{common};no-keep-loops>",
        f"simplifycfg<{common};sink-common-insts;no-keep-loops>",
    )
    found = view.labels(["mem2reg", wide, plain, other])
    assert found == {
        "mem2reg": "mem2reg",
        wide: "simplifycfg<…;forward-switch-cond>",
        plain: "simplifycfg<…>",
        other: "simplifycfg<…;sink-common-insts>",
    }
    assert view.labels([plain]) == {plain: "simplifycfg<…>"}
    long = [f"function(sroa,{name},instcombine,simplifycfg,early-cse),globaldce" for name in ("gvn", "licm")]
    assert view.labels(long) == {one: one for one in long}
    tree = Tree(0, {"cost": 9.0})
    for number, action in enumerate((wide, plain, other), 1):
        tree.add(0, action, number, {"cost": float(number)})
    shown = [row["text"] for row in view.tree_nodes(tree, "cost")]
    assert shown == ["as it came", *(found[one] for one in (wide, plain, other))]


@given(st.lists(st.text(alphabet="ab<>;(),@", max_size=60), unique=True))
def test_no_two_actions_have_the_same_text(actions: list[str]) -> None:
    assert len(set(view.labels(actions).values())) == len(actions)


def test_costs_are_short_texts() -> None:
    values = (0.0, 1234.0, -3.5, 0.25, 0.000185, -4.2e-9, 3e-12)
    assert [view.number(value) for value in values] == ["0", "1,234", "-3.500", "250m", "185µ", "-4.2n", "0.003n"]
    assert [view.change(value) for value in (0.0, 2.0, -0.000185)] == ["", "+2", "-185µ"]


async def test_functions_are_counted_as_the_compiler_counts_them(runtime: aiocg.Runtime) -> None:
    for name in ("qsort", "sha256", "lz77"):
        env = await runtime.make("llvm-v0", benchmark=f"programs-v0/{name}")
        await env.reset()
        await env.step_texts(["default<O1>"])
        text, expected = await env.observe("Ir", "IrInstructionCount")
        counts = view.counts(text)
        assert sum(instructions for instructions, _ in counts.values()) == expected
        assert all(blocks >= 1 for _, blocks in counts.values())
        await env.close()


async def test_what_is_copied_leads_to_the_same_state(runtime: aiocg.Runtime) -> None:
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark="programs-v0/gcd")
    nodes = await session.step(["mem2reg", "gvn", "loop-unroll<O2>"])
    language = session.env.action_spaces.language
    texts = view.copies("llvm-ic-v0", "benchmark://programs-v0/gcd", ["mem2reg", "gvn"], language)
    assert texts["aiocg"].startswith("aiocg shell --env llvm-ic-v0 --benchmark programs-v0/gcd -c 'action mem2reg gvn")
    assert texts["opt"] == "opt -relocation-model=pic '-passes=function(mem2reg),function(gvn)' input.bc -o output.bc"
    assert texts["opt of aiocg, which makes the same bytes"].startswith("python -m aiocg.llvm opt -passes=mem2reg,gvn")
    compile(texts["Python"], "copied", "exec")
    assert len(nodes) == 3
    await session.close()
    assert "# " in view.copies("llvm-ic-v0", "benchmark://a/b", ["@f(mem2reg)"], language)["opt"]


@pytest.mark.slow
def test_the_command_that_is_copied_can_be_run(place: Any) -> None:
    actions = ["sroa<preserve-cfg>", "simplifycfg<forward-switch-cond;keep-loops>", "loop(loop-rotate)", "mem2reg,gvn"]
    texts = view.copies("llvm-ic-v0", "benchmark://programs-v0/gcd", actions, FakeLanguage(), "PipelineText")
    command = texts["aiocg"]
    done = place.run("/bin/sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("reward") >= len(actions)


def test_what_was_sent_is_to_be_saved_first() -> None:
    texts = view.copies("llvm-ic-v0", "benchmark://user-v0/program.c?sha256=12", ["gvn"], FakeLanguage())
    assert texts["aiocg"].splitlines()[0] == "# save the program as ./program.c"
    assert "--benchmark ./program.c" in texts["aiocg"] and "benchmark='./program.c'" in texts["Python"]


class FakeLanguage:
    """A language of actions without a notation."""

    def write(self, texts: Sequence[str], *, exact: bool = False) -> str:
        raise NotExpressible("there is none")


def test_the_chart_has_the_way_and_the_lines_of_the_levels() -> None:
    options = view.chart({"cost": wide(3).way("cost")}, {"-Oz": 5.0}, "cost")
    (series,) = options["series"]
    assert series["data"] == [[0, 1000.0], [1, 999.0]]
    assert [line["yAxis"] for line in series["markLine"]["data"]] == [5.0]
    assert series["markLine"]["label"]["position"] == "end" and options["grid"]["right"] > 90


def test_levels_that_are_near_have_their_texts_below_each_other() -> None:
    levels = {"-O3": 504.0, "-Oz": 505.0, "-O1": 20.0, "-Os": 505.0}
    (series,) = view.chart({"cost": wide(3).way("cost")}, levels, "cost")["series"]
    texts = {line["yAxis"]: line["label"]["formatter"] for line in series["markLine"]["data"]}
    assert texts == {505.0: "-Oz 505\n-Os 505\n-O3 504", 504.0: "", 20.0: "-O1 20"}


def test_the_course_of_a_search_goes_down_in_steps() -> None:
    one, other = view.chart({"1": [(1, 9.0), (20, 4.0)], "2": [(3, 6.0)]}, {"-Oz": 5.0}, "size")["series"]
    assert one["data"] == [[1, 9.0], [20, 4.0]] and other["data"] == [[3, 6.0]]
    assert "markLine" in one and "markLine" not in other and one["color"] != other["color"]
    assert view.chart({}, {}, "size")["yAxis"]["min"] == 0.0


def test_old_lines_stand_beside_the_new_ones() -> None:
    shown = colored(["--- a", "+++ b", "@@ -1 +1 @@", " same", "-old", "-older", "+new<"], beside=True)
    cells = re.findall(r'<div class="([^"]*)">([^<]*)</div>', shown)
    assert cells == [
        ("at whole", "@@ -1 +1 @@"), ("", " same"), ("", " same"), ("del", "-old"), ("add", "+new&lt;"),
        ("del", "-older"), ("", " "),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- -Oz


def test_parts_of_a_pipeline_end_behind_each_pass() -> None:
    parts = list(prefixes(["a", "function<eager-inv>(b,loop-mssa(c<x>,d))", "e"]))
    assert parts == [
        ("a", "a"),
        ("b", "a,function<eager-inv>(b)"),
        ("c<x>", "a,function<eager-inv>(b,loop-mssa(c<x>))"),
        ("d", "a,function<eager-inv>(b,loop-mssa(c<x>,d))"),
        ("e", "a,function<eager-inv>(b,loop-mssa(c<x>,d)),e"),
    ]


def test_the_compiler_says_what_its_pipeline_is() -> None:
    elements = pipeline()
    assert split_list(",".join(elements)) == list(elements)
    assert any(element.startswith("cgscc(") for element in elements)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcd", "qsort"])
async def test_stages_add_up_to_what_the_level_does(runtime: aiocg.Runtime, name: str) -> None:
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=f"programs-v0/{name}")
    found = [stage async for stage in stages(session)]
    (whole,) = await session.try_all([WHOLE])
    assert found[-1].state == whole.state
    assert sum(stage.gain for stage in found) == whole.gain > 0
    assert any(not stage.effect for stage in found) and all(stage.gain == 0 for stage in found if not stage.effect)
    middle = found[len(found) // 2]
    *_, node = await session.step(middle.actions)
    assert node.state == middle.state
    last = max((one for one in found if one.effect), key=lambda one: one.number)
    assert await changes(session, found[last.number - 2].actions, last.actions) != []
    assert await changes(session, last.actions, found[-1].actions) == []
    await session.close()


async def test_another_compiler_has_no_stages(runtime: aiocg.Runtime) -> None:
    session = await ExplorerSession.open(runtime, "scripted-v0")
    with pytest.raises(Refusal, match="take an LLVM environment"):
        await anext(stages(session))
    await session.close()
