"""`loops-v0`, tensor expressions of many shapes and sizes, and `loop_tool`'s sums of two vectors."""

import difflib
import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.generators.seeded import Integer, read_parameters
from aiocg.datasets.uri import BenchmarkUri

LARGEST = 2**28  # of an extent; what is too large together is refused by the compiler

Values = Mapping[str, int]
Derived = Mapping[str, int | str]


class _InvalidParameters(ValueError):
    """The values of parameters are inconsistent."""


class _Template(NamedTuple):
    """A family of tensor expressions.

    Attributes:
        text: the expression with parameters in braces.
        sizes: the enumerated members, as values of the parameters in order.
        derive: computes the other placeholders from the values; raises `_InvalidParameters`.
    """

    description: str
    text: str
    parameters: Mapping[str, Integer]
    sizes: tuple[tuple[int, ...], ...]
    derive: Callable[[Values], Derived] = lambda values: {}

    def values(self, given: Values) -> dict[str, int]:
        """Return the values of all parameters, of which some are given."""
        defaults = {name: parameter.default or parameter.low for name, parameter in self.parameters.items()}
        return {**defaults, **given}

    def write(self, values: Values) -> str:
        """Return the text of one member; raise _InvalidParameters when the values do not go together."""
        return self.text.format_map({**values, **self.derive(values)})


def _window(values: Values, size: str, kernel: str, stride: int) -> int:
    if values[kernel] > values[size]:
        raise _InvalidParameters(f"{kernel}={values[kernel]} is more than {size}={values[size]}")
    return (values[size] - values[kernel]) // stride + 1


def _windows(values: Values, rows: str, columns: str) -> Derived:
    """Return the number of windows in an image along each axis, and the text of the stride."""
    stride = values["stride"]
    y, x = _window(values, "h", rows, stride), _window(values, "w", columns, stride)
    return {"y": y, "x": x, "by": "" if stride == 1 else f"{stride}*"}


def _stencil(values: Values) -> Derived:
    for name in ("m", "n"):
        if values[name] < 3:
            raise _InvalidParameters(f"{name}={values[name]} leaves nothing inside; it is 3 at least")
    return {"y": values["m"] - 2, "x": values["n"] - 2}


_DERIVED: Mapping[str, Callable[[Values], Derived]] = {
    "convolution": functools.partial(_windows, rows="r", columns="s"),
    "pooling": functools.partial(_windows, rows="r", columns="r"),
    "stencil": _stencil,
}


def _template(known: Mapping[str, Any]) -> _Template:
    parameters = {name: Integer(1, LARGEST, default) for name, default in known["defaults"].items()}
    sizes = tuple(map(tuple, known["sizes"]))
    derived = [_DERIVED[known["derive"]]] if "derive" in known else []
    return _Template(known["description"], known["text"], parameters, sizes, *derived)


_FILE = Path(__file__).with_name("templates.toml")

TEMPLATES = {name: _template(known) for name, known in tomllib.loads(_FILE.read_text("utf-8")).items()}
"""The families by name."""


KIND = "tensor expression"
"""The `Dataset.kind` of datasets whose benchmarks are texts in the language of tensor expressions."""


def expression_benchmark(uri: BenchmarkUri, text: str, description: str) -> Benchmark:
    """Make a benchmark of the text of a tensor expression."""
    content = text.encode()
    sources = (BenchmarkSource("expression.txt", content),)
    return Benchmark(uri, lambda: content, sources=lambda: sources, description=description)


class LoopNestsDataset(Dataset):
    """Tensor expressions for the compiler of loop nests, made of templates.

    `generator://loops-v0/matmul?m=512&n=512&k=512` is one; a parameter that is left out has its default. There are as
    many as there are sizes. Enumerated, and drawn from, are some of each template.
    """

    def __init__(self) -> None:
        about = "tensor expressions of any size: products of matrices, convolutions, softmax, sums and others"
        super().__init__("generator://loops-v0", about, license="MIT", sort_order=20, kind=KIND)

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate some members of each template."""
        for name, template in TEMPLATES.items():
            for values in template.sizes:
                given = zip(template.parameters, map(str, values), strict=True)
                yield BenchmarkUri(self.scheme, self.name, name, tuple(given))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the expression of a template, enumerated or not."""
        template = TEMPLATES.get(uri.path)
        if template is None or uri.fragment:
            rest = uri.path + (f"#{uri.fragment}" if uri.fragment else "")
            near = difflib.get_close_matches(uri.path, TEMPLATES, n=3)
            reason = f"{self.name} has no expression {rest!r}; it has {', '.join(TEMPLATES)}"
            raise BenchmarkNotFound(str(uri), reason, [f"{self.root}/{name}" for name in near])
        example = BenchmarkUri(self.scheme, self.name, uri.path)
        given = read_parameters(uri, f"{uri.path} of {self.name}", template.parameters, example)
        values = template.values({name: int(value) for name, value in given.items()})
        try:
            text = template.write(values)
        except _InvalidParameters as error:
            raise InvalidBenchmarkUri(str(uri), str(error), str(example)) from None
        return expression_benchmark(uri, text, template.description)


LOOP_TOOL_KIND = "loop_tool expression"
"""The `Dataset.kind` of these datasets."""

MOST_ELEMENTS = 8 * 1024 * 1024 - 1  # elements

_NUMBER = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)


class LoopToolDataset(Dataset):
    """Sums of two vectors of N elements: `benchmark://loop_tool-cpu-v0/4096` is one of 4096, for the processor.

    The content is a line that names the device, and the expression.
    """

    def __init__(self, device: Literal["cpu", "cuda"]) -> None:
        where = {"cpu": "the processor", "cuda": "a GPU"}[device]
        super().__init__(
            f"benchmark://loop_tool-{device}-v0",
            f"sums of two vectors of any length, on {where}",
            license="MIT",
            references={"loop_tool": "https://github.com/facebookresearch/loop_tool"},
            sort_order=20,
            kind=LOOP_TOOL_KIND,
        )
        self.device = device

    @property
    def size(self) -> int:
        """How many lengths there are."""
        return MOST_ELEMENTS

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate them from the shortest to the longest."""
        return map(self.uri_at, range(MOST_ELEMENTS))

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the name of the one of `index` + 1 elements; raise IndexError when there is none."""
        if not 0 <= index < MOST_ELEMENTS:
            raise IndexError(f"{self.name} has no benchmark number {index}")
        return BenchmarkUri(self.scheme, self.name, str(index + 1))

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of elements less one; raise BenchmarkNotFound when it is not one of the names."""
        return self._elements(uri) - 1

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of a number of elements; raise BenchmarkNotFound when there is none."""
        elements = self._elements(uri)
        text = f"target {self.device}\nC[i:{elements}] = A[i] + B[i]\n"
        return expression_benchmark(uri, text, f"the sum of two vectors of {elements:,} elements")

    def _elements(self, uri: BenchmarkUri) -> int:
        plain = (uri.scheme, uri.dataset, uri.params, uri.fragment) == (self.scheme, self.name, (), "")
        if not plain or not _NUMBER.fullmatch(uri.path) or int(uri.path) > MOST_ELEMENTS:
            rest = str(uri).removeprefix(f"{self.root}/")
            reason = f"{self.name} has no benchmark {rest!r}: names are numbers of elements, from 1 to {MOST_ELEMENTS}"
            raise BenchmarkNotFound(str(uri), reason, [f"{self.root}/1", f"{self.root}/1024"])
        return int(uri.path)
