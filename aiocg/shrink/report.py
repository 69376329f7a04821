"""Gains for each image and symbol, as values, text, JSON and a page of HTML."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

from aiocg.errors import AiocgError
from aiocg.llvm.tools import apply, inlined
from aiocg.shrink._candidate import BY_OPTIONS, BY_SEARCH, FOUND, GCC, MIXED, NAMED, OURS, OWN, TUNED, Candidates
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
class _Symbol:
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
class _ImageReport:
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
    symbols: tuple[_Symbol, ...] = ()
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

    images: tuple[_ImageReport, ...]
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


def _compared(before: Mapping[str, int], after: Mapping[str, int], causes: Mapping[str, str]) -> tuple[_Symbol, ...]:
    """Return the symbols of two images, the largest change first, then the largest."""
    names = dict.fromkeys((*before, *after))
    symbols = [_Symbol(name, before.get(name, 0), after.get(name, 0), causes.get(name, "")) for name in names]
    return tuple(sorted(symbols, key=lambda one: (-abs(one.before - one.after), -one.before, one.name)))


def _image_report(image: Candidates) -> _ImageReport:
    before, after = _symbols(image.contents[OWN]), _symbols(image.content)
    notes = list(image.notes)
    recipe = image.recipes.get(image.chosen, NAMED)
    line = shlex.join(recipe.line) or "-Oz"
    all_by_gcc = bool(recipe.by_gcc) and {*image.linker.parts} <= {*recipe.by_gcc}
    if recipe.by_gcc and not all_by_gcc:
        notes.append(f"by {GCC} {line}: {', '.join(sorted(map(name_of, recipe.by_gcc)))}")
    if not before:
        notes.append("its symbols are stripped, so nothing is known of each")
    symbols = _compared(before, after, _causes_of(image, before, after)) if before and after else ()
    return _ImageReport(
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
        return _explained(before, after, merged, {}, None)
    try:
        places, _ = inlined(image.module, image.recipes[image.chosen].actions, image.name)
        text = apply(image.module, ["globaldce"], text=True).decode(errors="replace")
    except AiocgError:
        return _explained(before, after, merged, {}, None)
    return _explained(before, after, merged, places, {one or other for one, other in _DEFINED.findall(text)})


def _explained(
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


# ---- The report as one page of HTML that needs nothing else, a map of each image in which areas are bytes; and a badge

WIDTH, HEIGHT = 1000.0, 500.0
SMALLEST = 12.0  # pixels of a side from which a box has a label

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>aiocg shrink</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1000px; padding: 0 1rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .1rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left; overflow-wrap: anywhere }}
svg {{ width: 100%; height: auto }} rect {{ stroke: Canvas }} text {{ font-size: 11px; fill: #000 }}
</style>
<h1>{title}</h1>
{images}
</html>
"""


_BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="150" height="20" role="img" aria-label="size: {gain}">
<rect width="40" height="20" fill="#555"/><rect x="40" width="110" height="20" fill="#087f7b"/>
<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">
<text x="20" y="14">size</text><text x="95" y="14">{gain}</text></g></svg>
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle of the map."""

    left: float
    top: float
    width: float
    height: float


def page(report: Report) -> str:
    """Return a page that shows a report."""
    gain = f"{report.before:,} &rarr; {report.after:,} bytes"
    alone = "".join(f"<li>{escape(name)}: {escape(reason)}" for name, reason in report.left_alone.items())
    images = "".join(map(_image, report.images)) + (f"<h2>Left alone</h2><ul>{alone}</ul>" if alone else "")
    return _PAGE.format(title=gain, images=images)


def badge(report: Report) -> str:
    """Return a picture, for a README, that says how large all images are and what was gained, as SVG."""
    gain = f" ({(report.after - report.before) / report.before:+.1%})" if report.before else ""
    return _BADGE.format(gain=f"{report.after:,} B{gain}")


def _squarified(sizes: Sequence[float], box: _Box) -> list[_Box]:
    """Divide a rectangle in proportion to sizes, in boxes as near to squares as rows of them can be.

    Bruls, Huizing and van Wijk, Squarified Treemaps, 2000.

    Args:
        sizes: greater than 0, the largest first.
        box: the rectangle.
    """
    boxes: list[_Box] = []
    rest, scale = box, box.width * box.height / sum(sizes) if sizes else 0.0
    areas = [size * scale for size in sizes]
    while areas:
        side = min(rest.width, rest.height)
        count = 1
        while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
            count += 1
        row, areas = areas[:count], areas[count:]
        depth = sum(row) / side if side else 0.0
        at = 0.0
        for area in row:
            length = area / depth if depth else 0.0
            if rest.width >= rest.height:
                boxes.append(_Box(rest.left, rest.top + at, depth, length))
            else:
                boxes.append(_Box(rest.left + at, rest.top, length, depth))
            at += length
        if rest.width >= rest.height:
            rest = _Box(rest.left + depth, rest.top, rest.width - depth, rest.height)
        else:
            rest = _Box(rest.left, rest.top + depth, rest.width, rest.height - depth)
    return boxes


def _worst(areas: Sequence[float], side: float) -> float:
    """Return the worst ratio of sides in a row."""
    total = sum(areas)
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for area in areas)


def _image(image: _ImageReport) -> str:
    sizes = "".join(
        f"<tr><td>{escape(name)}{' (taken)' if name == image.chosen else ''}<td>{one.bytes:,}<td>{one.code:,}"
        f"<td>{one.constants:,}<td>{one.data:,}<td>{one.unwind:,}"
        for name, one in image.images.items()
    )
    head = "<tr><th><th>bytes<th>code<th>constants<th>data<th>unwind tables"
    notes = "".join(f"<li>{escape(note)}" for note in image.notes)
    return (
        f"<h2>{escape(image.name)}</h2><table>{head}{sizes}</table>{f'<ul>{notes}</ul>' if notes else ''}"
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img">{"".join(_rectangles(image.symbols))}</svg>'
    )


def _rectangles(symbols: Sequence[_Symbol]) -> Iterator[str]:
    """Draw each symbol as large as it was; what is left of it is dark."""
    shown = sorted((one for one in symbols if one.before), key=lambda one: -one.before)
    for symbol, box in zip(shown, _squarified([one.before for one in shown], _Box(0, 0, WIDTH, HEIGHT)), strict=True):
        left = min(symbol.after / symbol.before, 1.0)
        colour = "#e99" if symbol.after > symbol.before else "#8bd" if symbol.after else "#bbb"
        cause = f", {escape(symbol.cause)}" if symbol.cause else ""
        title = f"{escape(symbol.name)}: {symbol.before:,} &rarr; {symbol.after:,}{cause}"
        size = f'x="{box.left:.1f}" width="{box.width:.1f}"'
        yield f'<g><title>{title}</title><rect {size} y="{box.top:.1f}" height="{box.height:.1f}" fill="#dfe6d8"/>'
        height = box.height * left
        yield f'<rect {size} y="{box.top + box.height - height:.1f}" height="{height:.1f}" fill="{colour}"/>'
        if box.height > SMALLEST and box.width > SMALLEST:
            room = int(box.width / 6.5)
            yield f'<text x="{box.left + 3:.1f}" y="{box.top + 11:.1f}">{escape(symbol.name[:room])}</text>'
        yield "</g>"
