"""Runs the user's check on new images, and isolates the failing ones."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import AiocgError
from aiocg.shrink.candidate import FOUND, OURS, OWN, TUNED, Candidates, Recipe
from aiocg.shrink.delta_debugging import Step, actions_of, guilty, steps_of
from aiocg.shrink.image import put
from aiocg.shrink.inputs import Part, name_of


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
        if self._holds(images):
            return
        changed = [one for one in images if one.chosen != OWN]
        self.tell(f"{self.name} fails, so what makes it fail is looked for")
        if not self._holds_with(images, ()):
            for one in changed:
                one.chosen = OWN
                one.notes.append(f"{self.name} fails with what the build itself has made, so that stays")
            return
        wrong = guilty(changed, lambda some: not self._holds_with(images, some))
        install(images, ())
        for one in wrong:
            self._mend(one)
        if not self._holds(images):
            for one in changed:
                one.chosen = OWN
                one.notes.append(
                    f"{self.name} fails now and then with images that do well alone, so the build's own stays"
                )
            install(images, images)

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

    def _holds(self, images: Sequence[Candidates]) -> bool:
        return self._holds_with(images, images)

    def _holds_with(self, images: Sequence[Candidates], some: Sequence[Candidates]) -> bool:
        """Run the check with some of the images, and the build's own in the places of the others."""
        install(images, some)
        return self._run()

    def _holds_content(self, image: Candidates, content: bytes) -> bool:
        with self._in_place(image, content):
            return self._run()

    @contextlib.contextmanager
    def _in_place(self, image: Candidates, content: bytes) -> Iterator[None]:
        put(_place(image), content)
        try:
            yield
        finally:
            put(_place(image), image.contents[OWN])

    def _run(self) -> bool:
        self.runs += 1
        done = subprocess.run(["/bin/sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=2, stderr=2)
        return done.returncode == 0


def install(images: Sequence[Candidates], some: Sequence[Candidates]) -> None:
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
