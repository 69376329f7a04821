"""Describe an environment: print its datasets, observations, rewards and actions as reStructuredText tables.

python -m aiocg.compat -m compiler_gym.bin.service --env=<id>
python -m aiocg.compat -m compiler_gym.bin.service --ls_env
"""

import sys
from collections.abc import Iterable
from typing import Any

from absl.app import UsageError
from absl.flags import FLAGS

from aiocg.compat._errors import DatasetInitError, DownloadFailed
from aiocg.compat.programs._flags import define, define_shared, env_from_flags, no_arguments, run
from aiocg.compat.spaces._actions import Commandline, NamedDiscrete
from aiocg.compat.tools._text import tabulate, truncate

define_shared("env_from_flags")

define("string", "heading_underline_char", "-", "The character to underline headings with.")
define("integer", "run_on_port", None, "Not supported: serve an environment on this port.")


def header(message: str) -> str:
    """Format a heading."""
    character = FLAGS.heading_underline_char
    return f"\n\n{message}\n{character * (len(message) // len(character))}\n"


def summarize_datasets(datasets: Iterable[Any]) -> str:
    """Format a table of datasets."""
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
.. [#f2] Whether the programs can be run and their behaviour checked.
"""


def print_service_capabilities(env: Any) -> None:
    """Print the description of an environment."""
    print(header("Datasets"))
    print(summarize_datasets(env.datasets))
    print(header("Observation Spaces"))
    spaces = sorted(env.observation.spaces.items())
    rows: list[tuple[Any, ...]] = [(name, f"`{truncate(spec.space, max_line_len=80)}`") for name, spec in spaces]
    print(tabulate(rows, headers=("Observation space", "Shape")))
    print(header("Reward Spaces"))
    rows = [
        (name, one.range, one.success_threshold, *(("No", "Yes")[is_so] for is_so in flags))
        for name, one in sorted(env.reward.spaces.items())
        for flags in [(one.deterministic, one.platform_dependent)]
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
    """Run the program."""
    no_arguments(argv)
    if FLAGS.run_on_port:
        raise UsageError("--run_on_port is not supported: aiocg does not serve CompilerGym's clients")
    with env_from_flags() as env:
        print_service_capabilities(env)


if __name__ == "__main__":
    run(main)
