"""What words may become: suggestions for each kind of argument. They look at nothing that would have to be fetched."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from aiocg.datasets.files import SUFFIXES
from aiocg.registry import environments
from aiocg.shell.command import Suggestion

if TYPE_CHECKING:
    from aiocg.shell.interpreter import Shell

__all__ = [
    "MOST",
    "action_spaces",
    "actions",
    "benchmarks",
    "commands",
    "datasets",
    "environment_ids",
    "matching",
    "observation_spaces",
    "paths",
    "programs",
    "reward_spaces",
]

MOST = 200  # suggestions at once
LOOKED_AT = 5_000  # names of a dataset that are looked through: some have a million


def matching(word: str, candidates: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the candidates that a word begins, then those that it is a part of; case does not matter."""
    wanted = word.lower()
    found = [one for one in candidates if wanted in one.text.lower()]
    found.sort(key=lambda one: not one.text.lower().startswith(wanted))
    return found[:MOST]


def commands(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest commands."""
    return (Suggestion(command.name, command.summary) for command in shell.table)


def actions(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest actions of the action space, for each target where it has targets."""
    space = shell.session.env.action_space
    names, descriptions = space.names, space.descriptions
    if not names:  # any text: those that have a name
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


def observation_spaces(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest observation spaces."""
    return (Suggestion(space.name, space.description) for space in shell.session.env.observation_spaces.values())


def reward_spaces(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest reward spaces."""
    return (Suggestion(reward.name, reward.description) for reward in shell.session.env.reward_spaces.values())


def action_spaces(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest action spaces."""
    return (Suggestion(space.name, space.description) for space in shell.session.env.action_spaces.values())


def environment_ids(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest ids of environments."""
    return (Suggestion(spec.id, spec.description) for spec in environments().values())


def datasets(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest datasets."""
    return (Suggestion(dataset.name, dataset.description) for dataset in shell.session.runtime.datasets.datasets())


def benchmarks(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest datasets, and programs of the one that is named; of those that are installed."""
    scheme, mark, rest = word.rpartition("://")
    name, slash, _ = rest.partition("/")
    known = shell.session.runtime.datasets
    if not slash:
        for dataset in known.datasets(kind=shell.session.env.spec.kind):
            if not mark or dataset.scheme == scheme:
                yield Suggestion(f"{scheme}{mark}{dataset.name}/", dataset.description)
    elif name in known and (dataset := known[name]).installed:
        for uri in islice(dataset.benchmark_uris(), LOOKED_AT if dataset.size else MOST):
            text = str(uri)
            yield Suggestion(text if mark else text.partition("://")[2])


def programs(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest what can be the program: one of a dataset, or a file."""
    if not word.startswith(("/", "./", "../", "~")):
        yield from benchmarks(shell, word)
    if "://" not in word:
        yield from (one for one in paths(shell, word) if one.text.endswith(("/", *SUFFIXES)))


def paths(shell: "Shell", word: str) -> Iterator[Suggestion]:
    """Suggest files and folders."""
    folder, slash, _ = word.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(f"{folder}{slash}") or ".") as found:
            for entry in sorted(islice(found, LOOKED_AT), key=lambda one: one.name):
                if not entry.name.startswith(".") or word.rpartition("/")[2].startswith("."):
                    yield Suggestion(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    except OSError:
        return
