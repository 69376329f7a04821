"""`loops-v0`: tensor expressions of many shapes and sizes, such as products of matrices, convolutions and softmax."""

import difflib
from collections.abc import Iterator

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.generators.seeded import read_parameters
from aiocg.datasets.loop_nests.templates import TEMPLATES, InvalidParameters
from aiocg.datasets.uri import BenchmarkUri

KIND = "tensor expression"
"""The `Dataset.kind` of datasets whose benchmarks are texts in the language of tensor expressions."""


def expression_benchmark(uri: BenchmarkUri, text: str, description: str) -> Benchmark:
    """Make a benchmark of the text of a tensor expression."""
    content = text.encode()
    return Benchmark(
        uri, lambda: content, sources=lambda: [BenchmarkSource("expression.txt", content)], description=description
    )


class LoopNestsDataset(Dataset):
    """Tensor expressions for the compiler of loop nests, made of templates.

    `generator://loops-v0/matmul?m=512&n=512&k=512` is one; a parameter that is left out has its default. There are as
    many as there are sizes. Enumerated, and drawn from, are some of each template.
    """

    def __init__(self) -> None:
        super().__init__(
            "generator://loops-v0",
            "tensor expressions of any size: products of matrices, convolutions, softmax, sums and others",
            license="MIT",
            sort_order=20,
            kind=KIND,
        )

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
        except InvalidParameters as error:
            raise InvalidBenchmarkUri(str(uri), str(error), str(example)) from None
        return expression_benchmark(uri, text, template.description)
