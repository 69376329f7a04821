"""How the sources lie: who may import whom, what is public, and what an import costs."""

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import types
from collections.abc import Set
from pathlib import Path

import pytest

from aiocg.workers.__main__ import OURS

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"aiocg": "aiocg", "aiocg.workers": "workers", "aiocg.transport": "transport", "aiocg.datasets": "datasets"}
HEAVY = ("asyncio", "anyio", "gymnasium", "msgspec", "multiprocessing", "numpy", "rich", "typer", "uvloop", "zmq")
DOES_THINGS = {"anyio", "asyncio", "multiprocessing", "random", "socket", "subprocess", "threading", "zmq"}
PURE = (
    "aiocg.cluster._membership",
    "aiocg.cluster._placement",
    "aiocg.env.step",
    "aiocg.env.episode",
    "aiocg.node.attachment",
    "aiocg.node.leases",
    "aiocg.env.plan",
    "aiocg.fleet.placement",
    "aiocg.fleet.rebuildable",
    "aiocg.spaces.rewards",
    "aiocg.spaces.rewards",
    "aiocg.states.state",
    "aiocg.fleet.restart_policy",
    "aiocg.host.run_time",
    "aiocg.transport.arrays",
    "aiocg.transport.codec",
    "aiocg.transport.control",
    "aiocg.transport.errors",
    "aiocg.transport.messages",
    "aiocg.transport.limits",
    "aiocg.datasets.uri",
    "aiocg.web.tree",
    "aiocg.web._view",
    "aiocg.workers.compilation",
    "aiocg.workers.llvm.states",
    "aiocg.workers.memory.records",
    "aiocg.workers.sessions",
)


def _modules() -> dict[str, Path]:
    """Return every module by its name. The links inside aiocg/ are left out: they would show the folders twice."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if package == "aiocg" and path.relative_to(ROOT / "aiocg").parts[0] in FOLDERS.values():
                continue
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            found[name] = path
    return found


MODULES = _modules()
OPTIONAL = {"aiocg.agents.verifiers": "verifiers"}  # modules that a package which tests can do without is imported for
IMPORTABLE = sorted(
    name
    for name in MODULES
    if not name.endswith("__main__") and (name not in OPTIONAL or importlib.util.find_spec(OPTIONAL[name]) is not None)
)


@functools.cache
def _statements(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text(encoding="utf-8")).body


@functools.cache
def _imported(path: Path, *, typed: bool = False) -> frozenset[str]:
    """Return the names of the modules that a source file imports anywhere, with or without those for type checkers."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            return
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
            and not typed
        ):
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module is not None
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in _statements(path):
        visit(statement)
    return frozenset(found)


@functools.cache
def _loaded_by(*modules: str) -> frozenset[str]:
    """Return what a fresh interpreter has loaded after importing some modules, beside what it had before."""
    script = (
        "import json, sys, importlib; before = set(sys.modules)\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    command = [sys.executable, "-P", "-c", script, json.dumps(modules)]
    return frozenset(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))


def _ours(loaded: Set[str], *allowed: str) -> set[str]:
    """Return the modules of ours among those loaded that are neither in the packages allowed nor the bare root."""
    return {
        name
        for name in loaded
        if name.startswith("aiocg.") and not any(name == a or name.startswith(f"{a}.") for a in allowed)
    }


def _package(name: str) -> list[str]:
    return [module for module in IMPORTABLE if module == name or module.startswith(f"{name}.")]


# ------------------------------------------------------------------------------------------------ directions


@pytest.mark.slow
def test_transport_imports_nothing_of_ours() -> None:
    assert _ours(_loaded_by(*_package("aiocg.transport")), "aiocg.transport") == set()


@pytest.mark.slow
def test_datasets_import_nothing_of_ours() -> None:
    assert _ours(_loaded_by(*_package("aiocg.datasets")), "aiocg.datasets") == set()


@pytest.mark.slow
def test_workers_import_only_transport() -> None:
    assert _ours(_loaded_by(*_package("aiocg.workers")), "aiocg.workers", "aiocg.transport") == set()


@pytest.mark.slow
def test_client_never_imports_workers() -> None:
    client = sorted(_ours(set(IMPORTABLE), "aiocg.workers", "aiocg.transport", "aiocg.datasets"))
    assert "aiocg.runtime" in client
    assert "aiocg.cli.app" in client
    assert not {name for name in _loaded_by("aiocg", *client) if name.startswith("aiocg.workers")}


def test_facades_are_built_on_the_client_and_not_the_other_way() -> None:
    for facade in ("aiocg.gym", "aiocg.compat"):
        above = [facade, "aiocg.compat", "aiocg.rl"]
        for name in _ours(set(MODULES), *above):
            imported = {module for module in _imported(MODULES[name]) if module.startswith(f"{facade}.")}
            assert not imported, f"{name} imports {imported}"


def test_no_source_names_a_package_that_it_may_not_import() -> None:
    allowed = {
        "aiocg.workers": ("aiocg.workers", "aiocg.transport"),
        "aiocg.transport": ("aiocg.transport",),
        "aiocg.datasets": ("aiocg.datasets",),
    }
    for package, may in allowed.items():
        for name in _package(package):
            assert _ours(_imported(MODULES[name]), *may) == set(), name
    for name in _ours(set(MODULES), *allowed):
        assert not {module for module in _imported(MODULES[name]) if module.startswith("aiocg.workers")}, name


def test_only_the_sockets_know_zeromq() -> None:
    knowing = {name for name, path in MODULES.items() if "zmq" in {m.split(".")[0] for m in _imported(path)}}
    rooms = ("linked_router", "linked_wire", "security", "server", "sockets", "wires", "worker_sockets")
    assert knowing == {f"aiocg.transport.{name}" for name in rooms}


def test_no_two_modules_need_each_other() -> None:
    """Not in a function either, nor for type checkers; a package may gather the names of what lies in it."""
    graph = {
        name: {
            one
            for one in _imported(path, typed=True)
            if one in MODULES and one != name and not name.startswith(f"{one}.")
        }
        for name, path in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which has the circle


def test_rooms_are_built_on_each_other_in_one_direction() -> None:
    """A room is a package in aiocg/, or one of its few modules."""
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        needed = {_room(one) for one in _imported(path, typed=True) if one in MODULES and one != "aiocg"}
        if name != "aiocg":
            graph.setdefault(_room(name), set()).update(needed - {_room(name)})
    graphlib.TopologicalSorter(graph).prepare()
    assert {room for room in graph if (ROOT / "aiocg" / f"{room}.py").exists()} == {
        "errors", "registry", "runtime", "testing"
    }  # fmt: skip


def _room(name: str) -> str:
    return name.split(".")[1]


@pytest.mark.parametrize("name", PURE)
def test_pure_module_does_no_input_output_and_rolls_no_dice(name: str) -> None:
    assert not {module.split(".")[0] for module in _imported(MODULES[name])} & DOES_THINGS


@pytest.mark.parametrize("folder", ["workers", "transport", "datasets"])
def test_folder_under_its_short_name_says_how_to_import_it(folder: str) -> None:
    script = f"import sys; sys.path.insert(0, sys.argv[1]); import {folder}"
    done = subprocess.run([sys.executable, "-P", "-c", script, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"import aiocg.{folder}, not {folder}" in done.stderr.splitlines()[-1]


# ---------------------------------------------------------------------------------------------- import cost


def test_import_of_the_root_loads_nothing_heavy_and_starts_nothing() -> None:
    script = (
        "import os, sys, threading; before = set(sys.modules); import aiocg\n"
        "tasks = os.listdir('/proc/self/task')\n"
        "children = open(f'/proc/self/task/{tasks[0]}/children').read() if os.path.exists("
        "f'/proc/self/task/{tasks[0]}/children') else ''\n"
        "import json; print(json.dumps([sorted(set(sys.modules) - before), len(tasks), children]))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=True, text=True)
    loaded, threads, children = json.loads(done.stdout)
    assert "aiocg" in loaded
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)
    assert [name for name in loaded if name.startswith("aiocg.")] == []
    assert threads == 1
    assert children.strip() == ""


def test_worker_loads_nothing_that_only_the_client_needs() -> None:
    loaded = {name.split(".")[0] for name in _loaded_by("aiocg.workers.__main__", "aiocg.workers.llvm.session")}
    assert not loaded & {"anyio", "asyncio", "gymnasium", "numpy", "rich", "typer", "uvloop", "zmq"}


def test_what_starts_often_loads_nothing_that_is_slow_to_import() -> None:
    worker = _loaded_by("aiocg.workers.__main__", "aiocg.workers.llvm.session", "aiocg.workers.scripted")
    assert "importlib.metadata" not in worker
    assert not _loaded_by("aiocg.cli.app") & {"asyncio", "gymnasium", "numpy", "aiocg.runtime"}


def test_workers_know_our_own_entry_points() -> None:
    installed = importlib.metadata.distribution("aiocg").entry_points.select(group="aiocg.workers")
    assert {point.name: point.value for point in installed} == OURS


# ----------------------------------------------------------------------------------------------- public names


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_names_what_exists_and_names_it_once(folder: str) -> None:
    for name in _modules_of(folder):
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", ())
        assert len(exported) == len(set(exported)), name
        for one in exported:
            assert getattr(module, one) is not None, f"{name}.{one}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_are_documented(folder: str) -> None:
    names = _modules_of(folder)
    assert len(names) > 10
    for name in names:
        _check_documentation(name)


def _modules_of(folder: str) -> list[str]:
    """Return the modules of one of the packages, without those of the packages in it that are named apart."""
    inner = [f"{other}." for other in FOLDERS if other.startswith(f"{folder}.")]
    return [n for n in _package(folder) if not f"{n}.".startswith(tuple(inner))]


def _check_documentation(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for one in getattr(module, "__all__", _defined(module)):
        value = getattr(module, one)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), f"{name}.{one} has no docstring"
        if inspect.isclass(value) and value.__module__ == name:
            _check_methods(value)


def _defined(module: types.ModuleType) -> list[str]:
    """Return the public names that a module without `__all__` defines."""
    source = f"{module.__name__}."
    return [
        one
        for one, value in vars(module).items()
        if not one.startswith("_")
        and f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', '')}" == source + one
    ]


def _check_methods(cls: type) -> None:
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        assert inspect.getdoc(getattr(cls, name)), f"{cls.__qualname__}.{name} has no docstring"


def test_root_exports_what_it_says() -> None:
    import aiocg

    assert set(aiocg.__all__) == set(dir(aiocg))
    for name in aiocg.__all__:
        assert getattr(aiocg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Enviroment'"):
        _ = aiocg.Enviroment  # type: ignore[attr-defined]


def test_links_that_type_checkers_follow_lead_to_the_folders() -> None:
    for folder in ("workers", "transport", "datasets"):
        assert (ROOT / "aiocg" / folder).resolve() == ROOT / folder


def test_finding_an_environment_loads_nothing_that_can_wait_until_its_workers_start() -> None:
    compilers = [name for name in IMPORTABLE if name.endswith(".environments")]
    assert len(compilers) == 4
    assert not _loaded_by("aiocg.runtime", *compilers) & {"gymnasium", "numpy", "aiocg.spaces"}


def test_the_page_of_the_architecture_names_modules_that_exist() -> None:
    """And what it names in them: a function, a class, a method."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    roots = [ROOT, *(ROOT / package for package in FOLDERS.values())]
    rooms = {path.stem for root in roots for path in root.iterdir()}
    names = [name.split(".") for name in re.findall(r"`([a-z]\w*(?:\._?[a-z]\w*)+)`", text)]
    known = [name for name in names if name[0] in rooms]
    assert len(known) > 50
    assert [".".join(name) for name in known if not any(_is_there(root, name) for root in roots)] == []


def _is_there(folder: Path, name: list[str]) -> bool:
    """Whether a dotted name is a module, or is defined or imported in the module that it begins with."""
    path = folder.joinpath(*name)
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    return module.is_file() and re.search(rf"\b{name[-1]}\b", module.read_text(encoding="utf-8")) is not None
