"""Differential test of builds: generated projects must do the same after their images are shrunk.

    python -m bench.fuzz.builds --count 5000            # some hours; one line for each difference
    python -m bench.fuzz.builds --first 1234 --count 1 --keep /tmp/1234

A project has two to five units in C, C++ or assembly, and features from the table: attributes, pragmas, options,
sections, symbols, archives, shared libraries, words for the linker, and ways in which builds call compilers. All
is drawn from the seed. It is built once and recorded; then its images are made again by clang and by GCC with other
options, and each time the programs must print what they printed before, or the image must have been left alone.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from bench.fuzz.builds.comparison import compare, differing, generate


def main() -> int:
    """Compare many projects, and return 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz.builds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="of projects")
    parser.add_argument("--keep", type=Path, help="a new folder in which the only project is left")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True)
        print(f"features: {', '.join(generate(arguments.first)[3])}")
        print(compare(arguments.first, arguments.keep.resolve()))
        return 0
    tally: Counter[str] = Counter()
    failed = 0
    for seed, text in differing(range(arguments.first, arguments.first + arguments.count), tally):
        failed += 1
        print(f"== {seed}: {', '.join(generate(seed)[3])}: {text}", flush=True)
    print(f"{arguments.count} projects, {tally.pop('built')} built; replaced: {dict(tally)}; {failed} differences")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
