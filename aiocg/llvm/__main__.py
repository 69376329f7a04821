"""`python -m aiocg.llvm COMMAND`: programs of LLVM that the bundled library is without, for those who call them.

`opt` does what an environment does: it takes the command lines that `env.commandline()` gives, and all that are
actions, such as `@main(sroa,gvn)` and `[sroa,gvn]`. LLVM's own `opt` leads to the same program nearly always, but its
passes see what those before have left in memory, such as the order of use-lists; here each element of the list starts
from the program alone, as each action of an environment does. It also takes passes as LLVM had them before release 13,
`-mem2reg -O2`, and LLVM's own options, such as `-unroll-count=4`.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.datasets.errors import DatasetError
from aiocg.datasets.toolchain import find_clang, loader_environment
from aiocg.errors import AiocgError
from aiocg.llvm._program_files import write_whole
from aiocg.llvm.difference import difference
from aiocg.llvm.tools import TIMEOUT, apply, compute
from aiocg.spaces.actions import split_texts

STANDARD = "-"  # input or output
_OWN = {"-passes", "-o", "-S", "-f", "-h", "-help", "-option", "-relocation-model"}
_WORD = re.compile(r"-?(-[A-Za-z][\w-]*)(=.*)?", re.DOTALL)
_LEVEL = re.compile(r"-(O[0-3sz])")


def opt(arguments: argparse.Namespace) -> int:
    """Apply passes to a program."""
    name = arguments.input
    if arguments.option and (status := _check(arguments.option)):
        return status
    content = apply(_read(name), arguments.passes, subject=name, text=arguments.text, llvm_options=arguments.option)
    _write(arguments.output, content)
    return 0


def llc(arguments: argparse.Namespace) -> int:
    """Generate code for a program, without optimising it."""
    suffix = {"asm": ".s", "obj": ".o"}[arguments.filetype]
    default = STANDARD if arguments.input == STANDARD else str(Path(arguments.input).with_suffix(suffix))
    line = [str(find_clang()), "-x", "ir", "-Xclang", "-disable-llvm-passes", "-Wno-override-module"]
    line += ["-c" if arguments.filetype == "obj" else "-S", f"-O{arguments.level}", arguments.input]
    line += ["-o", arguments.output or default, *([] if arguments.relocation_model == "pic" else ["-fno-pic"])]
    return subprocess.run(line, env={**os.environ, **loader_environment()}).returncode


def llvm_as(arguments: argparse.Namespace) -> int:
    """Write a program as bitcode."""
    name = arguments.input
    default = STANDARD if name == STANDARD else str(Path(name).with_suffix(".bc"))
    _write(arguments.output or default, apply(_read(name), (), subject=name))
    return 0


def llvm_dis(arguments: argparse.Namespace) -> int:
    """Write a program as textual IR."""
    name = arguments.input
    default = STANDARD if name == STANDARD else str(Path(name).with_suffix(".ll"))
    _write(arguments.output or default, _text(name).encode())
    return 0


def llvm_link(arguments: argparse.Namespace) -> int:
    """Link programs into one."""
    programs = ((Path(name).name, _read(name)) for name in arguments.inputs)
    _write(arguments.output, compute("link", programs, ", ".join(arguments.inputs), TIMEOUT))
    return 0


def llvm_diff(arguments: argparse.Namespace) -> int:
    """Compare programs, but for the numbers of their values: exit status 1 if they differ."""
    one, other = arguments.one, arguments.other
    lines = difference(_body(one), _body(other), one, other)
    print("\n".join(lines), end="\n" if lines else "", file=sys.stderr)
    return int(bool(lines))


def _check(options: Sequence[str]) -> int:
    """Have clang tell what is wrong with options of LLVM, which its C API does not; return clang's exit status."""
    words = [word for option in options for word in ("-mllvm", option)]
    line = [str(find_clang()), *words, "-x", "c", "-fsyntax-only", os.devnull]
    return subprocess.run(line, env={**os.environ, **loader_environment()}, stdin=subprocess.DEVNULL).returncode


def _body(name: str) -> str:
    """Return the text of a program without the lines that name the module and its source."""
    return "\n".join(
        line for line in _text(name).splitlines() if not line.startswith(("; ModuleID", "source_filename"))
    )


def _text(name: str) -> str:
    return compute("text", [("given", _read(name))], name, TIMEOUT).decode()


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()


def _write(name: str, content: bytes) -> None:
    if name == STANDARD:
        sys.stdout.buffer.write(content)
    else:
        write_whole(name, content)


def _as_today(word: str) -> str:
    """Return a word for our parser: passes become arguments of `-passes`, and LLVM's own options those of `-option`."""
    match = _WORD.fullmatch(word)
    if match is None or match[1] in _OWN:
        return word
    if level := _LEVEL.fullmatch(word):
        return f"-passes=default<{level[1]}>"
    return f"-option={word}" if match[2] else f"-passes={match[1][1:]}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m aiocg.llvm", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    parsers = {}
    for function in (opt, llc, llvm_as, llvm_dis, llvm_link, llvm_diff):
        name = function.__name__.replace("_", "-")
        parsers[name] = command = commands.add_parser(name, help=function.__doc__, allow_abbrev=False)
        command.set_defaults(function=function, command=name)
        if name not in ("llvm-link", "llvm-diff"):
            command.add_argument("input", nargs="?", default=STANDARD, help="bitcode or textual IR; - by default")
        if name != "llvm-diff":
            default = STANDARD if name in ("opt", "llvm-link") else ""
            command.add_argument("-o", dest="output", default=default, help="a file, or - for standard output")
    command = parsers["opt"]
    command.add_argument(
        *("-passes", "--passes"),
        type=split_texts,
        action="extend",
        default=[],
        help="passes as LLVM's opt takes them, and other actions, applied one by one; may be given several times",
    )
    command.add_argument("-option", action="append", default=[], help=argparse.SUPPRESS)
    command.add_argument(*("-relocation-model", "--relocation-model"), choices=["pic"], help=argparse.SUPPRESS)
    command.add_argument("-S", dest="text", action="store_true", help="write textual IR, not bitcode")
    command.add_argument("-f", action="store_true", help="ignored: bitcode is written to a terminal, too")
    command = parsers["llc"]
    command.add_argument("-O", dest="level", choices=["0", "1", "2", "3"], default="2", help="effort, 2 by default")
    command.add_argument("-filetype", "--filetype", choices=["asm", "obj"], default="asm", help="asm by default")
    command.add_argument("-relocation-model", "--relocation-model", choices=["pic", "static"], default="pic")
    parsers["llvm-link"].add_argument("inputs", nargs="+", help="bitcode or textual IR")
    for name in ("one", "other"):
        parsers["llvm-diff"].add_argument(name, help="bitcode or textual IR")
    return parser


def main(arguments: Iterable[str] | None = None) -> int:
    """Carry out the command and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if words[:1] == ["opt"]:
        words = [words[0], *map(_as_today, words[1:])]
    parsed = parser.parse_args(words)
    try:
        return int(parsed.function(parsed))
    except (AiocgError, DatasetError, OSError) as error:
        print(f"{parser.prog} {parsed.command}: {error}", file=sys.stderr)
        return 2 if parsed.command == "llvm-diff" else 1


if __name__ == "__main__":
    sys.exit(main())
