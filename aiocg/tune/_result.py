"""What a tuning has found: for a person, for a file, and for the next build."""

import html
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiocg.tune._answers import Answer
from aiocg.tune._options import ALL_FILES, LINK, Words
from aiocg.tune._workspace import TuneError

SHOWN = 40  # lines of a report


class Gain(msgspec.Struct, frozen=True):
    """What an option saves, beside all others.

    Attributes:
        scope: the file that has it, "" for all, "<link>" for links.
        option: the option.
        gain: by how much the cost would be greater without it; None if nothing works without it.
    """

    scope: str
    option: str
    gain: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for a build.

    Attributes:
        build: the command, for the shell.
        cost: what was lowered.
        unit: of the cost, "bytes" or "".
        own, best: the numbers with the build's own options and with what was found, the cost first.
        overflow: by how many bytes memory was too small before and after.
        rivals: the cost at single levels for all files.
        choice: the options, by file; "" for all, "<link>" for links.
        gains: of each option, as far as there was time for it.
        files: bytes of each file's objects before and after, where that is known.
        images: the SHA-256 of each image, by variant.
        kept: files that stay as they are, and why.
        broken: bounds that nothing has kept.
        notes: what else is to be known.
        checked: the command that the result has passed; "" if it was not checked.
        noise: the share by which the cost of one and the same build varies.
        evaluations: how many choices were measured.
        seconds: of the search.
        answer: what to give to the build; None if nothing was found.
        verified: whether a build with the answer alone has come out as promised; "" if nobody has tried.
        space: what was chosen from.
        only: the pattern of images that count.
        variants: of the build.
    """

    build: str
    cost: str
    unit: str
    own: Mapping[str, float]
    best: Mapping[str, float]
    overflow: tuple[int, int] = (0, 0)
    rivals: Mapping[str, float] = {}
    choice: Mapping[str, Words] = {}
    gains: tuple[Gain, ...] = ()
    files: Mapping[str, tuple[int, int]] = {}
    images: tuple[Mapping[str, str], ...] = ()
    kept: Mapping[str, str] = {}
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    checked: str = ""
    noise: float = 0.0
    evaluations: int = 0
    seconds: float = 0.0
    answer: Answer | None = None
    verified: str = ""
    space: str = ""
    only: str = "*"
    variants: tuple[str, ...] = ()

    @property
    def is_verified(self) -> bool:
        """Whether a build with the answer alone comes out as promised."""
        return self.verified.startswith("verified")

    @property
    def headline(self) -> str:
        """The gain in one line."""
        state = f"`{self.checked}` passes" if self.checked else "unchecked: say --check COMMAND"
        if self.broken:
            state = f"NOT within --at-most {', '.join(self.broken)}; {state}"
        if self.answer is not None and not self.is_verified:
            state = f"NOT VERIFIED, see below; {state}"
        if self.overflow[1]:
            return f"memory is too small by {self.overflow[0]:,} -> {self.overflow[1]:,} bytes: it still does not fit"
        name, after = next(iter(self.best.items()))
        what = self.unit or (f"{name} of `{self.cost}`" if name != "cost" else f"by `{self.cost}`")
        if self.overflow[0]:
            return f"it fits: memory was too small by {self.overflow[0]:,} bytes -> {after:,.10g} {what}; {state}"
        before = self.own[name]
        share = f" ({after / before - 1:+.1%})" if before else ""
        over = min(self.rivals, key=lambda level: self.rivals[level]) if self.rivals else ""
        rival = f", {after / self.rivals[over] - 1:+.1%} on {over}" if over and self.rivals[over] else ""
        return f"{before:,.10g} -> {after:,.10g} {what}{share}{rival}; {state}"

    def lines(self) -> list[str]:
        """The report for a terminal."""
        lines = [self.headline]
        others = [name for name in [*self.own][1:] if name in self.best]
        lines += [f"  {name}: {self.own[name]:,.10g} -> {self.best[name]:,.10g}" for name in others]
        if self.noise:
            lines.append(f"  the same build varies by {self.noise:.2%}, so what is better was measured in turns")
        for scope in sorted(self.choice, key=lambda one: (one not in (ALL_FILES, LINK), one)):
            name = {ALL_FILES: "all files", LINK: "links"}.get(scope, scope)
            sizes = f"  {self.files[scope][0]:,} -> {self.files[scope][1]:,}" if scope in self.files else ""
            known = {one.option: one.gain for one in self.gains if one.scope == scope}
            told = [f"{word} ({_told(known[word])})" if word in known else word for word in self.choice[scope]]
            lines.append(f"{name}{sizes}: {', '.join(told)}")
        if len(lines) > SHOWN:
            lines = [*lines[:SHOWN], f"… {len(lines) - SHOWN} lines more in the lock file and with --html"]
        lines += [f"{name} stays as built: {reason}" for name, reason in list(self.kept.items())[:10]]
        lines += self.notes
        if self.answer is not None:
            same = [f"the same without aiocg: {self.answer.use}"] if self.is_verified else []
            lines += ["", *same, f"  {self.verified}" if same else self.verified]
            lines += [] if self.answer.name or self.answer.text == self.answer.use else ["", self.answer.text]
        return lines

    def page(self) -> str:
        """The report as one page of HTML."""
        rows = "".join(
            f"<tr><td>{html.escape({ALL_FILES: 'all files', LINK: 'links'}.get(one.scope, one.scope))}"
            f"<td><code>{html.escape(one.option)}</code><td class=n>{html.escape(_told(one.gain))}"
            for one in self.gains
        )
        most = max((before for before, _ in self.files.values()), default=1)
        bars = "".join(
            f"<tr><td>{html.escape(name)}<td class=n>{before:,}<td class=n>{after:,}"
            f'<td><div class=b style="width:{300 * before / most:.0f}px">'
            f'<div class=a style="width:{after / max(before, 1):.1%}">'
            for name, (before, after) in sorted(self.files.items(), key=lambda one: -one[1][0])
        )
        told = self.answer or Answer("", "", "", "")
        answer = f"<h2>{html.escape(told.name or 'The answer')}</h2><pre>{html.escape(told.text)}</pre>"
        return _PAGE.format(
            title=html.escape(self.headline), use=html.escape(told.use), rows=rows, bars=bars, answer=answer
        )


def read_result(path: Path) -> Result:
    """Read a lock file.

    Raises:
        TuneError: when it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TuneError(f"{path} is no file of aiocg tune: {error}") from None


def result_text(result: Result) -> bytes:
    """Return the content of a lock file."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def _told(gain: float | None) -> str:
    if gain is None:
        return "needed"
    return f"{-gain:+,.10g}" if gain else "nothing alone"


_PAGE = """<!doctype html><meta charset=utf-8><title>aiocg tune</title><style>
body{{font:15px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}}td,th{{padding:.1em .8em;text-align:left}}
.n{{text-align:right;font-variant-numeric:tabular-nums}}pre{{background:#f4f4f4;padding:1em;overflow:auto}}
.b{{background:#f2c9b8;height:.8em}}.a{{background:#2a7f62;height:.8em}}</style>
<h1>{title}</h1><pre>{use}</pre><h2>Options, and what each saves</h2><table>{rows}</table>
<h2>Files</h2><table><tr><th>file<th>before<th>after<th>{bars}</table>{answer}"""
