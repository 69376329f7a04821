"""Small programs for GCC."""

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.source_tree import SourceTree

__all__ = ["ADD", "GREET", "LOOP", "program"]

LOOP = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n; return s; }\n"
GREET = b"""#include <stdio.h>
extern "C" int add(int, int);
int main() { int *sum = new int(add(1, 2)); printf("three %d\\n", *sum); delete sum; }
"""  # which needs the library of C++
ADD = b"int add(int new, int class) { return new + class; }\n"  # which is no C++


def program(*units: str, **files: str) -> Benchmark:
    """Return a benchmark of C files, the first of which is `program.c`."""
    texts = {"program.c": units[0], **{f"unit{index}.c": text for index, text in enumerate(units[1:], 1)}}
    contents = {name: text.encode() for name, text in {**texts, **files}.items()}
    tree = SourceTree(tuple(texts), contents)
    return Benchmark("benchmark://written-v0/program", tree.encode, source_tree=lambda: tree)
