"""Lists of actions as command lines for LLVM's `opt`: written for today's, read from old ones too."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property

from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import InvalidAction, NotExpressible
from aiocg.spaces.actions import ActionLanguage, join_texts, split_list

_OPT = re.compile(r"\s*(?:\S*/)?opt(?:-\d[\d.]*)?(?:\s|$)")
_MANAGED = re.compile(r"(module|cgscc|function(?:<[^>]*>)?|loop|loop-mssa)\((.*)\)", re.DOTALL)
_DEEPEST = 100  # managers inside of each other that are looked into; actions may have no more
_OVER_MODULE = frozenset(("module", "cgscc", "function", "repeat", "default", "lto", "lto-pre-link", "coro-cond"))
_LEVEL = re.compile(r"-O([0123sz])")
_PIC = "-relocation-model=pic"
_NO_ACTIONS = re.compile(
    "-(relocation-model=pic|S|f|q|disable-output|disable-verify|verify-each|stats|time-passes|debug-pass-manager|"
    "(enable-new-pm|opaque-pointers)(=[01])?)"
)


class OptLine:
    """The notation of LLVM's actions as a command line that a shell takes::

        opt -relocation-model=pic '-passes=function(sroa),function(loop-mssa(licm))' input.bc -o output.bc

    One `opt` runs all passes whose nesting is known from the compiler's first action space. What is not, such as a pass
    that the space leaves out, gets an `opt` of its own, connected by pipes. `opt` has no way to run passes on one
    function alone, to unroll one loop, or to set an option of the pass builder for one pipeline. Some passes ask for
    the costs of position-independent code, which is what environments generate.

    LLVM's `opt` nearly always leads to the same program, but its passes also go by what those before have left in
    memory, such as the order of use-lists. To have exactly the program of the environment, put `python -m aiocg.llvm`
    in front of each `opt`, or see `write_exact`.
    """

    def __init__(self, language: ActionLanguage) -> None:
        self._pipelines = {action.name: action.pipeline or action.name for action in language.actions}

    @cached_property
    def _names(self) -> dict[str, str]:
        return {_as_one(pipeline): name for name, pipeline in reversed(self._pipelines.items())}

    @cached_property
    def _managers(self) -> dict[str, tuple[str, str]]:
        """What is around a pass in a list over the module."""
        found: dict[str, tuple[str, str]] = {}
        for pipeline in self._pipelines.values():
            inner = _innermost(pipeline)
            start = pipeline.index(inner)
            found.setdefault(_base(inner), (pipeline[:start], pipeline[start + len(inner) :]))
        return found

    # ------------------------------------------------------------------------------------------- write

    def write(self, texts: Sequence[str], tree: SourceTree | None = None) -> str:
        """Return a command line that does what the actions do; bitcode has no `tree` of sources.

        Raises:
            NotExpressible: when `opt` cannot do one of them.
        """
        runs: list[list[str]] = []
        joined = False
        for text in filter(None, texts):
            pipeline = self._over_module(text)
            if pipeline is not None and joined:
                runs[-1].append(pipeline)
            else:
                runs.append([pipeline or text])
            joined = pipeline is not None
        commands = [["opt", _PIC, f"-passes={','.join(run)}"] for run in runs] or [["opt"]]
        commands[0].append("input.bc")
        commands[-1] += ["-o", "output.bc"]
        return " | ".join(map(shlex.join, commands))

    def write_exact(self, texts: Sequence[str], tree: SourceTree | None = None) -> str:
        """Return a command line of our own `opt`, which leads to exactly the environment's program."""
        command = ["python", "-m", "aiocg.llvm", "opt", f"-passes={join_texts(filter(None, texts))}"]
        return shlex.join([*command, "input.bc", "-o", "output.bc"])

    def _over_module(self, text: str) -> str | None:
        """Return an action as one element of a list of passes over the module, None if its nesting is not known."""
        if text in self._pipelines:
            return _as_one(self._pipelines[text])
        if text.startswith(("@", "{", "mark<", "clang<", "codegen<")):
            reasons = {"@": "on one function or loop", "{": "with options of the pass builder"}
            kind = reasons.get(text[0], "by that name")
            raise NotExpressible(f"opt cannot run passes {kind}: {text}")
        elements = split_list(text)
        first = _base(elements[0]) if elements else ""
        if first in _OVER_MODULE or first.startswith("thinlto"):
            before, after = "", ""
        elif first in ("loop", "loop-mssa"):
            before, after = "function(", ")"
        elif first in self._managers:
            before, after = self._managers[first]
        else:
            return None
        return _as_one(f"{before}{text}{after}")

    # -------------------------------------------------------------------------------------------- read

    def recognises(self, line: str) -> bool:
        """Does a line begin like a call of `opt`?"""
        return _OPT.match(line) is not None

    def effects(self, texts: Sequence[str]) -> dict[str, str]:
        """Return nothing: no pass may change what a program does."""
        return {}

    def without_effects(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the actions."""
        return texts

    def read(self, line: str) -> list[Sequence[str]]:
        """Return, for each action of a command line, the texts that it may have, the likeliest first.

        Flags of the old pass manager, such as `-mem2reg`, are returned as they are: they are names in action spaces.

        Raises:
            InvalidAction: when the line cannot be read.
        """
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            words = list(lexer)
        except ValueError as error:
            raise InvalidAction(f"{line!r} is no command line: {error}") from error
        return [texts for command in _commands(words) for texts in self._read_command(command, line)]

    def _read_command(self, words: list[str], line: str) -> Iterator[Sequence[str]]:
        if not words or not self.recognises(os.path.basename(words[0])):
            raise InvalidAction(f"{line!r} is no command line for opt: it should begin with opt")
        rest = iter(words[1:])
        for word in rest:
            name, equals, value = word.partition("=")
            flag = f"-{name.lstrip('-')}"
            if flag in ("-passes", "-p"):
                pipeline = value if equals else next(rest, "")
                yield from self._read_pipeline(pipeline)
            elif flag == "-o":
                next(rest if not equals else iter(()), None)
            elif level := _LEVEL.fullmatch(word):
                yield (f"default<O{level[1]}>",)
            elif len(word) > 1 and word.startswith("-") and not _NO_ACTIONS.fullmatch(flag + equals + value):
                yield (flag + equals + value,)

    def _read_pipeline(self, pipeline: str) -> Iterator[Sequence[str]]:
        elements = split_list(pipeline)
        for element in elements:
            if element.startswith(("@", "{")):  # which are actions, but not opt's
                raise InvalidAction(f"{pipeline!r} is no pipeline for opt: there is no pass named {element!r}")
        if elements and self._over_module(elements[0]) is None:
            yield (pipeline,)  # LLVM nests all of it as its first pass needs
        else:
            yield from map(self._texts, elements)

    def _texts(self, pipeline: str) -> list[str]:
        """Return the texts that an element of a list of passes over the module may stand for."""
        forms = [pipeline]
        while len(forms) <= _DEEPEST and (found := _MANAGED.fullmatch(forms[-1])):
            forms.append(found[2])
        return [self._names[pipeline], *forms] if pipeline in self._names else forms


def _as_one(pipeline: str) -> str:
    """Return a list of passes as one element, so that it can be told from several actions."""
    return f"module({pipeline})" if len(split_list(pipeline)) > 1 else pipeline


def _commands(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _innermost(pipeline: str) -> str:
    """Return what is inside of all managers."""
    while found := _MANAGED.fullmatch(pipeline):
        pipeline = found[2]
    return pipeline


def _base(element: str) -> str:
    """Return the name of a pass without parameters and what it contains."""
    return re.split(r"[<(]", element, maxsplit=1)[0]
