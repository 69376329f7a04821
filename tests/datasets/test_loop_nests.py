"""The datasets of tensor expressions: what they have, that it is in the language, and how errors help."""

import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest

from aiocg.datasets import BenchmarkNotFound, Datasets, InvalidBenchmarkUri, default_datasets
from aiocg.datasets.loop_nests.dataset import TEMPLATES, LoopNestsDataset, LoopToolDataset
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import expect, random_inputs
from aiocg.workers.loops._schedule import unparse

DATASET = LoopNestsDataset()
ALL = [str(uri) for uri in DATASET.benchmark_uris()]


def _computation(name: str) -> Computation:
    return parse(DATASET[name].content)


def _shapes(name: str) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in _computation(name).tensors}


@pytest.mark.few(25)
@pytest.mark.parametrize("uri", ALL)
def test_what_is_enumerated_is_in_the_language_and_can_be_measured(uri: str) -> None:
    benchmark = DATASET[uri]
    text = benchmark.content.decode()
    assert unparse(parse(text)) == text
    assert [source.contents for source in benchmark.sources] == [benchmark.content]
    assert 1000 <= sum(tensor.size for tensor in parse(text).tensors) < 2**26
    assert parse(text).flops < 2**32


def test_names_and_contents_are_all_different() -> None:
    assert len(ALL) == len(set(ALL)) == DATASET.size > 80
    assert len({DATASET[uri].content for uri in ALL}) == len(ALL)


@pytest.mark.parametrize("name", TEMPLATES)
def test_parameters_have_defaults_that_the_query_changes(name: str) -> None:
    defaults = {key: str(parameter.default) for key, parameter in TEMPLATES[name].parameters.items()}
    query = "&".join(f"{key}={value}" for key, value in defaults.items())
    assert DATASET[name].content == DATASET[f"{name}?{query}"].content
    for key in defaults:
        assert DATASET[f"{name}?{key}=8"].content != DATASET[name].content


SMALL = {
    "matmul?m=5&n=6&k=7": lambda a, b: a @ b,
    "batch_matmul?b=2&m=5&n=6&k=7": lambda a, b: a @ b,
    "matvec?m=5&k=7": lambda a, x: a @ x,
    "linear?m=5&n=6&k=7": lambda a, b, d: np.maximum(a @ b + d, 0),
    "add?n=9": lambda a, b: a + b,
    "copy?n=9": lambda a: a,
    "relu?m=5&n=6": lambda x: np.maximum(x, 0),
    "bias?m=5&n=6": lambda x, b: x + b,
    "transpose?m=5&n=6": lambda x: x.T,
    "sum?m=5&n=6": lambda x: x.sum(1),
    "column_sum?m=5&n=6": lambda x: x.sum(0),
    "max?m=5&n=6": lambda x: x.max(1),
    "softmax?m=5&n=6": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    "layer_norm?m=5&n=6": lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    "conv2d?n=2&c=3&h=9&w=8&k=4&r=3&s=2&stride=2": lambda x, k: np.stack(
        [
            [np.einsum("bcrs,fcrs->bf", x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2], k) for j in range(4)]
            for i in range(4)
        ]
    ).transpose(2, 3, 0, 1),
    "depthwise_conv2d?n=2&c=3&h=5&w=4&r=2&s=2": lambda x, k: np.stack(
        [[np.einsum("bcrs,crs->bc", x[:, :, i : i + 2, j : j + 2], k) for j in range(3)] for i in range(4)]
    ).transpose(2, 3, 0, 1),
    "max_pool2d?n=2&c=3&h=6&w=4": lambda x: x.reshape(2, 3, 3, 2, 2, 2).max((3, 5)),
    "stencil?m=7&n=6": lambda x: (
        x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    ) / 5,
}  # fmt: skip


def test_every_template_computes_what_its_name_says() -> None:
    assert {name.partition("?")[0] for name in SMALL} == TEMPLATES.keys()
    for name, right in SMALL.items():
        computation = _computation(name)
        inputs = random_inputs(computation)
        exact = right(*(array.astype(np.float64) for array in inputs))
        np.testing.assert_allclose(expect(computation, inputs)[-1].values, exact, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_convolution_has_the_size_that_kernel_and_stride_leave() -> None:
    shapes = _shapes("conv2d?n=2&c=3&h=229&w=224&k=64&r=7&s=5&stride=2")
    assert shapes["Y"] == (2, 64, 112, 110)
    assert shapes["K"] == (64, 3, 7, 5)
    assert shapes["X"] == (2, 3, 229, 223)  # the last column is not read


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("matmul?q=3", "matmul of loops-v0 has no parameter 'q'; it has m, n, k"),
        ("conv2d?strides=2", "conv2d of loops-v0 has no parameter 'strides'; did you mean 'stride'"),
        ("matmul?m=0", "the parameter 'm' cannot be '0'; it is a whole number from 1 to 268435456, by default 512"),
        ("matmul?m=4.5", "the parameter 'm' cannot be '4.5'"),
        ("matmul?m=", "the parameter 'm' cannot be ''"),
        ("matmul?m=1&m=2", "the parameter 'm' is given twice"),
        ("conv2d?h=5&r=6", "r=6 is more than h=5"),
        ("stencil?n=2", "n=2 leaves nothing inside; it is 3 at least"),
    ],
)
def test_bad_parameters_are_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidBenchmarkUri) as caught:
        DATASET[name]
    assert message in str(caught.value)
    parse(DATASET[caught.value.example].content)  # the example is right


def test_unknown_expressions_are_refused_with_those_there_are() -> None:
    with pytest.raises(BenchmarkNotFound, match="has no expression 'matmull'; it has matmul, batch") as caught:
        DATASET["matmull?m=3"]
    assert caught.value.nearest[0] == "generator://loops-v0/matmul"
    with pytest.raises(BenchmarkNotFound):
        DATASET["matmul#1"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_loop_tool_has_sums_of_every_length(device: str) -> None:
    dataset = default_datasets()[f"loop_tool-{device}-v0"]
    assert dataset.size == 8_388_607
    assert [str(uri) for uri in itertools.islice(dataset.benchmark_uris(), 2)] == [
        f"benchmark://loop_tool-{device}-v0/1", f"benchmark://loop_tool-{device}-v0/2",
    ]  # fmt: skip
    assert dataset[-1].content == f"target {device}\nC[i:8388607] = A[i] + B[i]\n".encode()
    assert dataset["4096"].content == f"target {device}\nC[i:4096] = A[i] + B[i]\n".encode()
    drawn = dataset.random_benchmark(random.Random(1))
    assert dataset[dataset.position(drawn.uri)] == drawn


@pytest.mark.parametrize("name", ["0", "8388608", "-1", "1.5", "007", "x", "1?n=2", "1#a", "٣", "1/2", "9" * 50])
def test_other_lengths_are_refused(name: str) -> None:
    with pytest.raises(BenchmarkNotFound, match="numbers of elements, from 1 to 8388607"):
        LoopToolDataset("cpu")[name]


def test_what_draws_programs_from_all_datasets_leaves_them_out() -> None:
    datasets = Datasets([one for one in default_datasets() if one.kind != "program" or one.name == "programs-v0"])
    assert {datasets.random_benchmark(random.Random(n)).uri.dataset for n in range(20)} == {"programs-v0"}
    assert {uri.dataset for uri in datasets.benchmark_uris()} == {"programs-v0"}
    assert {benchmark.uri.dataset for benchmark in datasets.benchmarks()} == {"programs-v0"}
    assert datasets.size == datasets["programs-v0"].size
    assert {dataset.name for dataset in datasets} == {
        "programs-v0", "loops-v0", "loop_tool-cpu-v0", "loop_tool-cuda-v0",
    }  # fmt: skip


def test_expressions_are_drawn_when_they_are_asked_for() -> None:
    datasets, kind = default_datasets(), DATASET.kind
    assert {dataset.name for dataset in datasets.datasets(kind=kind)} == {"loops-v0"}
    assert {datasets.random_benchmark(random.Random(n), kind=kind).uri.dataset for n in range(5)} == {"loops-v0"}
    assert next(datasets.benchmark_uris(kind=kind)).dataset == "loops-v0"
    assert datasets.random_benchmark(weights={"loops-v0": 1e12}).uri.dataset == "loops-v0"
    assert DATASET[3:9].kind == DATASET.shuffled(1).kind == kind


def test_the_page_names_every_template_with_its_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loops_language.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    told = {name: row[2].split() for row in rows for name in re.findall("`(.*?)`", row[1])}
    assert told == {
        name: [f"{key}={parameter.default}" for key, parameter in template.parameters.items()]
        for name, template in TEMPLATES.items()
    }
    assert f"drawn at random, are {DATASET.size} of them" in page
