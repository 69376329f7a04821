"""Neighbouring elements are copied, read and stored several at once, where they lie as vectors do, and only there."""

import re
from typing import Any

import pytest

from aiocg.workers.loops._schedule import Schedule

from . import cuda_schedules as written
from .emulation import check

THREADS = """
    split<loop=1;factor=16> split<loop=2;factor=8> bind<loop=0;to=block.x> bind<loop=1;to=thread.x> unroll<loop=3>
"""
FUSED = """
    fuse<loop=0> split<loop=0;factor=32> split<loop=1;factor=4> bind<loop=0;to=block.x> bind<loop=1;to=thread.x>
"""
CASES = {  # what is computed and how, and the vectors
    "whole vectors": ("C[i:3, j:64] = A[i, j] + B[j]", THREADS, ["A", "B", "C"]),
    "a remainder of whole vectors": ("C[i:3, j:44] = A[i, j] + B[j]", THREADS, ["A", "B", "C"]),
    "a remainder of halves": ("C[i:3, j:46] = A[i, j] + B[j]", THREADS, ["A", "B", "C"]),
    "a remainder of single elements": ("C[i:3, j:45] = A[i, j] + B[j]", THREADS, []),
    "a column": ("C[i:3, j:44] = A[j, i] * 2", THREADS, ["C"]),
    "one element for all": ("C[i:3, j:44] = A[i] * 2", THREADS, ["C"]),
    "shifted by a vector": ("C[i:3, j:44] = A[i, j + 4]", THREADS, ["A", "C"]),
    "shifted by half a vector": ("C[i:3, j:44] = A[i, j + 2]", THREADS, ["C"]),
    "backwards": ("C[i:3, j:44] = A[i, 43 - j]", THREADS, ["C"]),
    "every other element": ("C[i:3, j:44] = A[i, 2*j]", THREADS, ["C"]),
    "fused rows": ("C[i:3, j:44] = A[i, j] + B[j]", FUSED, ["A", "B", "C"]),
    "fused rows, a remainder of halves": ("C[i:3, j:46] = A[i, j] * 2", FUSED, ["A", "C"]),
    "fused rows of an odd length": ("C[i:4, j:43] = A[i, j] * 2", FUSED, []),
    "fused rows, read backwards": ("C[i:4, j:44] = A[3 - i, j] + A[i, 43 - j]", FUSED, ["A", "C"]),
    "fused rows, transposed": ("C[i:4, j:44] = A[j, i]", FUSED, ["C"]),
    "fused rows of a fused block": (
        "C[i:3, j:4, k:12] = A[i, j, k] + B[k] + D[j, k]",
        "fuse<loop=0> " + FUSED,
        ["A", "B", "C", "D"],
    ),
    "rows of an odd length": ("C[i:3, j:44] = A[i, j] + A[i, j + 1]", THREADS, ["C"]),
}


def scheduled(name: str) -> Schedule:
    text, steps, _ = CASES[name]
    return written.scheduled(text, steps)  # type: ignore[no-any-return]


def vectors(schedule: Schedule) -> list[str]:
    """Return the tensors that are accessed by vectors."""
    return sorted(set(re.findall(r"\*\((?:const )?float[24] \*\)&(\w+)\[", written.program(schedule).source)))


@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_vectors_where_they_lie_as_vectors_do(name: str) -> None:
    assert vectors(scheduled(name)) == CASES[name][2]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_vectors_hold_what_their_elements_do(emulator: Any, name: str) -> None:
    check(emulator, scheduled(name))


@pytest.mark.parametrize(
    ("columns", "depth", "found"),
    [(16, 16, ["A", "A_tile", "B", "B_tile", "C"]), (18, 13, ["B", "B_tile", "C"]), (17, 12, ["A", "A_tile"])],
)
def test_tiles_are_copied_by_vectors_where_rows_are_made_of_them(columns: int, depth: int, found: list[str]) -> None:
    assert vectors(written.register_matmul(21, columns, depth, tile=8, each=2, depth=4)) == found


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("columns", "depth"), [(16, 16), (18, 13), (17, 12), (14, 10)])
def test_copies_by_vectors_fill_tiles(emulator: Any, columns: int, depth: int) -> None:
    check(emulator, written.register_matmul(21, columns, depth, tile=8, each=2, depth=4))
