"""The programs that are measured: from the embedded dataset, and a generated one that is larger than any of these."""

import random
from collections.abc import Iterator, Sequence

SMALLEST = "programs-v0/gcd"
USUAL = "programs-v0/qsort"
LARGEST = "programs-v0/lisp"
SEVERAL = (USUAL, "programs-v0/crc32", "programs-v0/sha256", "programs-v0/regex")

PASSES = (
    *("mem2reg", "sroa", "early-cse", "instcombine", "simplifycfg", "gvn", "licm", "loop-rotate", "indvars", "dce"),
    *("adce", "sccp", "ipsccp", "reassociate", "jump-threading", "inline", "globalopt", "dse", "newgvn", "loop-unroll"),
)
"""Passes that every libLLVM has and that often change something."""

GENERATED_FUNCTIONS = 360  # about 40,000 instructions

_FUNCTION = """
unsigned f{index}(unsigned *a, unsigned n) {{
  unsigned s = {index}u, t[4] = {{1, 2, 3, 4}};
  for (unsigned i = 0; i < n; i++) {{
    if (a[i] & {mask}u) s += a[i] * {factor}u;
    else s ^= a[i] >> {shift};
    switch (s % 5) {{
      case 0: t[i & 3] += s; break;
      case 1: t[0] -= t[1]; break;
      case {case}: s += {call}; break;
    }}
    a[i] = s + t[(s + {shift}) & 3];
  }}
  return s < a[0] ? s : a[0] + t[3];
}}
"""


def generated_source(functions: int = GENERATED_FUNCTIONS) -> str:
    """Return a C program of many small functions, each another than the rest; the same one every time."""
    random_numbers = random.Random(functions)
    parts = []
    for index in range(functions):
        call = f"f{random_numbers.randrange(index)}(a, i & 1)" if index else "1u"
        numbers = {name: random_numbers.randrange(1, 31) for name in ("mask", "factor", "shift")}
        parts.append(_FUNCTION.format(index=index, call=call, case=random_numbers.randrange(2, 5), **numbers))
    last = functions - 1
    parts.append(f"int main(void) {{ unsigned a[8] = {{0}}; return (int)f{last}(a, 8); }}\n")
    return "".join(parts)


def shuffles(actions: Sequence[str], seed: int) -> Iterator[str]:
    """Give the actions in one random order after another, without end."""
    random_numbers = random.Random(seed)
    while True:
        yield from random_numbers.sample(actions, len(actions))
