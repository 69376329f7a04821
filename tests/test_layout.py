"""How the sources lie: who may import whom, what is public, what an import costs, and how long a module is."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"aiocg": "aiocg", "aiocg.workers": "workers", "aiocg.transport": "transport", "aiocg.datasets": "datasets"}
LONGEST = 520  # lines
HEAVY = ("asyncio", "anyio", "gymnasium", "msgspec", "multiprocessing", "numpy", "rich", "typer", "uvloop", "zmq")
DOES_THINGS = {"anyio", "asyncio", "multiprocessing", "random", "socket", "subprocess", "threading", "zmq"}
PURE = (
    "aiocg.candidate",
    "aiocg.episode",
    "aiocg.node.attachment",
    "aiocg.node.leases",
    "aiocg.plan",
    "aiocg.placement",
    "aiocg.replay",
    "aiocg.rewards",
    "aiocg.state",
    "aiocg.supervision",
    "aiocg.transport.arrays",
    "aiocg.transport.codec",
    "aiocg.transport.control",
    "aiocg.transport.errors",
    "aiocg.transport.handshake",
    "aiocg.transport.limits",
    "aiocg.transport.messages",
    "aiocg.transport.values",
    "aiocg.datasets.uri",
    "aiocg.workers.compilation",
    "aiocg.workers.llvm.states",
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
IMPORTABLE = sorted(name for name in MODULES if not name.endswith("__main__"))


def _imported(path: Path) -> set[str]:
    """Return the names of the modules that a source file imports anywhere, but not those for type checkers only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
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

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def _loaded_by(*modules: str) -> set[str]:
    """Return what a fresh interpreter has loaded after importing some modules, beside what it had before."""
    script = (
        "import json, sys, importlib; before = set(sys.modules)\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    command = [sys.executable, "-P", "-c", script, json.dumps(modules)]
    return set(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))


def _ours(loaded: set[str], *allowed: str) -> set[str]:
    """Return the modules of ours among those loaded that are neither in the packages allowed nor the bare root."""
    return {
        name
        for name in loaded
        if name.startswith("aiocg.") and not any(name == a or name.startswith(f"{a}.") for a in allowed)
    }


def _package(name: str) -> list[str]:
    return [module for module in IMPORTABLE if module == name or module.startswith(f"{name}.")]


# ------------------------------------------------------------------------------------------------ directions


def test_transport_imports_nothing_of_ours() -> None:
    assert _ours(_loaded_by(*_package("aiocg.transport")), "aiocg.transport") == set()


def test_datasets_import_nothing_of_ours() -> None:
    assert _ours(_loaded_by(*_package("aiocg.datasets")), "aiocg.datasets") == set()


def test_workers_import_only_transport() -> None:
    assert _ours(_loaded_by(*_package("aiocg.workers")), "aiocg.workers", "aiocg.transport") == set()


def test_client_never_imports_workers() -> None:
    client = sorted(_ours(set(IMPORTABLE), "aiocg.workers", "aiocg.transport", "aiocg.datasets"))
    assert "aiocg.runtime" in client
    assert "aiocg.cli.app" in client
    assert not {name for name in _loaded_by("aiocg", *client) if name.startswith("aiocg.workers")}


def test_facades_are_built_on_the_client_and_not_the_other_way() -> None:
    for facade in ("aiocg.gym", "aiocg.compat"):
        above = [facade, "aiocg.compat"]
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
    assert knowing == {f"aiocg.transport.{name}" for name in ("linked", "security", "server", "sockets", "wires")}


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


# ----------------------------------------------------------------------------------------------- public names


@pytest.mark.parametrize("name", [n for n in IMPORTABLE if "\n__all__ = " in MODULES[n].read_text(encoding="utf-8")])
def test_all_names_what_exists_and_names_it_once(name: str) -> None:
    module = importlib.import_module(name)
    exported = module.__all__
    assert len(exported) == len(set(exported))
    for one in exported:
        assert getattr(module, one) is not None


@pytest.mark.parametrize("name", IMPORTABLE)
def test_public_names_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for one in getattr(module, "__all__", ()):
        value = getattr(module, one)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), f"{name}.{one} has no docstring"
        if inspect.isclass(value) and value.__module__ == name:
            _check_methods(value)


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


# ---------------------------------------------------------------------------------------------------- length


@pytest.mark.parametrize("folder", ["aiocg", "workers", "transport", "datasets", "bench", "examples"])
def test_no_module_is_too_long_to_read(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        count = len(path.read_text(encoding="utf-8").splitlines())
        assert count <= LONGEST, f"{path.relative_to(ROOT)} has {count} lines"


def test_links_that_type_checkers_follow_lead_to_the_folders() -> None:
    for folder in ("workers", "transport", "datasets"):
        assert (ROOT / "aiocg" / folder).resolve() == ROOT / folder
