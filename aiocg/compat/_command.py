"""usage: python -m aiocg.compat [-h] script.py [argument ...]
       python -m aiocg.compat -m module [argument ...]
       python -m aiocg.compat -c code [argument ...]

Run a program that was written for CompilerGym, over aiocg. In it, and in the processes that it starts,
`import compiler_gym` and `import gym` mean aiocg's; everything else is as with plain python.

example: python -m aiocg.compat random_walk.py --benchmark=cbench-v1/qsort

environment variables:
  AIOCG_COMPAT_STAND_INS=0  do not run another program where one of cbench-v1 cannot be fetched
"""

import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import NoReturn

from aiocg.compat._finder import SHADOW, install


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program that the command line names.

    Args:
        arguments: replace those of the process, without its name.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        _refuse("nothing to run: give a script, -m with a module, or -c with code")
    if words[0] in ("-h", "--help"):
        print(__doc__)
        return
    option, rest = (words[0], words[1:]) if words[0].startswith("-") and words[0] != "-" else ("", words)
    if option[:2] in ("-m", "-c") and len(option) > 2:
        option, rest = option[:2], [option[2:], *rest]
    if option not in ("", "-m", "-c"):
        _refuse(f"there is no option {option}; options of the script come after its name")
    if not rest:
        _refuse(f"{option} needs {'a module' if option == '-m' else 'code'}")
    try:
        install()
    except ImportError as error:
        _refuse(str(error))
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if SHADOW not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([SHADOW, *folders])  # for child processes
    sys.excepthook = _without_our_frames
    sys.argv = [option or rest[0], *rest[1:]]
    if option == "-m":
        _run_module(rest[0])
    elif option == "-c":
        _run_code(rest[0], "<string>")
    elif rest[0] == "-":
        _run_code(sys.stdin.read(), "<stdin>")
    else:
        _run_script(rest[0])


def _run_module(name: str) -> None:
    _first_path(os.getcwd())
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        _refuse(f"No module named {name} ({error})")
    if found is None:
        _refuse(f"No module named {name}")
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(path: str) -> None:
    if not os.path.exists(path):
        _refuse(f"can't open file {path!r}: No such file or directory")
    _first_path(path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path)))
    runpy.run_path(path, run_name="__main__")


def _run_code(text: str, name: str) -> None:
    _first_path("")
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(compile(text, name, "exec", dont_inherit=True), vars(module))


def _first_path(folder: str) -> None:
    """Replace our entry at the front of `sys.path` by the one that Python would make for the program."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _without_our_frames(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error without our own stack frames."""
    ours = (__file__, "<frozen runpy>", os.path.join(os.path.dirname(__file__), "__main__.py"))
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename in ours:
        inner = inner.tb_next
    sys.__excepthook__(kind, error.with_traceback(inner), inner)


def _refuse(problem: str) -> NoReturn:
    print(f"python -m aiocg.compat: {problem}", file=sys.stderr)
    raise SystemExit(2)
