"""What an image is made of: translation units, and modules that another compiler has left as bitcode."""

from dataclasses import dataclass
from pathlib import Path

from aiocg.programs.project.commands import Unit


@dataclass(frozen=True, slots=True)
class Module:
    """An object that is bitcode already, as compilers write for link-time optimisation.

    Attributes:
        path: the file.
    """

    path: Path


Part = Unit | Module


def name_of(part: Part) -> str:
    """Return the name by which people know a part."""
    return part.path.name if isinstance(part, Module) else part.input.path
