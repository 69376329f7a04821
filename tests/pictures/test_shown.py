"""Pictures where users meet them: in notebooks and on the command line."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import aiocg
from aiocg.search import Budget, greedy

from ..command_line import Run


async def test_a_result_and_a_state_show_themselves_in_a_notebook() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        found: Any = await greedy(env, budget=Budget(evaluations=200))
        assert found.state.outcomes
        drawn = ET.fromstring(found._repr_svg_())
        words = "".join(drawn.itertext())
        assert "greedy search, programs-v0/gcd" in words and "Oz" in words and "200" in words
        shown: Any = env.state
        html = shown._repr_html_()
        assert "<td>benchmark://programs-v0/gcd</td>" in html and "llvm-ic-v0" in html
        odd = aiocg.CompilerEnvState(environment="llvm-v0", benchmark="benchmark://x/y", actions=("@f<a>(gvn)",))
        assert "@f&lt;a&gt;(gvn)" in odd._repr_html_()


@pytest.mark.slow
def test_the_command_line_draws_searches_and_states(command: Run) -> None:
    words = ("search", "random", "programs-v0/gcd", "--evaluations", "40", "--no-minimize")
    done = command(*words, "--state", "best.json", "--plot", "search.svg")
    assert done.status == 0, done.err
    assert "evaluations" in "".join(ET.parse("search.svg").getroot().itertext())
    done = command("state", "plot", "best.json", "-o", "state.svg")
    assert done.status == 0, done.err
    said = "".join(ET.parse("state.svg").getroot().itertext())
    assert "as it came" in said and "-Oz" in said and "programs-v0/gcd: IrInstructionCount" in said
    assert command("state", "plot", "missing.json", "-o", "x.svg").status == 1
