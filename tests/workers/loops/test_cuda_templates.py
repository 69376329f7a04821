"""Templates for GPUs: what is derived from an expression, and that it is legal and computes the right thing."""

from typing import Any

import pytest

from aiocg.datasets.loop_nests.dataset import TEMPLATES
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._rules import RULES, Rules, block_threads
from aiocg.workers.loops._schedule import Schedule, arrange, read_layouts, write_layout
from aiocg.workers.loops.cuda.target import MOST, _generate, templates

EXPRESSIONS = {
    **{name: template.write(template.values({})) for name, template in TEMPLATES.items()},
    "one": "C[i:1] = A[i] + 1",
    "odd": "C[i:3, j:5] = sum(k:7) A[i, k] * B[k, j]",
    "all": "C[i:1] = sum(j:77, k:3) A[j, k]",
    "strided": "B[i:33, j:5] = A[3*i, 4 - j] * 0.5",
    "narrow": "C[i:4096, j:12] = A[i, j] + B[i, j]",
    "many axes": "B[a:3, b:4, c:5, d:6, e:7] = A[a, b, c, d, e]",
}


FLOAT32 = RULES["cuda"]._replace(kinds=RULES["cuda"].kinds - {"tensor"})


def derived(expression: str, rules: Rules = FLOAT32) -> list[list[str]]:
    found = templates(Schedule.of(parse(expression), "cuda"), rules, 132)
    return [list(map(write_layout, layouts)) for layouts in found]


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("rules", [FLOAT32, RULES["cuda"]], ids=["float32", "tf32"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_all_templates_are_legal_and_use_the_device(name: str, rules: Rules) -> None:
    schedule = Schedule.of(parse(EXPRESSIONS[name]), "cuda")
    for number, layouts in enumerate(derived(EXPRESSIONS[name], rules)):
        assert len(layouts) == len(set(layouts)) <= MOST
        assert layouts or all(axis.extent == 1 for axis in schedule.nests[number].stage.axes)
        for layout in layouts:
            texts = [""] * len(schedule.nests)
            texts[number] = layout
            read = read_layouts(f"nests<{';'.join(texts)}>")
            assert read is not None
            nest = arrange(schedule, read).nests[number]  # a refusal is an error
            assert "thread.x" in block_threads(nest)


def test_the_first_templates_are_what_people_write() -> None:
    ((product, *_),) = derived("C[i:2048, j:2048] = sum(k:2048) A[i, k] * B[k, j]")
    assert product == (
        "i=block.y,j=block.x,i:16=thread.y,j:16=thread.x,k=pipeline@A@B,k:16=unroll,i:8=unroll,j:8=unroll"
    )
    ((rows, *_),) = derived("R[i:4096] = sum(j:4096) X[i, j]")
    assert rows == "i=block.x,j:256=thread.x,j"
    ((columns, *_),) = derived("R[j:4096] = sum(i:4096) X[i, j]")
    assert columns == "j=block.x,j:32=thread.x,i"
    ((turned, *_),) = derived("B[i:4096, j:4096] = A[j, i]")
    assert turned == "i=block.y,j=block.x,i:8=thread.y,j:32=thread.x,i:1=serial@A,i:4=unroll"
    ((scaled, *_),) = derived("B[i:4096, j:4096] = A[i, j] * F[i]")  # F is no tile, though it lies along i
    assert scaled == "i=block.y,j=block.x,j:256=thread.x,j:4=unroll"
    ((added, *_),) = derived("C[i:1000003] = A[i] + B[i]")
    assert added == "i=block.x,i:256=thread.x,i:4=unroll"
    ((product, *_),) = derived("C[i:2048, j:2048] = sum(k:2048) A[i, k] * B[k, j]", RULES["cuda"])
    assert product == (
        "i=block.y,j=block.x,i:2=thread.y,j:2=thread.z,k=pipeline@A@B,k:4=unroll,i:4=unroll,j:8=unroll,"
        "i:16=tensorize,j:8=tensorize,k:8=tensorize"
    )


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "expression",
    [
        "C[i:21, j:35] = sum(k:50) A[i, k] * B[k, j]",
        "Y[f:6, y:9, x:21] = sum(c:3, r:3, s:3) X[c, y + r, x + s] * K[f, c, r, s]",
        "M[i:19] = max(j:70) X[i, j]\nE[i:19, j:70] = exp(X[i, j] - M[i])",
        "B[i:33, j:45] = A[j, i]",
        "C[j:40] = sum(i:140) A[i, j]",
    ],
)
def test_kernels_of_templates_are_right(emulator: Any, expression: str) -> None:
    schedule = Schedule.of(parse(expression), "cuda")
    inputs = random_inputs(schedule.computation, seed=1)
    expected = expect(schedule.computation, inputs)
    found = templates(schedule, RULES["cuda"], 4)
    for rank in range(0, max(map(len, found)), 7):
        arranged = arrange(schedule, tuple(layouts[rank % len(layouts)] for layouts in found))
        program = _generate(schedule.computation, arranged.nests)
        mismatch = compare(schedule.computation, emulator.run(schedule.computation, program, inputs), expected)
        assert mismatch is None, f"{mismatch}\n{arranged.text}"
