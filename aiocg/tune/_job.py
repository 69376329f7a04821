"""A tuning from the build to the answer: copies, search, check, and the proof that the answer works without aiocg."""

import contextlib
import fnmatch
import hashlib
import itertools
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aiocg.build.objects import digest_if_there, digest_of
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.search import Budget
from aiocg.shrink.delta_debugging import guilty
from aiocg.transport.elf import sections
from aiocg.tune._answers import Answer, answers, is_meson, make_misreads, whole_answer
from aiocg.tune._cost import Bound, Cost
from aiocg.tune._options import (
    ALL_FILES,
    LINK,
    LTO,
    Choice,
    Space,
    Words,
    clang_space,
    gcc_space,
    restricted,
    with_words,
    words_of,
)
from aiocg.tune._replay import Replay
from aiocg.tune._result import Gain, Result
from aiocg.tune._searching import minimise, search
from aiocg.tune._tuning import LEAST_TIME, SLOWER, Journal, Tuning, key_of
from aiocg.tune._whole import Template, Whole, binaryen_template, changed_files, read_template, rustc_template
from aiocg.tune._workspace import TIMEOUT, CommandFailed, TuneError, Workspace

if TYPE_CHECKING:
    from aiocg.transport.options import Option

SEARCHING = 0.85  # of the time; the rest is for leaving out what does nothing
GAINS = 0.1  # of the time, for what single options save
IDENTICAL = "verified: a build with these flags alone comes out as promised, to the byte"
SAME_CODE = "verified: a build with these flags alone comes out as promised, but for debug information"
BY_HAND = "NOT verified: nothing of make, CMake or Meson was found, to which these flags could be given"
SAME_COST = "verified: a build with these flags alone costs what was promised; there is no image to compare"
UNVERIFIED = "NOT verified: it was interrupted"
_CONFIGURED = ("make", "cmake", "meson")
_NOT_LOADED = (".note.gnu.build-id", ".gnu_debuglink")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked for.

    Attributes:
        build: the command, for the shell.
        root: the folder that it runs in.
        cost: a name or a command, see `Cost`.
        space: "auto" for the options of the build's own compiler, "rustc", "binaryen", or a file.
        check: a command that succeeds if the images work; "" for none.
        at_most: bounds, as text.
        only: a pattern of names of images.
        variants: variables of each variant, as text; none for one build.
        worst: whether the worst variant counts, not the sum.
        without: patterns of options that are left out.
        allow: options that are tried whatever they mean.
        budget: seconds.
        resume: whether to go on with what is known.
    """

    build: str
    root: Path
    cost: str = "size"
    space: str = "auto"
    check: str = ""
    at_most: tuple[str, ...] = ()
    only: str = "*"
    variants: tuple[str, ...] = ()
    worst: bool = False
    without: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    budget: float = 600.0
    resume: bool = False


@dataclass(slots=True)
class Job:
    """A tuning of one build.

    Attributes:
        settings: what is asked for.
        scratch: an empty folder.
        options_of: asks a compiler for its options.
        tell: is told what is done.
        watch: is told when there is a better choice.
    """

    settings: Settings
    scratch: Path
    options_of: "Callable[[str], Sequence[Option]]"
    tell: Callable[[str], None] = print
    watch: Callable[[Tuning], None] = lambda _: None
    targets: list[Replay | Whole] = field(default_factory=list, init=False)
    tuning: Tuning = field(init=False)
    notes: list[str] = field(default_factory=list, init=False)
    started: float = field(default_factory=time.monotonic, init=False)
    _template: Template | None = field(default=None, init=False)
    _rebuilds: bool = field(default=False, init=False)
    _patience: float = field(default=TIMEOUT, init=False)
    _failure: str = field(default="", init=False)
    _promises: dict[str, tuple[list[dict[str, Path]], list[Answer]]] = field(default_factory=dict, init=False)

    def begin(self) -> None:
        """Build and measure each variant with its own options.

        Raises:
            TuneError: when it cannot be built, replayed, measured, or fails the check.
        """
        told = self.settings
        cost, bounds = Cost(told.cost), [Bound.read(text) for text in told.at_most]
        cost.check()
        self._template = _template_of(told.space)
        about: dict[str, object] = {"build": told.build, "root": str(told.root), "cost": told.cost, "only": told.only}
        about |= {"variants": told.variants, "worst": told.worst, "space": told.space}
        name = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:24]
        for number, variant in enumerate(told.variants or ("",)):
            self.tell(f"building {variant or 'once'}, in a copy of the folder")
            self.targets.append(self._target(number, variant))
        about["made"] = [_identity(one) for one in self.targets]  # which is other where sources have changed
        journal = Journal(cache_directory() / "tune" / f"{name}.jsonl", about, resume=told.resume)
        self.tuning = Tuning(self.targets, cost, bounds, journal, told.worst, self.watch)
        self.tell("measuring what the build makes")
        self.tuning.begin()
        if told.check:
            self.tell(f"checking what the build makes: {told.check}")
        if told.check and not self.tuning.own.overflow and not self._holds({}):
            raise TuneError(f"the check fails with what the build itself makes: {self._failure}")

    def search(self) -> None:
        """Search until the time is over, and leave out what does nothing."""
        space = self._space()
        whole = []
        for choice in space.whole:
            replays = (one for one in self.targets if isinstance(one, Replay))
            if reason := next(filter(None, (one.obstacle(choice) for one in replays)), ""):
                self.notes.append(f"{' '.join(itertools.chain(*choice.values()))} is not tried: {reason}")
            else:
                whole.append(choice)
        space = replace(space, whole=tuple(whole))
        meter = Budget(seconds=self.settings.budget * SEARCHING).start()
        self.tell(f"searching: {len(self.tuning.sources) or 'no'} files apart, {len(space.options)} options")
        search(self.tuning, space, meter)
        meter.budget = Budget(seconds=max(self.settings.budget, meter.elapsed / SEARCHING))
        self.tell("leaving out what does nothing")
        minimise(self.tuning, space, meter)

    def result(self, *, at_once: bool = False) -> Result:
        """Check and verify the best choice, and return the report.

        Args:
            at_once: do neither.
        """
        told, tuning = self.settings, self.tuning
        checked = ""
        if not at_once:
            if told.check and not tuning.best_result.overflow:
                self.tell(f"checking: {told.check}")
                self._settle()
                checked = "" if self._rebuilds else told.check
            self.tell("measuring again")
            if problem := tuning.confirm():
                self.notes.append(problem)
        self.tell("measuring what each option saves")
        target = self.targets[0]
        result = Result(
            build=told.build,
            cost=told.cost,
            unit=tuning.cost.unit,
            own=tuning.own.numbers,
            best=tuning.best_result.numbers,
            overflow=(tuning.own.overflow, tuning.best_result.overflow),
            rivals=self._rivals(),
            choice=tuning.best,
            gains=() if at_once else tuple(self._gains()),
            files={} if at_once else self._files(),
            kept=target.kept if isinstance(target, Replay) else {},
            notes=tuple(self.notes),
            broken=tuple(told.at_most[at] for at, bound in enumerate(tuning.bounds) if tuning.breaks(bound)),
            checked=checked,
            noise=tuning.noise,
            evaluations=tuning.evaluations,
            seconds=round(time.monotonic() - self.started, 1),
            space=told.space,
            only=told.only,
            variants=told.variants,
        )
        if not tuning.best or result.overflow[1]:
            return result
        return self._with_answer(result, at_once=at_once)

    def _target(self, number: int, variant: str) -> "Replay | Whole":
        told = self.settings
        variables = variables_of(variant)
        workspace = Workspace.of(told.root, self.scratch / f"copy-{number}")
        if self._template is None:
            (objects := self.scratch / f"objects-{number}").mkdir()
            return Replay.of(workspace, objects, told.build, told.only, variables)
        target = Whole(workspace, self._template, told.build, (), variables)
        try:
            target.build({})
        except CommandFailed as error:
            raise TuneError(f"the build failed: {error}") from None
        names = [name for name in changed_files(workspace) if fnmatch.fnmatch(name, told.only)]
        target.image_names = names
        return target

    def _space(self) -> Space:
        told = self.settings
        more = tuple(tuple(shlex.split(one)) for one in told.allow)
        if self._template is not None:
            return restricted(self._template.space, told.without, more)
        (target,) = self.targets[:1]
        assert isinstance(target, Replay)
        main = target.compiler
        if "clang" in os.path.basename(main):
            space = clang_space()
        else:
            self.tell(f"asking {main} for its options")
            space = gcc_space(self.options_of(main))
        space = restricted(space, told.without, more)
        return replace(space, per_file=not is_meson(target))  # which has no options for single files

    def _holds(self, choice: Choice) -> bool:
        """Say whether the check succeeds with a choice, and find out whether it builds by itself."""
        for target in self.targets:
            try:
                images = target.build(choice)
                before, started = [*map(digest_of, images.values())], time.monotonic()
                target.workspace.run([self.settings.check], timeout=self._patience)
                self._patience = min(self._patience, LEAST_TIME + SLOWER * (time.monotonic() - started))
                if before != [*map(digest_if_there, images.values())]:
                    self._rebuilds = True
            except (CommandFailed, TuneError, BenchmarkInitError) as error:
                self._failure = str(error)
                return False
            finally:
                target.distrust()
        return True

    def _settle(self) -> None:
        """Leave out the options that make the check fail."""
        tuning = self.tuning
        if self._holds(tuning.best):
            return
        items = [(scope, word) for scope, words in tuning.best.items() for word in words]
        self.tell(f"the check fails, so what makes it fail is looked for among {len(items)} options")
        wrong = guilty(items, lambda some: not self._holds(_only(some)))
        left = _only([one for one in items if one not in wrong])
        if not self._holds(left) or tuning.measure(left).key >= tuning.own.key:
            left = {}
            self.notes.append(f"the check has failed with what was found, so nothing of it is left: {self._failure}")
        for scope, word in wrong[:5]:
            self.notes.append(f"the check fails with {word} for {scope or 'all files'}: left out")
        tuning.best = left
        tuning.best_result = tuning.measure(left)

    def _rivals(self) -> dict[str, float]:
        levels = ("-Os", "-Oz", "-O2", "-O3", "-O1")
        known = {level: self.tuning.journal.results.get(key_of({ALL_FILES: (level,)})) for level in levels}
        return {level: one.cost for level, one in known.items() if one is not None and one.cost < float("inf")}

    def _gains(self) -> Iterator[Gain]:
        """Yield what each option saves: by a file's own bytes, or by the cost, as far as there is time."""
        tuning, best = self.tuning, self.tuning.best
        now, until = tuning.measure(best).cost, time.monotonic() + self.settings.budget * GAINS
        for scope, words in best.items():
            for at, word in enumerate(words):
                rest = (*words[:at], *words[at + 1 :])
                if tuning.is_local and scope in tuning.sources:
                    base = best.get(ALL_FILES, ())
                    without, whole = tuning.sizes([(scope, (*base, *rest)), (scope, (*base, *words))])
                    yield Gain(scope, word, None if without is None or whole is None else float(without - whole))
                else:
                    fewer = with_words(best, scope, rest)
                    if key_of(fewer) in tuning.journal.results or time.monotonic() < until:
                        other = tuning.measure(fewer).cost
                        yield Gain(scope, word, other - now if other < float("inf") else None)

    def _files(self) -> dict[str, tuple[int, int]]:
        tuning = self.tuning
        if not tuning.is_local:
            return {}
        before = tuning.sizes([(name, ()) for name in tuning.sources])
        after = tuning.sizes([(name, words_of(tuning.best, name)) for name in tuning.sources])
        pairs = zip(tuning.sources, before, after, strict=True)
        return {name: (own, now) for name, own, now in pairs if own is not None and now is not None}

    def _with_answer(self, result: Result, *, at_once: bool) -> Result:
        """Return the result with the first answer with which a build of its own comes out as promised."""
        choice = self.tuning.best
        if (key := key_of(choice)) not in self._promises:  # once, as verifying makes the copies anew
            self._promises[key] = self._promise(choice)
        promised, possible = self._promises[key]
        images = tuple({name: digest_of(path) for name, path in some.items()} for some in promised)
        result = msgspec.structs.replace(result, answer=possible[0], images=images)
        if at_once or possible[0].kind == "flags":
            return msgspec.structs.replace(result, verified=UNVERIFIED if at_once else BY_HAND)
        tried = []
        for answer in possible:
            self.tell(f"verifying: {answer.use}")
            again = msgspec.structs.replace(result, answer=answer)
            told_of, checked = self._verdict(again, promised)
            tried.append(msgspec.structs.replace(again, verified=told_of, checked=checked or result.checked))
            if tried[-1].is_verified:
                return tried[-1]
        items = [(scope, word) for scope, words in choice.items() for word in words]
        fewer = _only([(scope, word) for scope, word in items if scope != LINK and word != LTO])
        for target in self.targets:
            target.distrust()
        if fewer and fewer != choice and self.tuning.measure(fewer).key < self.tuning.own.key:
            self.notes.append(f"options for links do not reach these: {shlex.join(choice.get(LINK, (LTO,)))}")
            self.tuning.best, self.tuning.best_result = fewer, self.tuning.measure(fewer)
            return self.result()
        return tried[0]

    def _promise(self, choice: Choice) -> tuple[list[dict[str, Path]], list[Answer]]:
        """Return a choice's images of each variant, where no build changes them, and answers that may give them."""
        promised = [self._kept(number, target.build(choice)) for number, target in enumerate(self.targets)]
        first, build = self.targets[0], self.settings.build
        if self._template is not None:
            return promised, [whole_answer(choice, self._template, build)]
        assert isinstance(first, Replay)
        return promised, answers(choice, first, build)

    def _kept(self, number: int, images: Mapping[str, Path]) -> dict[str, Path]:
        """Copy images to where no build changes them."""
        (folder := self.scratch / f"promised-{number}").mkdir(exist_ok=True)
        return {name: Path(shutil.copyfile(path, folder / str(at))) for at, (name, path) in enumerate(images.items())}

    def _verdict(self, result: Result, promised: Sequence[Mapping[str, Path]]) -> tuple[str, str]:
        """Build each variant in a new copy with the answer alone, and compare what comes out with what was promised.

        Returns:
            The verdict, and the check if it builds by itself and has succeeded there with the images as promised.
        """
        found, check = IDENTICAL, self.settings.check if self._rebuilds else ""
        for number, (target, images) in enumerate(zip(self.targets, promised, strict=True)):
            target.workspace.renew()  # the same path may be in the images
            told = verdict(result, target.workspace, number, images, check)
            if told != IDENTICAL:
                found = told
            if not told.startswith("verified"):
                break
        return found, check if found in (IDENTICAL, SAME_CODE) else ""


def verdict(
    result: Result, workspace: Workspace, number: int, promised: Mapping[str, Path] | None = None, check: str = ""
) -> str:
    """Build with the answer of a result alone, and say whether what was promised comes out.

    Args:
        result: with an answer.
        workspace: a copy of the folder in which nothing was built.
        number: of the variant.
        promised: the images; if they are not there any more, their digests count.
        check: a command that may build again with the answer, and then has to leave the same images.
    """
    answer = result.answer
    if answer is None:
        return "NOT verified: no flags were found"
    environment = {**os.environ, **(variables_of(result.variants[number]) if result.variants else {})}
    if answer.name:
        (workspace.copy / answer.name).write_text(answer.text, encoding="utf-8")
        there = Path() if make_misreads(workspace.seen) else workspace.seen
        environment |= {
            name: " ".join(filter(None, (environment.get(name, ""), str(there / one))))
            for name, one in answer.variables.items()
        }
    else:
        environment |= answer.variables
    build = answer.use if answer.kind not in _CONFIGURED and not answer.variables else result.build
    try:
        if answer.first:
            workspace.run([result.build], None, environment)
            workspace.run([answer.first], None, environment)
        workspace.run([build], None, environment)
    except CommandFailed as error:
        return f"NOT verified: the build fails with it: {error}"
    told = _compared(result, workspace, number, promised)
    if check and told.startswith("verified"):
        try:
            workspace.run([check], None, environment)
        except CommandFailed as error:
            return f"NOT verified: the check fails in a build with it: {error}"
        return _compared(result, workspace, number, promised)
    return told


def _compared(result: Result, workspace: Workspace, number: int, promised: Mapping[str, Path] | None) -> str:
    """Say whether the images in a workspace are those of a result."""
    images = result.images[number]
    if not images:
        return _same_cost(result, workspace)
    made = {name: workspace.copy / name for name in images}
    if missing := [name for name, path in made.items() if not path.is_file()]:
        return f"NOT verified: a build with it makes no {missing[0]}"
    changed = [name for name, path in made.items() if digest_of(path) != images[name]]
    if not changed:
        return IDENTICAL
    if promised is not None and all(_loaded(made[name]) == _loaded(promised[name]) for name in changed):
        return SAME_CODE
    return f"NOT verified: a build with it makes another {changed[0]}"


def _same_cost(result: Result, workspace: Workspace) -> str:
    """Say whether a build without images that could be compared costs what was promised."""
    if result.noise or len(result.variants) > 1:
        return "NOT verified: the build makes neither a program nor a module that could be compared"
    try:
        numbers = Cost(result.cost).of(workspace, {}).numbers
    except TuneError as error:
        return f"NOT verified: {error}"
    name, promised = next(iter(result.best.items()))
    if numbers.get(name) == promised:
        return SAME_COST
    return f"NOT verified: a build with it costs {numbers.get(name, 0):,.10g} instead of {promised:,.10g}"


def _identity(target: "Replay | Whole") -> list[str]:
    """Return digests of what a build makes with its own options."""
    if isinstance(target, Replay):
        found = [unit.origin.digest for units in target.units.values() for unit in units if unit.origin is not None]
    else:
        found = []
    with contextlib.suppress(CommandFailed):  # memory is too small
        found += map(digest_of, target.build({}).values())
    return sorted(found)


def _loaded(path: Path) -> list[tuple[str, bytes]] | bytes:
    """Return what of an image is loaded, but for its identity."""
    content = path.read_bytes()
    try:
        loaded = [one for one in sections(content) if one.is_loaded and one.name not in _NOT_LOADED]
        return [(one.name, content[one.offset : one.offset + one.size] if one.is_stored else b"") for one in loaded]
    except ValueError:
        return content


def _only(items: Sequence[tuple[str, str]]) -> dict[str, Words]:
    choice: dict[str, Words] = {}
    for scope, word in items:
        choice[scope] = (*choice.get(scope, ()), word)
    return choice


def variables_of(variant: str) -> dict[str, str]:
    """Return the variables of a variant.

    Raises:
        TuneError: when it is something else.
    """
    words = shlex.split(variant)
    if not all("=" in word for word in words):
        raise TuneError(f"--variant {variant!r} should be variables, such as BOARD=a LANGUAGE=de")
    return dict(word.split("=", 1) for word in words)


def _template_of(space: str) -> Template | None:
    if space == "auto":
        return None
    known = {"rustc": rustc_template, "binaryen": binaryen_template}
    if space in known:
        return known[space]()
    path = Path(space)
    if path.suffix != ".toml":
        raise TuneError(f"--space {space!r} is none of auto, {', '.join(known)}, or a file such as flags.toml")
    return read_template(path)
