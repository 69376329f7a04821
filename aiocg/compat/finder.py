"""Makes `compiler_gym` and `gym` mean the packages here, for every import from now on."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

__all__ = ["SHADOW", "install", "installed", "uninstall"]

PACKAGES = {"compiler_gym": "aiocg.compat.compiler_gym", "gym": "aiocg.compat.gym"}

SHADOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shadow")
"""A folder with a `compiler_gym` and a `gym` that call `install`: on the path of processes that this one starts."""


def install() -> None:
    """Make `import compiler_gym` and `import gym`, and any module of theirs, mean aiocg's.

    Packages of these names that are installed, or imported already, are shadowed; what took a reference to them before
    keeps it. Processes that `multiprocessing` starts import ours too. Calling it again changes nothing.
    """
    if installed():
        return
    for name in _loaded():
        _shadowed[name] = sys.modules.pop(name)
    sys.meta_path.insert(0, _FINDER)
    if SHADOW not in sys.path:
        sys.path.append(SHADOW)  # multiprocessing hands the path on
    importlib.invalidate_caches()


def uninstall() -> None:
    """Undo `install`: what was shadowed is back, for what is imported from now on."""
    if not installed():
        return
    sys.meta_path.remove(_FINDER)
    while SHADOW in sys.path:
        sys.path.remove(SHADOW)
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(_shadowed)
    _shadowed.clear()


def installed() -> bool:
    """Do `compiler_gym` and `gym` mean aiocg's?"""
    return _FINDER in sys.meta_path


_shadowed: dict[str, ModuleType] = {}


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in PACKAGES]


def _ours(name: str) -> str | None:
    """Return the name of our module for an old name, None for any other name."""
    root, dot, rest = name.partition(".")
    return f"{PACKAGES[root]}{dot}{rest}" if root in PACKAGES else None


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = _ours(fullname)
        if name is None:
            return None
        found = importlib.util.find_spec(name)
        if found is None:
            root = fullname.partition(".")[0]
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: aiocg.compat stands for {root}, and has no such module", name=fullname
            )
        spec = ModuleSpec(
            fullname, _Loader(found), origin=found.origin, is_package=found.submodule_search_locations is not None
        )
        spec.submodule_search_locations = found.submodule_search_locations
        spec.has_location = True
        return spec


class _Loader(InspectLoader):
    """Gives the module of ours out under its old name, so that it and what is in it exist once."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has just replaced

    def _loader(self) -> Any:
        return self._spec.loader

    def get_code(self, fullname: str) -> CodeType | None:
        code: CodeType | None = self._loader().get_code(self._spec.name)
        return code

    def get_source(self, fullname: str) -> str | None:
        source: str | None = self._loader().get_source(self._spec.name)
        return source

    def is_package(self, fullname: str) -> bool:
        return self._spec.submodule_search_locations is not None

    def get_filename(self, fullname: str) -> str:
        return self._spec.origin or ""


_FINDER = _Finder()
