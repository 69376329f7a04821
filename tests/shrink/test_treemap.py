"""The map of an image."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.shrink.image import Image
from aiocg.shrink.report import Report, _Box, _compared, _ImageReport, _squarified, badge, page


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=60))
def test_boxes_have_areas_in_proportion_to_sizes_and_lie_within_the_rectangle(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    boxes = _squarified(sizes, _Box(0, 0, 1000, 500))
    scale = 1000 * 500 / sum(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size * scale, rel=1e-6)
        assert box.left >= -1e-6 and box.top >= -1e-6
        assert box.left + box.width <= 1000 + 1e-6 and box.top + box.height <= 500 + 1e-6


def test_nothing_is_drawn_of_nothing() -> None:
    assert _squarified([], _Box(0, 0, 10, 10)) == []


def test_a_page_needs_nothing_else_and_names_are_text() -> None:
    before, after = Image(100, 10, 0, 5), Image(60, 10, 0, 5)
    symbols = _compared({"operator<": 60, "gone": 40}, {"operator<": 60}, {"gone": "inlined into operator<"})
    report = Report((_ImageReport("app", "found", {"own": before, "found": after}, symbols),), {"<lib>": "why & how"})
    text = page(report)
    assert (
        "operator&lt;: 60 &rarr; 60" in text
        and "gone: 40 &rarr; 0, inlined into operator&lt;" in text
        and "&lt;lib&gt;: why &amp; how" in text
    )
    assert not re.search(r"https?:|<script|<link|@import", text)


def test_a_badge_says_what_there_is_and_what_was_gained() -> None:
    images = {"own": Image(9000, 900, 0, 100), "found": Image(7000, 450, 0, 50)}
    text = badge(Report((_ImageReport("app", "found", images),)))
    assert "7,500 B (-25.0%)" in text and not re.search(r"href|<script", text)
    assert "0 B" in badge(Report(()))
