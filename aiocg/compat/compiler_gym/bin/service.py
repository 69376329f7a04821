"""Describe an environment: its datasets, observations, rewards and actions, as tables of reStructuredText.

python -m aiocg.compat -m compiler_gym.bin.service --env=<id>
python -m aiocg.compat -m compiler_gym.bin.service --ls_env
"""

import sys
from collections.abc import Iterable
from typing import Any

from aiocg.compat.command_flags import FLAGS, UsageError, define, run
from aiocg.compat.compiler_gym.errors import DatasetInitError, DownloadFailed
from aiocg.compat.compiler_gym.spaces import Commandline, NamedDiscrete
from aiocg.compat.compiler_gym.util.flags.env_from_flags import env_from_flags
from aiocg.compat.compiler_gym.util.tabulate import tabulate
from aiocg.compat.compiler_gym.util.truncate import truncate

__all__ = ["header", "main", "print_service_capabilities", "shape2str", "summarize_datasets"]

define("string", "heading_underline_char", "-", "What headings are underlined with.")
define("integer", "run_on_port", None, "Serve an environment on a port; aiocg has no services of this kind.")


def header(message: str) -> str:
    """Return a heading."""
    character = FLAGS.heading_underline_char
    return f"\n\n{message}\n{character * (len(message) // len(character))}\n"


def shape2str(shape: object, n: int = 80) -> str:
    """Return the text of a space, cut to so many characters."""
    text = str(shape)
    return f"`{text[: n - 4]}` ..." if len(text) > n else f"`{text}`"


def summarize_datasets(datasets: Iterable[Any]) -> str:
    """Return a table of datasets."""
    rows, total = [], 0
    for dataset in sorted(datasets, key=lambda one: one.name):
        try:
            size = dataset.size
            total += size
            shown = f"{size:,d}" if size > 0 else "∞"
        except (DatasetInitError, DownloadFailed):
            shown = "unknown"
        links = ", ".join(f"`{name} <{url}>`__" for name, url in sorted(dataset.references.items()))
        description = truncate(dataset.description, max_line_len=60) + (f" [{links}]" if links else "")
        rows.append((dataset.name, shown, description, dataset.validatable))
    rows.append(("Total", f"{total:,d}", "", ""))
    table = tabulate(rows, headers=("Dataset", "Num. Benchmarks [#f1]_", "Description", "Validatable [#f2]_"))
    return f"""{table}

.. [#f1] Values obtained on {sys.platform}.
.. [#f2] Whether the programs can be run, and what they do be compared with what they should do.
"""


def print_service_capabilities(env: Any) -> None:
    """Print what an environment has."""
    print(header("Datasets"))
    print(summarize_datasets(env.datasets))
    print(header("Observation Spaces"))
    spaces = sorted(env.observation.spaces.items())
    rows: list[tuple[Any, ...]] = [(name, f"`{truncate(spec.space, max_line_len=80)}`") for name, spec in spaces]
    print(tabulate(rows, headers=("Observation space", "Shape")))
    print(header("Reward Spaces"))
    rows = [
        (
            name,
            space.range,
            space.success_threshold,
            "Yes" if space.deterministic else "No",
            "Yes" if space.platform_dependent else "No",
        )
        for name, space in sorted(env.reward.spaces.items())
    ]
    titles = ("Reward space", "Range", "Success threshold", "Deterministic?", "Platform dependent?")
    print(tabulate(rows, headers=titles))
    for action_space in env.action_spaces:
        print(header(f"{action_space.name} Action Space"))
        space = getattr(action_space, "wrapped", action_space)
        if isinstance(space, Commandline):
            rows = [(f"`{name}`", text) for name, text in zip(space.names, space.descriptions, strict=True)]
            print(tabulate(rows, headers=("Action", "Description")))
        elif isinstance(space, NamedDiscrete):
            print(tabulate([(name,) for name in sorted(space.names)], headers=("Action",)))
        else:
            print(f'Action space "{action_space}" is not supported.')


def main(argv: list[str]) -> None:
    """Do what the command line says."""
    if len(argv) != 1:
        raise UsageError(f"Unrecognized flags: {argv[1:]}")
    if FLAGS.run_on_port:
        raise UsageError("--run_on_port: aiocg starts its workers itself, and has no service for CompilerGym's clients")
    with env_from_flags() as env:
        print_service_capabilities(env)


if __name__ == "__main__":
    run(main)
