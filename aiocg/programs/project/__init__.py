"""Datasets from a project's build: `aiocg dataset create`.

::

    from aiocg.programs.project import Project, create

    creation = create("my-set", Project.from_compile_commands("build/compile_commands.json"))

A project is known by the command lines that build it, however they were found out (`Project`). Each source is compiled
to bitcode with its own options (`aiocg.build`), and what is linked to a target is joined to one module (`_targets`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    **dict.fromkeys(("Project", "ProjectError"), "aiocg.build.commands"),
    **dict.fromkeys(("RunRequest", "parse_run", "read_runs"), "aiocg.programs.project._runs"),
    **dict.fromkeys(("Creation", "Problem", "create", "write_program"), "aiocg.programs.project._creation"),
}

__all__ = [
    "Creation",
    "Problem",
    "Project",
    "ProjectError",
    "RunRequest",
    "create",
    "parse_run",
    "read_runs",
    "write_program",
]

if TYPE_CHECKING:
    from aiocg.build.commands import Project, ProjectError
    from aiocg.programs.project._creation import Creation, Problem, create, write_program
    from aiocg.programs.project._runs import RunRequest, parse_run, read_runs
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'aiocg.programs.project' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
