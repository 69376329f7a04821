"""An import hook that makes `compiler_gym` and `gym` refer to aiocg's modules."""

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from aiocg.compat._names import MODULES, PACKAGES

HERE = "aiocg.compat."
ROOTS = ("compiler_gym", "gym")

SHADOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shadow")
"""A folder with packages `compiler_gym` and `gym` that call `install`, for the `sys.path` of child processes."""


_NEEDED = {"absl-py": "absl", "protobuf": "google.protobuf", "pydantic": "pydantic", "tabulate": "tabulate"}
"""The packages of the extra `compat`, and a module of each."""


def install() -> None:
    """Make `import compiler_gym` and `import gym`, and imports of their modules, import aiocg's.

    Installed packages of these names are shadowed, even if already imported; existing references to them stay valid.
    Processes started by `multiprocessing` import aiocg's as well. Idempotent.

    Raises:
        ImportError: if a package of the extra `compat` is missing.
    """
    if installed():
        return
    missing = [package for package, module in _NEEDED.items() if not _is_there(module)]
    if missing:
        raise ImportError(f"CompilerGym's interface needs {', '.join(missing)}: pip install 'aiocg[compat]'")
    for name in _loaded():
        _shadowed[name] = sys.modules.pop(name)
    sys.meta_path.insert(0, _FINDER)
    if SHADOW not in sys.path:
        sys.path.append(SHADOW)  # multiprocessing passes the path on
    importlib.invalidate_caches()


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        return False


def uninstall() -> None:
    """Undo `install`: later imports find the shadowed packages again."""
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
    """Return whether `compiler_gym` and `gym` refer to aiocg's modules."""
    return _FINDER in sys.meta_path


_shadowed: dict[str, ModuleType] = {}


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in ROOTS]


class _Finder(MetaPathFinder):
    """Finds the modules of the tables under their own names, or with a prefix, as in `aiocg.compat.compiler_gym`."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = fullname.removeprefix(self._prefix)
        root = old.partition(".")[0]
        if root not in ROOTS or self._prefix + old != fullname:
            return None
        if old in PACKAGES and self._prefix:
            return ModuleSpec(fullname, _PackageLoader(), is_package=True)
        home = old if old in PACKAGES else MODULES.get(old)
        found = importlib.util.find_spec(HERE + home) if home else None
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: aiocg.compat replaces {root} and has no such module", name=fullname
            )
        spec = ModuleSpec(fullname, _AliasLoader(found, old), origin=found.origin, is_package=old in PACKAGES)
        spec.has_location = found.has_location
        return spec


class _AliasLoader(Loader):
    """Loads one of our modules under an old name without making a second copy of it."""

    def __init__(self, spec: ModuleSpec, old: str) -> None:
        self._spec = spec
        self._old = old

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just replaced it
        if hasattr(module, "imported_as"):
            module.imported_as(self._old.rpartition(".")[2])

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code that `python -m` runs."""
        loader: Any = self._spec.loader
        code: CodeType | None = loader.get_code(self._spec.name)
        return code


class _Package(ModuleType):
    """A package whose names are resolved on first use."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"`{name.removeprefix(HERE)}`, over aiocg.")
        self.__dict__["_old"] = name.removeprefix(HERE)
        homes: dict[str, str] = {}
        whole: list[str] = []
        for item in PACKAGES[self._old]:
            home, _, names = item.partition(":")
            homes.update(dict.fromkeys(filter(None, names.split(",")), home))
            if not names:
                whole.append(home)
        self.__dict__.update(_homes=homes, _whole=whole)

    def _exported(self) -> dict[str, str]:
        while self._whole:
            home = self._whole.pop()
            for name in _names(importlib.import_module(HERE + home)):
                self._homes.setdefault(name, home)
        homes: dict[str, str] = self._homes
        return homes

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted(self._exported())
        child = f"{self._old}.{name}"
        if name not in self._homes and (child in PACKAGES or child in MODULES):
            return importlib.import_module(HERE + child)
        known = self._homes if name.startswith("__") or name in self._homes else self._exported()
        if name not in known:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(HERE + known[name]), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._homes or not isinstance(value, ModuleType):  # a function, not its module
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        children = {one.rpartition(".")[2] for one in (*PACKAGES, *MODULES) if one.rpartition(".")[0] == self._old}
        return sorted({*super().__dir__(), *self._exported(), *children})


def _names(module: ModuleType) -> list[str]:
    """Return what a module exports: its `__all__`, or else the public names that it does not import."""
    tree = ast.parse(inspect.getsource(module))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    imported = {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}
    public = (name for name in vars(module) if not name.startswith("_"))
    return getattr(module, "__all__", None) or [name for name in public if name not in imported]


class _PackageLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are resolved on first use."""


_FINDER = _Finder()
sys.meta_path.insert(0, _Finder(HERE))
