"""The pieces that pictures are drawn with. They can be read on white and on black; a page may set other colours."""

import html
from collections.abc import Iterable

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
SIZE = 12  # of text
CHARACTER = 7.3  # pixels that a character is wide
LINE = 16  # pixels from one line of text to the next
LONGEST = 64  # characters of a line
MARGIN = 8

PAPER, RULE = "#f6f8fa", "#7b8794"  # of boxes
INK, TEXT = "#7b8794", "#7b8794"  # of what stands on the ground, which may be white or black
DARK = "#1f2328"  # of what stands in a box


def picture(width: float, height: float, drawn: Iterable[str], title: str = "") -> str:
    """Return a whole picture: what is drawn, with a margin around it."""
    across, down = width + 2 * MARGIN, height + 2 * MARGIN
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="aiocg" role="img" width="{across:.0f}" height="{down:.0f}" '
        f'viewBox="{-MARGIN} {-MARGIN} {across:.1f} {down:.1f}" font-family="{FONT}" font-size="{SIZE}">'
        f"<title>{html.escape(title)}</title>{arrow}{''.join(drawn)}</svg>\n"
    )


def text(x: float, y: float, words: str, *, fill: str = DARK, size: int = SIZE, anchor: str = "") -> str:
    """Return a line of text whose left end, or what `anchor` says, is at a place."""
    kind = "inside" if fill == DARK else "outside"
    more = (f' font-size="{size}"' if size != SIZE else "") + (f' text-anchor="{anchor}"' if anchor else "")
    shown = html.escape(shortened(words), quote=False)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" fill="{fill}"{more} xml:space="preserve">{shown}</text>'


def shortened(line: str) -> str:
    """Return a line that has room."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
