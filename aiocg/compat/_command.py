"""Runs a program as Python does, but with aiocg's `compiler_gym` and `gym`."""

import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType, TracebackType
from typing import NoReturn

from aiocg.compat._finder import SHADOW, install

HELP = """\
usage: python -m aiocg.compat [-h] script.py [argument ...]
       python -m aiocg.compat -m module [argument ...]
       python -m aiocg.compat -c code [argument ...]

Run a program that was written for CompilerGym, over aiocg. In it, and in the processes that it starts,
`import compiler_gym` and `import gym` mean aiocg's; everything else is as with plain python.

example: python -m aiocg.compat random_walk.py --benchmark=cbench-v1/qsort

environment variables:
  AIOCG_COMPAT_STAND_INS=0  do not run another program where one of cbench-v1 cannot be fetched
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program that the command line names.

    Args:
        arguments: replace those of the process, without its name.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        _refuse("nothing to run: give a script, -m with a module, or -c with code")
    if words[0] in ("-h", "--help"):
        print(HELP, end="")
        return
    option, rest = (words[0], words[1:]) if words[0].startswith("-") and words[0] != "-" else ("", words)
    if option[:2] in ("-m", "-c") and len(option) > 2:
        option, rest = option[:2], [option[2:], *rest]
    if option not in ("", "-m", "-c"):
        _refuse(f"there is no option {option}; options of the script come after its name")
    if not rest:
        _refuse(f"{option} needs {'a module' if option == '-m' else 'code'}")
    install()
    _for_children()
    sys.excepthook = _without_our_frames
    start = {"": _script, "-m": _module, "-c": _code}[option]
    code, module = start(rest[0], rest[1:])
    sys.modules["__main__"] = module
    exec(code, vars(module))


def _script(path: str, arguments: list[str]) -> tuple[CodeType, ModuleType]:
    module = _fresh()
    sys.argv = [path, *arguments]
    if path == "-":
        _first_path("")
        return compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), module
    if os.path.isdir(path):
        _first_path(path)
        path = os.path.join(path, "__main__.py")
    else:
        _first_path(os.path.dirname(os.path.realpath(path)))
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        _refuse(f"can't open file {path!r}: {error.strerror}")
    module.__file__ = path
    return compile(source, path, "exec", dont_inherit=True), module


def _module(name: str, arguments: list[str]) -> tuple[CodeType, ModuleType]:
    _first_path(os.getcwd())
    sys.argv = ["-m", *arguments]  # as with plain Python while parent packages are imported
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # one of its imports is missing, rather than the module itself
        spec = None
    if spec is None:
        _refuse(f"No module named {name}")
    code = spec.loader.get_code(name) if hasattr(spec.loader, "get_code") else None  # type: ignore[union-attr]
    if code is None:
        _refuse(f"{name} cannot be run: it has no code")
    module = _fresh()
    module.__spec__ = spec
    module.__package__ = spec.parent
    module.__loader__ = spec.loader
    if spec.origin is not None:
        module.__file__ = spec.origin
    sys.argv[0] = spec.origin or name
    return code, module


def _code(text: str, arguments: list[str]) -> tuple[CodeType, ModuleType]:
    _first_path("")
    sys.argv = ["-c", *arguments]
    return compile(text, "<string>", "exec", dont_inherit=True), _fresh()


def _fresh() -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    return module


def _first_path(folder: str) -> None:
    """Replace our entry at the front of `sys.path` by the one that Python would make for the program."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _for_children() -> None:
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if SHADOW not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([SHADOW, *folders])


def _without_our_frames(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error without our own stack frames."""
    inner = trace
    while inner is not None and _is_ours(inner.tb_frame.f_code.co_filename):
        inner = inner.tb_next
    sys.__excepthook__(kind, error.with_traceback(inner), inner)


def _is_ours(file: str) -> bool:
    return file in (__file__, "<frozen runpy>") or file == os.path.join(os.path.dirname(__file__), "__main__.py")


def _refuse(problem: str) -> NoReturn:
    print(f"python -m aiocg.compat: {problem}", file=sys.stderr)
    raise SystemExit(2)
