"""Tensor expressions of any size: texts with parameters."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiocg.datasets.generators.parameters import Integer

__all__ = ["TEMPLATES", "InvalidParameters", "Template"]

LARGEST = 2**28  # of an extent; what is too large together is refused by the compiler

Values = Mapping[str, int]
Derived = Mapping[str, int | str]


class InvalidParameters(ValueError):
    """The values of parameters do not go together."""


class Template(NamedTuple):
    """A family of tensor expressions.

    Attributes:
        description: what is computed, for people.
        text: the expression with parameters in braces.
        parameters: with their defaults, by name.
        sizes: the members that a dataset enumerates, as values of the parameters in their order.
        derive: returns what else is in braces, given the values; raises `InvalidParameters`.
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
        """Return the text of one member.

        Raises:
            InvalidParameters: when the values do not go together.
        """
        return self.text.format_map({**values, **self.derive(values)})


def _template(description: str, text: str, *sizes: tuple[int, ...], derive: Callable[[Values], Derived] | None = None,
              **defaults: int) -> Template:  # fmt: skip
    parameters = {name: Integer(1, LARGEST, default) for name, default in defaults.items()}
    if derive is None:
        return Template(description, text, parameters, sizes)
    return Template(description, text, parameters, sizes, derive)


def _window(values: Values, size: str, kernel: str, stride: int) -> int:
    if values[kernel] > values[size]:
        raise InvalidParameters(f"{kernel}={values[kernel]} is more than {size}={values[size]}")
    return (values[size] - values[kernel]) // stride + 1


def _windows(values: Values, rows: str, columns: str, stride: int) -> Derived:
    """Return how many windows there are in an image, and what their number is multiplied by for the place of one."""
    return {
        "y": _window(values, "h", rows, stride),
        "x": _window(values, "w", columns, stride),
        "by": "" if stride == 1 else f"{stride}*",
    }


def _convolution(values: Values) -> Derived:
    return _windows(values, "r", "s", values["stride"])


def _pooling(values: Values) -> Derived:
    return _windows(values, "r", "r", values["stride"])


def _stencil(values: Values) -> Derived:
    for name in ("m", "n"):
        if values[name] < 3:
            raise InvalidParameters(f"{name}={values[name]} leaves nothing inside; it is 3 at least")
    return {"y": values["m"] - 2, "x": values["n"] - 2}


_VECTORS = *((2**power,) for power in range(10, 25, 2)), (1000,), (99_991,)
_MATRICES = ((64, 1024), (512, 512), (1024, 1024), (2048, 4096), (100, 1000), (997, 1009))

TEMPLATES: Mapping[str, Template] = {
    "matmul": _template(
        "the product of two matrices",
        "C[i:{m}, j:{n}] = sum(k:{k}) A[i, k] * B[k, j]\n",
        (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (127, 129, 131),
        (1, 1024, 1024), (1000, 16, 1000), (32, 32, 4096), (512, 2048, 64),
        m=512, n=512, k=512,
    ),
    "batch_matmul": _template(
        "products of two matrices each",
        "C[b:{b}, i:{m}, j:{n}] = sum(k:{k}) A[b, i, k] * B[b, k, j]\n",
        (8, 64, 64, 64), (16, 128, 128, 128), (12, 197, 197, 64),
        b=16, m=128, n=128, k=128,
    ),
    "matvec": _template(
        "the product of a matrix and a vector",
        "Y[i:{m}] = sum(k:{k}) A[i, k] * X[k]\n",
        (256, 256), (1024, 1024), (4096, 4096), (1000, 3001),
        m=1024, k=1024,
    ),
    "linear": _template(
        "a layer of a network: a product of matrices, a bias, and what is negative set to 0",
        "C[i:{m}, j:{n}] = sum(k:{k}) A[i, k] * B[k, j]\n"
        "Y[i:{m}, j:{n}] = max(C[i, j] + D[j], 0)\n",
        (64, 256, 256), (128, 1024, 1024), (32, 1000, 512),
        m=128, n=512, k=512,
    ),
    "add": _template("the sum of two vectors", "C[i:{n}] = A[i] + B[i]\n", *_VECTORS, n=2**20),
    "copy": _template("a copy of a vector", "C[i:{n}] = A[i]\n", *_VECTORS, n=2**20),
    "relu": _template(
        "a matrix with what is negative set to 0", "Y[i:{m}, j:{n}] = max(X[i, j], 0)\n", *_MATRICES, m=1024, n=1024
    ),
    "bias": _template(
        "a vector added to each row of a matrix", "Y[i:{m}, j:{n}] = X[i, j] + B[j]\n", *_MATRICES, m=1024, n=1024
    ),
    "transpose": _template(
        "a matrix with rows and columns exchanged", "Y[j:{n}, i:{m}] = X[i, j]\n", *_MATRICES, m=1024, n=1024
    ),
    "sum": _template(
        "the sum of each row of a matrix", "S[i:{m}] = sum(j:{n}) X[i, j]\n", *_MATRICES, (1, 2**20), m=1024, n=1024
    ),
    "column_sum": _template(
        "the sum of each column of a matrix", "S[j:{n}] = sum(i:{m}) X[i, j]\n", *_MATRICES, m=1024, n=1024
    ),
    "max": _template(
        "the greatest number of each row of a matrix", "S[i:{m}] = max(j:{n}) X[i, j]\n", *_MATRICES, m=1024, n=1024
    ),
    "softmax": _template(
        "the softmax of each row of a matrix",
        "M[i:{m}] = max(j:{n}) X[i, j]\n"
        "E[i:{m}, j:{n}] = exp(X[i, j] - M[i])\n"
        "S[i:{m}] = sum(j:{n}) E[i, j]\n"
        "Y[i:{m}, j:{n}] = E[i, j] / S[i]\n",
        *_MATRICES,
        m=64, n=1000,
    ),
    "layer_norm": _template(
        "each row of a matrix, shifted and scaled to mean 0 and variance 1",
        "S[i:{m}] = sum(j:{n}) X[i, j]\n"
        "D[i:{m}, j:{n}] = X[i, j] - S[i] / {n}\n"
        "V[i:{m}] = sum(j:{n}) D[i, j] * D[i, j]\n"
        "Y[i:{m}, j:{n}] = D[i, j] / sqrt(V[i] / {n} + 1e-05)\n",
        *_MATRICES,
        m=64, n=1000,
    ),
    "conv2d": _template(
        "the convolution of images with filters, without padding",
        "Y[b:{n}, f:{k}, y:{y}, x:{x}] = sum(c:{c}, r:{r}, s:{s}) X[b, c, {by}y + r, {by}x + s]"
        " * K[f, c, r, s]\n",
        (1, 64, 58, 58, 64, 3, 3, 1), (1, 3, 229, 229, 64, 7, 7, 2), (1, 256, 14, 14, 1024, 1, 1, 1),
        (1, 128, 57, 57, 128, 3, 3, 2), (8, 16, 32, 32, 32, 5, 5, 1), (1, 1, 100, 101, 1, 3, 3, 1),
        n=1, c=64, h=58, w=58, k=64, r=3, s=3, stride=1,
        derive=_convolution,
    ),
    "depthwise_conv2d": _template(
        "the convolution of each channel of images with a filter of its own, without padding",
        "Y[b:{n}, c:{c}, y:{y}, x:{x}] = sum(r:{r}, s:{s}) X[b, c, {by}y + r, {by}x + s] * K[c, r, s]\n",
        (1, 32, 114, 114, 3, 3, 1), (1, 144, 57, 57, 3, 3, 2), (8, 16, 33, 35, 5, 3, 1),
        n=1, c=32, h=114, w=114, r=3, s=3, stride=1,
        derive=_convolution,
    ),
    "max_pool2d": _template(
        "the greatest number of each square window of images",
        "Y[b:{n}, c:{c}, y:{y}, x:{x}] = max(r:{r}, s:{r}) X[b, c, {by}y + r, {by}x + s]\n",
        (1, 64, 112, 112, 2, 2), (8, 16, 57, 57, 3, 2),
        n=1, c=64, h=112, w=112, r=2, stride=2,
        derive=_pooling,
    ),
    "stencil": _template(
        "the mean of each element inside a matrix and its four neighbours",
        "Y[y:{y}, x:{x}] = 0.2 * (X[y + 1, x + 1] + X[y, x + 1] + X[y + 2, x + 1] + X[y + 1, x] + X[y + 1, x + 2])\n",
        *_MATRICES,
        m=1024, n=1024,
        derive=_stencil,
    ),
}  # fmt: skip
"""The families by name."""
