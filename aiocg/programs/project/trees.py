"""What another compiler needs to compile the units of a project, gathered while the project is there."""

from collections.abc import Sequence

from aiocg.build.commands import Unit
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import absolute_flags
from aiocg.datasets.own.draft import Draft
from aiocg.datasets.own.manifest import Tree, check_flags
from aiocg.datasets.source_files import gather_files, sort_flags


def keep_tree(units: Sequence[Unit], draft: Draft) -> Tree:
    """Keep the sources of some units in a draft, with all headers that are not the machine's.

    Raises:
        BenchmarkInitError: when they cannot be compiled elsewhere, or not all with the same flags.
        InstallError: when they cannot be written.
    """
    flags = [absolute_flags(unit.command.options("level", "linking", "dependency"), unit.directory) for unit in units]
    if len({(kept.include, kept.kept, kept.included) for kept in map(sort_flags, flags)}) > 1:
        raise BenchmarkInitError(units[0].input.path, "its units are compiled with different flags")
    languages = ["c++" if unit.input.language.startswith("c++") else "c" for unit in units]
    language = max(languages)
    tree = gather_files([unit.source for unit in units], flags[0], language)
    try:
        check_flags(tree.flags, tree.files)
    except ValueError as error:
        raise BenchmarkInitError(units[0].input.path, str(error)) from None
    return Tree(
        units=tree.units,
        files={name: draft.keep(content) for name, content in tree.files.items()},
        include=tree.include,
        flags=tree.flags,
        units_in_c=tuple([unit for unit, one in zip(tree.units, languages, strict=True) if one != language]),
    )
