"""Checks of new images: the user's command, a smoke test, and a limit of speed; failing ones are isolated."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.build.objects import beginning
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.scratch import scratch_folder
from aiocg.errors import AiocgError
from aiocg.shrink._candidate import FOUND, OURS, OWN, TUNED, Candidates, Recipe
from aiocg.shrink.delta_debugging import Step, actions_of, guilty, steps_of
from aiocg.shrink.image import put, smallest
from aiocg.shrink.inputs import Part, name_of
from aiocg.shrink.record import Link


@dataclass(slots=True)
class Check:
    """A command that tells whether the images work.

    Attributes:
        command: for the shell.
        tell: is told what is done.
        name: of the check, as notes have it.
        runs: how often the command was run.
    """

    command: str
    tell: Callable[[str], None]
    name: str = "the check"
    runs: int = field(default=0, init=False)

    def holds(self) -> bool:
        """Run the check on what is in place."""
        return self._run()

    def settle(self, images: Sequence[Candidates]) -> None:
        """Leave those images in place that the check holds with, and say in the notes of the others what is wrong.

        Raises:
            OSError: when an image cannot be written.
        """
        if self._holds_with(images, images):
            return
        changed = [one for one in images if one.chosen != OWN]
        self.tell(f"{self.name} fails, so what makes it fail is looked for")
        if not self._holds_with(images, ()):
            for one in changed:
                one.chosen = OWN
                one.notes.append(f"{self.name} fails with what the build itself has made, so that stays")
            return
        wrong = guilty(changed, lambda some: not self._holds_with(images, some))
        _install(images, ())
        for one in wrong:
            self._mend(one)
        if not self._holds_with(images, images):
            for one in changed:
                one.chosen = OWN
                one.notes.append(
                    f"{self.name} fails now and then with images that do well alone, so the build's own stays"
                )
            _install(images, images)

    def _mend(self, image: Candidates) -> None:
        """Find another image by the same search that the check holds with, or take the build's own."""
        chosen = image.chosen
        self.tell(f"{self.name} fails with {image.name} as {chosen}")
        if chosen not in OURS:
            if FOUND not in image.images:
                image.add_found(image.quick)
            image.choose(TUNED if TUNED in image.images else FOUND)
            if image.chosen in OURS and self._holds_content(image, image.content):
                image.notes.append(f"{self.name} fails with the image by {chosen}")
                return
        if image.chosen in OURS:
            for mend in (self._without_options, self._without_steps, self._without_parts):
                with contextlib.suppress(AiocgError, BenchmarkInitError):
                    if mend(image):
                        return
        image.choose(OWN)
        image.notes.append(f"{self.name} fails with the image by {chosen}, so the build's own stays")

    def _without_options(self, image: Candidates) -> bool:
        """Leave out the options of the code generator and the linker that make the check fail, if it holds without."""
        if image.chosen != TUNED or not self._holds_content(image, image.contents[FOUND]):
            return False
        actions, saved = image.recipes[TUNED].actions, image.recipes[TUNED].saved
        wrong = guilty(list(saved), lambda some: not self._holds_content(image, image.built(actions, tuple(some))))
        kept = {one: count for one, count in saved.items() if one not in wrong}
        image.add_tuned(Recipe(actions, kept))
        left = bool(kept) and self._holds_content(image, image.contents[TUNED])
        image.notes.append(f"{self.name} fails with {', '.join(wrong[:3])}: left out")
        image.choose(TUNED if left else FOUND)
        return True

    def _without_steps(self, image: Candidates) -> bool:
        """Leave out the passes that make the check fail, if it holds with -Oz or -Os alone."""
        if not self._holds_content(image, image.built(image.quick)):
            return False
        steps = steps_of(image.recipes[FOUND].actions)

        def fails(numbers: Sequence[int]) -> bool:
            try:
                content = image.built(actions_of([steps[number] for number in numbers]))
            except (AiocgError, BenchmarkInitError):
                return False  # passes that make no program break none
            return not self._holds_content(image, content)

        wrong = guilty(range(len(steps)), fails)
        left = actions_of([step for number, step in enumerate(steps) if number not in wrong])
        actions = left if len(wrong) < len(steps) else image.quick
        content = image.built(actions)
        if not self._holds_content(image, content):
            content, actions = image.built(image.quick), image.quick
        told = ", ".join(map(_described, (steps[number] for number in wrong[:3])))
        image.replace_found(content, actions, image.linker, f"{self.name} fails with {told}: left out")
        return True

    def _without_parts(self, image: Candidates) -> bool:
        """Leave the build's own objects of the parts that make the check fail with whatever passes."""
        built = image.linker.parts

        def replaced(parts: Sequence[Part]) -> Candidates:
            return image.keeping([part for part in built if part not in parts])

        def fails(parts: Sequence[Part]) -> bool:
            return bool(parts) and not self._holds_content(image, replaced(parts).contents[FOUND])

        wrong = guilty(built, fails)
        if len(wrong) == len(built):
            return False
        other = replaced([part for part in built if part not in wrong])
        image.module = other.module
        told = ", ".join(map(name_of, wrong[:3]))
        image.replace_found(
            other.contents[FOUND], image.quick, other.linker, f"{self.name} fails with {told} compiled anew: kept"
        )
        return True

    def _holds_with(self, images: Sequence[Candidates], some: Sequence[Candidates]) -> bool:
        """Run the check with some of the images, and the build's own in the places of the others."""
        _install(images, some)
        return self._run()

    def _holds_content(self, image: Candidates, content: bytes) -> bool:
        put(_place(image), content)
        try:
            return self._run()
        finally:
            put(_place(image), image.contents[OWN])

    def _run(self) -> bool:
        self.runs += 1
        done = subprocess.run(["/bin/sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=2, stderr=2)
        return done.returncode == 0


def _install(images: Sequence[Candidates], some: Sequence[Candidates]) -> None:
    """Put some of the images into place, and the build's own in the places of the others.

    Raises:
        OSError: when one cannot be written.
    """
    for image in images:
        put(_place(image), image.content if image in some else image.contents[OWN])


def _place(image: Candidates) -> Path:
    return image.linker.inputs.link.output


def _described(step: Step) -> str:
    return f"{step.text} on {step.function[1:]}" if step.function else step.text


# -------------- Smoke test of a build's programs: started without arguments, before and after their images are replaced

LONGEST = 2.0  # seconds for one run; what runs longer is no program to be compared
PATIENCE = 5.0  # times as long for a program that ended in time before
BUDGET = 20.0  # seconds for the first two runs of all programs
LIMITS = "ulimit -c 0; ulimit -t 5; ulimit -f 131072; ulimit -v 4194304"  # seconds, blocks of 512 bytes, KiB
_EXECUTABLE = (2, 3)  # types of ELF files


@dataclass(frozen=True, slots=True)
class _Run:
    """What a program did: its exit status, and what it printed."""

    status: int
    output: bytes
    errors: bytes


@dataclass(slots=True)
class Smoke(Check):
    """Checks that programs do what they did before, in a box: with empty input and without arguments.

    Attributes:
        links: of the build; programs among their images are run.
    """

    links: Sequence[Link] = ()
    _expected: dict[Path, _Run] = field(default_factory=dict, init=False)

    def holds(self) -> bool:
        """Learn what the programs do, each twice; those are left out that do not always do the same, or do not end."""
        programs = [link for link in self.links if _is_program(link)]
        if programs and (problem := _problem()):
            self.tell(f"the programs are not started, before and after, for comparison: {problem}")
            return True
        started = time.monotonic()
        for link in programs:
            if time.monotonic() - started > BUDGET:
                break
            first = self._done(link.output)
            if first is None or (second := self._done(link.output)) is None:
                continue
            if (first.status, first.output) == (second.status, second.output):
                self._expected[link.output] = _Run(first.status, first.output, b"" if first != second else first.errors)
        return True

    def _run(self) -> bool:
        self.runs += 1
        return all(self._agrees(path, run) for path, run in self._expected.items())

    def _agrees(self, path: Path, expected: _Run) -> bool:
        now = self._done(path, PATIENCE * LONGEST)
        if now is None or (now.status, now.output) != (expected.status, expected.output):
            return False
        return not expected.errors or now.errors == expected.errors

    def _done(self, program: Path, longest: float = LONGEST) -> _Run | None:
        """Run a program; None if it does not end in time."""
        folders = os.pathsep.join(dict.fromkeys(str(link.output.parent) for link in self.links))
        with scratch_folder() as folder, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            line = [*_box(str(folder), folders), "/bin/sh", "-c", f'{LIMITS}; exec "$@"', "sh", str(program)]
            with subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            ) as process:
                try:
                    status = process.wait(longest)
                except subprocess.TimeoutExpired:
                    return None
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            errors.seek(0)
            return _Run(status, output.read(), errors.read())


def _is_program(link: Link) -> bool:
    """Say whether the image of a link can be started on this machine."""
    try:
        head = beginning(link.output, 20)
        machine = Path("/proc/self/exe").read_bytes()[18:20]
    except OSError:
        return False
    kind = int.from_bytes(head[16:18], "little")
    shared = {"-shared", "--shared", "-Bshareable"}.intersection(link.command.words)
    return head[:4] == b"\x7fELF" and kind in _EXECUTABLE and head[18:20] == machine and not shared


def _problem() -> str:
    """Say why no program can be run in a box; "" if it can."""
    if shutil.which("bwrap") is None:
        return "there is no bwrap on PATH to box them with (Debian: apt install bubblewrap)"
    with scratch_folder() as folder:
        done = subprocess.run([*_box(str(folder), ""), "true"], stdin=subprocess.DEVNULL, capture_output=True)
    return done.stderr.decode(errors="replace").strip()[-200:] if done.returncode else ""


def _box(folder: str, libraries: str) -> Iterator[str]:
    """Yield the command of a box in which nothing but a folder can be written, and there is no network."""
    yield from ("bwrap", "--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session", "--clearenv")
    yield from ("--die-with-parent", "--ro-bind", "/", "/", "--tmpfs", "/run", "--proc", "/proc", "--dev", "/dev")
    yield from ("--bind", folder, folder, "--chdir", folder, "--setenv", "HOME", folder, "--setenv", "TMPDIR", folder)
    yield from ("--setenv", "PATH", os.defpath, "--setenv", "LC_ALL", "C", "--setenv", "LD_LIBRARY_PATH", libraries)
    yield "--"


# -------------------- Images that are fast enough, by the processor time that a benchmark of the user's takes with them

ROUNDS = 5  # in which the build's own images and others are timed in turn; the least time of each counts


@dataclass(frozen=True, slots=True)
class Pace:
    """A limit of how much slower the images may be than the build's own.

    Attributes:
        command: the benchmark, for the shell.
        most: the share by which its processor time may grow.
        tell: is told what is done.
    """

    command: str
    most: float
    tell: Callable[[str], None]

    def settle(self, images: Sequence[Candidates]) -> None:
        """Let images that are too slow be larger, as far as that helps.

        Raises:
            BenchmarkInitError: when the benchmark fails.
            OSError: when an image cannot be written.
        """
        if (slower := self._slowdown(images, images)) <= self.most:
            return
        self.tell(f"the benchmark takes {slower:+.1%} of the time, so the images are timed one by one")
        for image in images:
            while image.chosen != OWN and (slower := self._slowdown(images, [image])) > self.most:
                image.notes.append(f"the benchmark takes {slower:+.1%} with the image by {image.chosen}")
                now = image.images[image.chosen].bytes
                larger = {name: one for name, one in image.images.items() if one.bytes > now}
                image.choose(smallest(larger) if larger else OWN)
        if self._slowdown(images, images) > self.most:
            for image in images:
                image.chosen = OWN
                image.notes.append("the benchmark takes too long with all images together, so the build's own stays")

    def _slowdown(self, images: Sequence[Candidates], some: Sequence[Candidates]) -> float:
        own = shrunk = float("inf")
        try:
            for _ in range(ROUNDS if any(one.chosen != OWN for one in some) else 0):
                _install(images, ())
                own = min(own, self._seconds())
                _install(images, some)
                shrunk = min(shrunk, self._seconds())
        finally:
            _install(images, ())
        return shrunk / max(own, 1e-3) - 1 if own < float("inf") else 0.0

    def _seconds(self) -> float:
        """Return the processor time of the benchmark with all that it starts."""
        process = subprocess.Popen(["/bin/sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=2)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise BenchmarkInitError(self.command, f"the benchmark ended with {process.returncode}")
        return used.ru_utime + used.ru_stime
