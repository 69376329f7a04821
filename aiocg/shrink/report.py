"""Gains for each image and symbol, as values, text and JSON."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from aiocg.errors import AiocgError
from aiocg.llvm.tools import apply, inlined
from aiocg.shrink.candidate import BY_OPTIONS, BY_SEARCH, FOUND, GCC, MIXED, NAMED, OURS, OWN, TUNED, Candidates
from aiocg.shrink.image import Image
from aiocg.shrink.inputs import name_of
from aiocg.transport.elf import merged_symbols, symbol_sizes

HOW = {
    OWN: "as the build has made it",
    FOUND: "by search",
    TUNED: "by search and tuning",
    MIXED: "by search and tuning, and by GCC where its objects are smaller",
    BY_OPTIONS: "by search of GCC's options",
}
SHOWN = 10  # symbols of an image in text
OUTLINED = "OUTLINED_FUNCTION"
CULPRITS = 3  # functions that are named in one cause

_DEFINED = re.compile(r'^define [^\n]*?@(?:"([^"\n]+)"|([^\s("]+))\(', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or variable of an image.

    Attributes:
        before: bytes in the build's own image, 0 if it is not there.
        after: bytes in the image that was taken, 0 if it is gone.
        cause: what has become of it; "" if nothing is known.
    """

    name: str
    before: int
    after: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ImageReport:
    """What came of an image.

    Attributes:
        name: its path.
        chosen: how the image that was taken was made.
        images: the sizes by each way of making it, the build's own first.
        symbols: the largest change first.
        notes: what went otherwise than expected.
        saved: the options of a tuned image, and the bytes that each has saved.
        compiler: whose levels they are compared with.
        by_lock: whether the lock file says which image is taken.
        by_gcc: the options of GCC, if all objects of the image that was taken are its; else "".
    """

    name: str
    chosen: str
    images: Mapping[str, Image]
    symbols: tuple[Symbol, ...] = ()
    notes: tuple[str, ...] = ()
    saved: Mapping[str, int] = field(default_factory=dict)
    compiler: str = "clang"
    by_lock: bool = False
    by_gcc: str = ""

    @property
    def before(self) -> int:
        """The bytes that the build has made."""
        return self.images[OWN].bytes

    @property
    def after(self) -> int:
        """The bytes that there are now."""
        return self.images[self.chosen].bytes

    @property
    def rival(self) -> tuple[str, int]:
        """The smallest image that was not found by the search, and its bytes."""
        name = min((one for one in self.images if one not in BY_SEARCH), key=lambda one: self.images[one].bytes)
        return name, self.images[name].bytes

    @property
    def is_compared(self) -> bool:
        """Whether an image of a compiler alone was made: by a lock file there is none."""
        return any(one not in (OWN, *BY_SEARCH) for one in self.images)

    def how(self, name: str) -> str:
        """Say how one of the images was made."""
        if self.by_gcc and name == self.chosen:
            return f"{GCC} {self.by_gcc} and the options of tuning"
        return HOW.get(name, name if name.startswith(f"{GCC} ") else f"{self.compiler} {name}")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a build.

    Attributes:
        images: those that could be linked again.
        left_alone: the others, and why.
        hint: how to have the same by other means.
    """

    images: tuple[ImageReport, ...]
    left_alone: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""

    @property
    def before(self) -> int:
        """The bytes of all images that the build has made."""
        return sum(one.before for one in self.images)

    @property
    def after(self) -> int:
        """The bytes of all images now."""
        return sum(one.after for one in self.images)

    @property
    def rival(self) -> int:
        """The bytes of the smallest images that were not found by the search."""
        return sum(one.rival[1] for one in self.images)

    def as_json(self) -> dict[str, object]:
        """Return the report as JSON has it."""
        images = [
            {
                "name": one.name,
                "chosen": one.chosen,
                "before": one.before,
                "after": one.after,
                "sizes": {name: {"bytes": size.bytes, **asdict(size)} for name, size in one.images.items()},
                "symbols": [asdict(symbol) for symbol in one.symbols],
                "notes": list(one.notes),
                "saved": dict(one.saved),
            }
            for one in self.images
        ]
        alone = dict(self.left_alone)
        return {"before": self.before, "after": self.after, "images": images, "left_alone": alone, "hint": self.hint}

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        for one in self.images:
            name, size = one.rival
            compilers = ", ".join(dict.fromkeys([one.compiler, *(GCC for way in one.images if way.startswith(GCC))]))
            maker = "the build" if name == OWN else one.how(name)
            rival = f"best of {compilers} and the build: {size:,} by {maker}{_share(size, one.after)}"
            others = f"; {rival}" if one.chosen != name and one.is_compared else ""
            gain = f"{one.before:,} -> {one.after:,} bytes{_share(one.before, one.after)}"
            lock = ", as the lock file says (--update searches again)" if one.by_lock else ""
            yield f"{one.name}: {gain}, {one.how(one.chosen)}{lock}{others}"
            before, after = one.images[OWN], one.images[one.chosen]
            if after.zeroed > before.zeroed:
                yield f"  memory that begins as zero, not counted: {before.zeroed:,} -> {after.zeroed:,}"
            for symbol in [symbol for symbol in one.symbols if symbol.before != symbol.after][:SHOWN]:
                cause = f": {symbol.cause}" if symbol.cause else ""
                yield f"  {symbol.before:>9,} -> {symbol.after:>7,}  {symbol.name}{cause}"
            if any(one.saved.values()):
                yield "  of that by " + ", ".join(f"{option}: {count:,}" for option, count in one.saved.items())
            for note in one.notes:
                yield f"  note: {note}"
        for name, reason in self.left_alone.items():
            yield f"{name}: left as the build has made it: {reason}"
        if len(self.images) > 1:
            rival = f"; best of the compilers and the build: {self.rival:,}{_share(self.rival, self.after)}"
            rival = rival if all(one.is_compared for one in self.images) else ""
            yield f"in all: {self.before:,} -> {self.after:,} bytes{_share(self.before, self.after)}{rival}"
        if self.hint:
            yield self.hint


def report_of(images: Sequence[Candidates], left_alone: Mapping[str, str], hint: str = "") -> Report:
    """Make a report of images that are in their places."""
    return Report(tuple(map(_image_report, images)), dict(left_alone), hint)


def compared(before: Mapping[str, int], after: Mapping[str, int], causes: Mapping[str, str]) -> tuple[Symbol, ...]:
    """Return the symbols of two images, the largest change first, then the largest."""
    names = dict.fromkeys((*before, *after))
    symbols = [Symbol(name, before.get(name, 0), after.get(name, 0), causes.get(name, "")) for name in names]
    return tuple(sorted(symbols, key=lambda one: (-abs(one.before - one.after), -one.before, one.name)))


def _image_report(image: Candidates) -> ImageReport:
    before, after = _symbols(image.contents[OWN]), _symbols(image.content)
    notes = list(image.notes)
    recipe = image.recipes.get(image.chosen, NAMED)
    line = shlex.join(recipe.line) or "-Oz"
    all_by_gcc = bool(recipe.by_gcc) and {*image.linker.parts} <= {*recipe.by_gcc}
    if recipe.by_gcc and not all_by_gcc:
        notes.append(f"by {GCC} {line}: {', '.join(sorted(map(name_of, recipe.by_gcc)))}")
    if not before:
        notes.append("its symbols are stripped, so nothing is known of each")
    symbols = compared(before, after, _causes_of(image, before, after)) if before and after else ()
    return ImageReport(
        image.name,
        image.chosen,
        image.images,
        symbols,
        tuple(notes),
        recipe.saved,
        image.compiler,
        image.by_lock,
        line if all_by_gcc else "",
    )


def _causes_of(image: Candidates, before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, str]:
    """Return what has become of functions of an image, as far as that is known.

    Args:
        image: with the image that is taken.
        before: the sizes of the symbols in the build's own image.
        after: in the one that is taken.
    """
    merged = merged_symbols(image.content)
    if image.chosen not in OURS or image.compiler != Candidates.compiler:
        return explained(before, after, merged, {}, None)
    try:
        places, _ = inlined(image.module, image.recipes[image.chosen].actions, image.name)
        text = apply(image.module, ["globaldce"], text=True).decode(errors="replace")
    except AiocgError:
        return explained(before, after, merged, {}, None)
    return explained(before, after, merged, places, {one or other for one, other in _DEFINED.findall(text)})


def explained(
    before: Mapping[str, int],
    after: Mapping[str, int],
    merged: Mapping[str, str],
    places: Mapping[str, Sequence[str]],
    joined: Collection[str] | None,
) -> dict[str, str]:
    """Say what has become of symbols.

    Args:
        before, after: the sizes of symbols.
        merged: symbols that share their place with another one.
        places: the functions into which each function was inlined.
        joined: the functions that the linker has found to be used; None if unknown.
    """
    held: dict[str, list[str]] = {}
    for name, into in places.items():
        for one in into:
            held.setdefault(one, []).append(name)
    found = {}
    for name in {**before, **after}:
        if name in merged:
            found[name] = f"the same as {merged[name]}"
        elif name not in after and "@" in name:  # GNU's linker names a variable so that a program has of a library
            found[name] = "stays in its library, and is not copied to here"
        elif name not in after and name in places:
            found[name] = f"inlined into {_named(places[name])}"
        elif name not in after and joined is not None and name not in joined:
            found[name] = "nothing uses it"
        elif name not in after and joined is not None:
            found[name] = "merged with an equal one, or no longer used"
        elif name.startswith(OUTLINED):
            found[name] = "a sequence of instructions that occurs often"
        elif name in held and after[name] > before.get(name, 0):
            found[name] = f"has {_named(held[name])} within"
        elif name not in before and joined is not None and name in joined:
            found[name] = "was inlined in the build's own image"
    return found


def _named(names: Sequence[str]) -> str:
    """Name some functions, each once, in the order in which they come."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - CULPRITS} more" if len(known) > CULPRITS else ""
    return ", ".join(known[:CULPRITS]) + more


def _symbols(content: bytes) -> dict[str, int]:
    """Return the sizes of an image's symbols; of WebAssembly none."""
    try:
        return symbol_sizes(content)
    except ValueError:
        return {}


def _share(before: int, after: int) -> str:
    return f" ({(after - before) / before:+.1%})" if before and before != after else ""
