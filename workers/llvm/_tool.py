"""`python -P -m aiocg.workers.llvm._tool COMMAND …`: one operation on programs, in a process of its own.

If LLVM aborts, only this process ends. Programs are read from files and results written to files; a failure is one JSON
object on standard error, `{"code": …, "message": …}` with a `FailureCode`, and exit status 1.
"""

import argparse
import functools
import json
import os
import signal
import sys
from collections.abc import Iterable
from ctypes import c_char_p
from pathlib import Path
from typing import Any

from aiocg.transport.codec import reply_codec
from aiocg.transport.messages import PROTOCOL_VERSION, FailureCode, Observed, Reply, Welcome
from aiocg.transport.system import unnamed_file
from aiocg.workers.compilation import CompilationError
from aiocg.workers.limits import die_with_parent, disable_core_dumps
from aiocg.workers.llvm import _inlining as inlining
from aiocg.workers.llvm import _linkage as linkage
from aiocg.workers.llvm._action_text import parse, quote
from aiocg.workers.llvm._attributes import bound_early
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Context, LlvmError, Module

# LLVMLinkage
_AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE, _EXTERNAL_WEAK = 1, 8, 9, 12
_WEAK = (2, 3, 5, 6, 14)  # linkonce, linkonce_odr, weak, weak_odr and common: another definition may replace them


def _module_symbols(library: Library, content: bytes) -> dict[str, list[str]]:
    """Return the names of a module's symbols, as a linker sees them.

    Assembly in the module is ignored.

    Args:
        library: the LLVM to use.
        content: bitcode or textual IR.

    Returns:
        Lists of names: `defined`; `weak`, which another module's definition may replace; and `undefined`, without those
        that may stay undefined.

    Raises:
        LlvmError: if the content cannot be read or is not valid.
    """
    c = library.c
    found: dict[str, list[str]] = {"defined": [], "weak": [], "undefined": []}
    with Module.parse(library, content) as module:
        for kind in ("Function", "Global", "GlobalAlias", "GlobalIFunc"):
            for one in module.listed(kind):
                linkage = c.LLVMGetLinkage(one)
                name = module.name_of(one).removeprefix("\1")
                if linkage in (_INTERNAL, _PRIVATE, _EXTERNAL_WEAK) or name.startswith("llvm.") or not name:
                    pass
                elif c.LLVMIsDeclaration(one) or linkage == _AVAILABLE_EXTERNALLY:
                    found["undefined"].append(name)
                else:
                    found["weak" if linkage in _WEAK else "defined"].append(name)
    return found


def _link(arguments: argparse.Namespace) -> None:
    """Link modules into one."""
    contents = [(path.name, path.read_bytes()) for path in arguments.inputs]
    arguments.output.write_bytes(linkage.link(_library(), contents))


def _split(arguments: argparse.Namespace) -> None:
    """Write one module per function and one for the variables, numbered, and the names as `names.json`."""
    library = _library()
    content, names = linkage.function_names(library, arguments.input.read_bytes())
    chosen: list[str | None] = [*names[: arguments.limit], None]
    for number, name in enumerate(chosen):
        (arguments.output / f"{number}.bc").write_bytes(linkage.extract(library, content, name))
    (arguments.output / "names.json").write_text(json.dumps(chosen), encoding="utf-8")


def _strip_optnone(arguments: argparse.Namespace) -> None:
    """Remove `optnone` from functions."""
    content, _ = linkage.strip_optnone(_library(), arguments.input.read_bytes())
    arguments.output.write_bytes(content)


def _text(arguments: argparse.Namespace) -> None:
    """Write a program as textual IR."""
    with Module.parse(_library(), arguments.input.read_bytes()) as module:
        arguments.output.write_text(module.to_text(), encoding="utf-8")


def _symbols(arguments: argparse.Namespace) -> None:
    """Write the symbols of modules as a JSON list: for each module a map, or what is wrong with it."""
    library = _library()
    found: list[dict[str, list[str]] | str] = []
    for path in arguments.inputs:
        try:
            found.append(_module_symbols(library, path.read_bytes()))
        except LlvmError as error:
            found.append(str(error))
    arguments.output.write_text(json.dumps(found), encoding="utf-8")


def _apply(arguments: argparse.Namespace) -> None:
    """Apply actions, a JSON list of texts, and write the program as bitcode, or as text if requested."""
    if options := arguments.llvm_option:
        words = [b"opt", *map(os.fsencode, options)]
        _library().c.LLVMParseCommandLineOptions(len(words), (c_char_p * len(words))(*words), None)
    remarks: list[str] = []
    Context.remarks = remarks if arguments.remarks else None
    compiler = _started(arguments.options)
    session = compiler(compiler.load_benchmark(arguments.input.read_bytes()))
    for action in json.loads(arguments.actions.read_bytes()):
        if arguments.part:
            action = _on_present_functions(action, {*session.get_observation("Functions")})
        compiler.check_action(action)
        session.apply_action(action)
    if arguments.remarks:
        arguments.remarks.write_text(json.dumps(remarks), encoding="utf-8")
    if arguments.text:
        arguments.output.write_text(session.get_observation("Ir"), encoding="utf-8")
    else:
        content = session.get_observation("Bitcode")
        arguments.output.write_bytes(bound_early(_library(), content) if arguments.no_plt else content)


def _on_present_functions(action: str, functions: set[str]) -> str:
    """Return an action without what it does to functions that a program does not have."""
    parsed = parse(action)
    named = parsed.each or ([(parsed.function, "")] if parsed.function else [])
    kept = [
        (name, pipeline)
        for name, pipeline in named
        if all(quote(one) in functions for one in (name, *inlining.split(pipeline)[0]))
    ]
    if not parsed.each:
        return action if len(kept) == len(named) else ""
    return str(parsed._replace(each=tuple(kept))) if kept else ""


def _observe(arguments: argparse.Namespace) -> None:
    """Write observations of a program in the form that a worker sends."""
    compiler = _started(arguments.options)
    session = compiler(compiler.load_benchmark(arguments.input.read_bytes()))
    values = tuple(session.get_observation(name) for name in arguments.names)
    _write_message(arguments.output, Observed(0, values, session.state_hash()))


def _describe(arguments: argparse.Namespace) -> None:
    """Write a worker's description of itself."""
    compiler = _started(arguments.options)
    spaces = compiler.action_spaces, compiler.observation_spaces
    welcome = Welcome(PROTOCOL_VERSION, "llvm", compiler.compiler_version, os.getpid(), *spaces)
    _write_message(arguments.output, welcome)


def _serve(arguments: argparse.Namespace) -> None:
    """Carry out commands, lines of JSON with a time limit and words, each in a fork of this process, which has LLVM."""
    _started("{}")
    parent = os.getpid()
    for line in sys.stdin.buffer:
        seconds, *words = json.loads(line)
        messages = unnamed_file("messages")
        if (child := os.fork()) == 0:
            die_with_parent(parent)
            os.dup2(messages, sys.stderr.fileno())
            signal.setitimer(signal.ITIMER_REAL, seconds)
            os._exit(main(words))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(messages, "rb") as file:
            file.seek(0)
            told = file.read().decode(errors="replace")
        print(json.dumps([status, told]), flush=True)


@functools.cache
def _library() -> Library:
    return Library.find()


@functools.cache
def _started(options: str) -> Any:
    """Start sessions; options are a JSON object."""
    from aiocg.workers.llvm.session import LlvmSession  # probes for passes, which the other commands do not need

    LlvmSession.start(json.loads(options))
    return LlvmSession


def _write_message(path: Path, message: Reply) -> None:
    """Write the frames of a message, each after its length in 8 bytes, little-endian."""
    with open(path, "wb") as file:
        for frame in reply_codec().encode([message]):
            file.write(len(frame).to_bytes(8, "little"))
            file.write(frame)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m aiocg.workers.llvm._tool", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(function: Any, *positional: str) -> argparse.ArgumentParser:
        command = commands.add_parser(function.__name__.strip("_").replace("_", "-"), help=function.__doc__)
        command.set_defaults(function=function)
        for name in positional:
            command.add_argument(name, type=Path)
        return command

    add(_link, "output").add_argument("inputs", type=Path, nargs="+")
    add(_symbols, "output").add_argument("inputs", type=Path, nargs="+")
    add(_split, "output", "input").add_argument("--limit", type=int)
    add(_strip_optnone, "output", "input")
    add(_text, "output", "input")
    observing = add(_observe, "output", "input")
    observing.add_argument("names", nargs="+")
    applying = add(_apply, "output", "input", "actions")
    applying.add_argument("--text", action="store_true")
    applying.add_argument("--part", action="store_true", help="leave out what is for functions that are missing")
    applying.add_argument("--no-plt", action="store_true", help="call other libraries' functions without a stub")
    applying.add_argument("--remarks", type=Path, help="a file for what passes say they have done, a JSON list")
    applying.add_argument("--llvm-option", action="append", help="an option of LLVM itself; may be given several times")
    for command in (applying, observing, add(_describe, "output")):
        command.add_argument("--options", default="{}", help="JSON object for the compiler")
    add(_serve)
    return parser


def main(arguments: Iterable[str] | None = None) -> int:
    """Carry out one command and return the exit status."""
    parsed = _parser().parse_args(None if arguments is None else list(arguments))
    disable_core_dumps()
    try:
        parsed.function(parsed)
    except CompilationError as error:
        return _fail(error.code, error.message)
    except LlvmError as error:
        return _fail(FailureCode.BENCHMARK, str(error))
    return 0


def _fail(code: str, message: str) -> int:
    print(json.dumps({"code": code, "message": message}), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
