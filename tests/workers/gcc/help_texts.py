"""What real compilers say of their options: Debian's, one of each version, in the folder `help`.

`python -P tests/workers/gcc/help_texts.py gcc-12` writes the file of another one.
"""

import json
import lzma
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent / "help"
QUESTIONS = ("--version", "--help=optimizers -Q", "--help=optimizers", "--help=params -Q", "--help=params")
VERSIONS = ("gcc-9", "gcc-10", "gcc-11", "gcc-12", "gcc-13", "gcc-14", "gcc-15")


def texts(version: str) -> dict[str, str]:
    """Return what a compiler answers to each of `QUESTIONS`."""
    with lzma.open(FOLDER / f"{version}.json.xz") as file:
        answers = json.load(file)
    assert isinstance(answers, dict)
    return answers


def _record(compiler: str) -> None:
    answers = {
        question: subprocess.run([compiler, *question.split()], capture_output=True, text=True, check=True).stdout
        for question in QUESTIONS
    }
    major = answers["--version"].partition("\n")[0].split()[-1].partition(".")[0]
    with lzma.open(FOLDER / f"gcc-{major}.json.xz", "wt") as file:
        json.dump(answers, file, indent=1)


if __name__ == "__main__":
    _record(sys.argv[1])
