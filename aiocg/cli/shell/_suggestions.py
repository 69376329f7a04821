"""Suggestions for each kind of argument, without fetching anything."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from aiocg.cli.shell._command import Complete, Context, Suggestion
from aiocg.datasets.program_file import SUFFIXES
from aiocg.registry import environments

MOST = 200  # suggestions at once
LOOKED_AT = 5_000  # names of a dataset that are searched: some have a million


def matching(word: str, candidates: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the candidates that begin with a word, then those that contain it, ignoring case."""
    wanted = word.lower()
    found = [one for one in candidates if wanted in one.text.lower()]
    found.sort(key=lambda one: not one.text.lower().startswith(wanted))
    return found[:MOST]


def _described(of: Callable[[Context], Iterable[Any]]) -> Complete:
    return lambda shell, word: (Suggestion(one.name, one.description) for one in of(shell))


action_spaces = _described(lambda shell: shell.session.env.action_spaces.values())
observation_spaces = _described(lambda shell: shell.session.env.observation_spaces.values())
reward_spaces = _described(lambda shell: shell.session.env.reward_spaces.values())
datasets = _described(lambda shell: shell.session.runtime.datasets.datasets())


def commands(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest commands."""
    return (Suggestion(command.name, command.summary) for command in shell.table)


def environment_ids(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest ids of environments."""
    return (Suggestion(spec.id, spec.description) for spec in environments().values())


def actions(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest actions of the action space, for each target if it has targets."""
    space = shell.session.env.action_space
    names, descriptions = space.names, space.descriptions
    if not names:  # any text: the named ones
        names = space.language.names
        descriptions = tuple(action.description for action in space.language.actions)
    before = ""
    if space.targets_from:
        before = word[: word.rfind("(") + 1]
        if not before:
            yield from (Suggestion(f"{target}(", space.targets_from) for target in space.targets or ())
            return
    after = ")" if before else ""
    for name, description in zip(names, descriptions, strict=True):
        yield Suggestion(f"{before}{name}{after}", description)


def programs(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest programs: of a dataset, or files."""
    if not word.startswith(("/", "./", "../", "~")):
        yield from _benchmarks(shell, word)
    if "://" not in word:
        yield from (one for one in paths(shell, word) if one.text.endswith(("/", *SUFFIXES)))


def _benchmarks(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest datasets, and programs of the named one if installed."""
    scheme, mark, rest = word.rpartition("://")
    name, slash, _ = rest.partition("/")
    known = shell.session.runtime.datasets
    if not slash:
        for dataset in known.datasets(kind=shell.session.env.spec.kind):
            if not mark or dataset.scheme == scheme:
                yield Suggestion(f"{scheme}{mark}{dataset.name}/", dataset.description)
    elif name in known and (dataset := known[name]).installed:
        for uri in islice(dataset.benchmark_uris(), LOOKED_AT if dataset.size else MOST):
            yield Suggestion(str(uri) if mark else str(uri).partition("://")[2])


def paths(shell: Context, word: str) -> Iterator[Suggestion]:
    """Suggest files and folders."""
    folder, slash, begun = word.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(f"{folder}{slash}") or ".") as found:
            for entry in sorted(islice(found, LOOKED_AT), key=lambda one: one.name):
                if not entry.name.startswith(".") or begun.startswith("."):
                    yield Suggestion(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    except OSError:
        return
