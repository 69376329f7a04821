"""Pictures: well-formed, with everything in its place."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.pictures._curves import bars, stairs
from aiocg.pictures._graph import Box, Edge, Graph, cfg, functions, layout, nested
from bench.terminal import Screen, recording

IR = """\
define i32 @f(i32 %n) {
  %c = icmp eq i32 %n, 0
  br i1 %c, label %zero, label %"odd name", !prof !0

zero:                                             ; preds = %0
  switch i32 %n, label %done [
    i32 1, label %done
    i32 2, label %zero
    i32 3, label %zero
  ]

"odd name":                                       ; preds = %0
  %v = invoke i32 @g()
          to label %done unwind label %pad

pad:                                              ; preds = %"odd name"
  unreachable

done:                                             ; preds = %zero
  ret i32 0
}

declare i32 @g()
"""

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """Return the lines of text of a picture, which must be well-formed and ask nobody for anything."""
    assert "href" not in svg and "@import" not in svg
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]


# ----------------------------------------------------------------------------------------------------- layout

edges_of = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60)
    )
)


@given(edges_of)
def test_boxes_of_a_graph_do_not_overlap_and_edges_end_at_their_boxes(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    sizes = {str(number): (20.0 + 7 * (number % 5), 18.0 + number % 3) for number in range(count)}
    edges = [(str(a), str(b)) for a, b in pairs]
    found = layout(sizes, edges)
    assert len(found.paths) == len(edges)
    for name, (x, y) in found.places.items():
        width, height = sizes[name]
        assert x - width / 2 >= -0.01 and x + width / 2 <= found.width + 0.01
        assert y - height / 2 >= -0.01 and y + height / 2 <= found.height + 0.01
        for other, (to_x, to_y) in found.places.items():
            if other != name:
                apart_x, apart_y = (width + sizes[other][0]) / 2, (height + sizes[other][1]) / 2
                assert abs(x - to_x) >= apart_x - 0.01 or abs(y - to_y) >= apart_y - 0.01
    for (source, target), points in zip(edges, found.paths, strict=True):
        for name, (x, y) in ((source, points[0]), (target, points[-1])):
            (middle_x, middle_y), (width, height) = found.places[name], sizes[name]
            assert abs(x - middle_x) <= width / 2 + 0.01 and abs(y - middle_y) <= height / 2 + 0.01
    assert layout(sizes, edges) == found


def test_what_comes_later_is_further_down_unless_it_leads_back() -> None:
    names = ["entry", "head", "body", "left", "right", "end"]
    edges = [("entry", "head"), ("head", "body"), ("body", "left"), ("body", "right"), ("left", "head"),
             ("right", "head"), ("head", "end")]  # fmt: skip
    places = layout(dict.fromkeys(names, (30.0, 20.0)), edges).places
    assert places["entry"][1] < places["head"][1] < places["body"][1] < places["left"][1] == places["right"][1]
    assert places["end"][1] > places["head"][1]


@pytest.mark.slow
def test_a_long_chain_is_laid_out() -> None:
    names = [str(number) for number in range(3000)]
    places = layout(dict.fromkeys(names, (30.0, 20.0)), list(pairwise(names))).places
    assert len({x for x, _ in places.values()}) == 1


# ----------------------------------------------------------------------------------------------- control flow


def test_control_flow_has_the_blocks_and_where_they_lead() -> None:
    graph = cfg(IR, "f")
    assert [box.lines for box in graph.boxes] == [
        ("entry  2",),
        ("zero  1",),
        ("odd name  1",),
        ("pad  1",),
        ("done  1",),
    ]
    assert [(edge.source, edge.target, edge.label) for edge in graph.edges] == [
        ("entry", "zero", "true"), ("entry", "odd name", "false"), ("zero", "done", "else"), ("zero", "done", "1"),
        ("zero", "zero", "2, 3"), ("odd name", "done", ""), ("odd name", "pad", "unwinds"),
    ]  # fmt: skip
    assert "entry  2" in texts(graph.svg()) and "unwinds" in texts(graph.svg())
    with pytest.raises(KeyError):
        cfg(IR, "g")


def test_blocks_may_show_what_is_in_them() -> None:
    body = "\n".join(f"  %{number} = add i32 %n, {number}" for number in range(40))
    text = f"define i32 @f(i32 %n) {{\nfirst:\n{body}\n  ret i32 %39\n}}\n"
    (box,) = cfg(text, "f", instructions=True).boxes
    assert box.lines[0] == "first:" and box.lines[-2:] == ("  … 29 more", "  ret i32 %39")
    assert len(functions(text)["f"][0].instructions) == 41


def test_graphviz_is_told_the_same() -> None:
    graph = Graph((Box("a", ('say "x"', "\\n")), Box("b", ())), (Edge("a", "b", "t"),), "two")
    assert graph.dot().splitlines() == [
        'digraph "two" {',
        '  node [shape=box, fontname="monospace"];',
        '  "a" [label="say \\"x\\"\\l\\\\n\\l"];',
        '  "b" [label=""];',
        '  "a" -> "b" [label="t"];',
        "}",
    ]


# ------------------------------------------------------------------------------------------ curves, bars, boxes


def test_curves_are_drawn_with_levels_and_names() -> None:
    found = texts(stairs({"one": [(0, 9.0), (5, 4.0)], "two": [(3, 6.0)]}, {"-Oz": 5.0}, across="steps", up="cost"))
    assert {"one", "two", "-Oz 5", "steps", "cost"} <= set(found)
    assert texts(stairs({}, {}, across="x", up="y"))
    both = texts(stairs({}, {"O2": 1.0, "O3": 1.0, "Oz": 0.99}, across="x", up="y"))
    assert {"O2, O3 1", "Oz 0.99"} <= set(both)


@given(st.lists(st.floats(-1e9, 1e9), max_size=20), st.lists(st.floats(-1e9, 1e9), max_size=3))
def test_any_values_can_be_drawn(values: list[float], levels: list[float]) -> None:
    named = {str(place): level for place, level in enumerate(levels)}
    texts(stairs({"a": list(enumerate(values))}, named, across="x", up="y"))


def test_bars_say_by_how_much_each_differs() -> None:
    found = texts(bars([("as it came", 100.0), ("mem2reg", 60.0), ("inline", 75.0)], {"-Oz": 50.0}, "cost"))
    assert {"100", "60  -40", "75  +15", "-Oz", "mem2reg"} <= set(found)


def test_boxes_are_within_each_other_as_lines_are_indented() -> None:
    drawn = nested("for i in 8 : L0\n  for j in 4 : L1 [parallel]\n    C[i] <- A[j]\nD[0] <- 1 < 2\n")
    assert texts(drawn) == ["for i in 8 : L0", "for j in 4 : L1 [parallel]", "C[i] <- A[j]", "D[0] <- 1 < 2"]
    outer, inner = [
        [float(one.attrib[name]) for name in ("x", "y", "width", "height")]
        for one in ET.fromstring(drawn).iter(f"{SVG}rect")
    ]
    assert outer[0] < inner[0] and outer[1] < inner[1]
    assert inner[0] + inner[2] < outer[0] + outer[2] and inner[1] + inner[3] < outer[1] + outer[3]
    assert texts(nested("")) == []


# --------------------------------------------------------------------------------------------------- terminals


def shown(screen: Screen) -> list[str]:
    return ["".join(character for character, _ in row).rstrip() for row in screen.rows]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("slow\rfast", ["fast"]),
        ("gone\r\x1b[2Kstays", ["stays"]),
        ("a\r\nb\r\nc\x1b[2A\rX\x1b[1B", ["X", "b", "c"]),
        ("a\r\nb\x1b[1A\r\x1b[Jc", ["c"]),
        ("ab\x1b[2Dc\x1b[1C\x1b[5Gd", ["cb  d"]),
        ("\x1b[?25l\x1b]0;title\x07\x1b[1;32mgreen\x1b[0m", ["green"]),
        ("ab\bc", ["ac"]),
        ("a\x07b\x00c", ["abc"]),
    ],
)
def test_a_terminal_shows_what_its_control_sequences_say(written: str, lines: list[str]) -> None:
    screen = Screen()
    screen.write(written)
    assert shown(screen) == lines


@given(st.text(st.sampled_from("ab\r\n\b\x1b[;0123456789ABCDGJKmh?]\x07"), max_size=200))
def test_a_terminal_shows_whatever_is_written(written: str) -> None:
    texts(recording([(0.0, written), (1.0, "end")]))


def test_colours_and_bold_are_kept() -> None:
    screen = Screen()
    screen.write("\x1b[1;31ma\x1b[22mb\x1b[39mc\x1b[92md\x1b[2me\x1b[mf")
    colors = [style for _, style in screen.rows[0]]
    assert colors[0][1] and not any(bold for _, bold in colors[1:])
    assert colors[0][0] == colors[1][0] != colors[2][0] == colors[5][0] and len({color for color, _ in colors}) == 4


def test_a_recording_ends_with_what_was_there_last_and_rests_are_short() -> None:
    drawn = recording([(0.0, "$ run\r\n"), (1.5, "1 of 2\r"), (60.0, "2 of 2\r\n"), (60.5, "done")])
    root = ET.fromstring(drawn)
    hidden = [one for one in root.iter(f"{SVG}g") if one.get("visibility") == "hidden"]
    assert ["".join(one.itertext()) for one in hidden] == ["1 of 2"]
    times = {one.get("begin"): one.get("end") for one in hidden[0].iter(f"{SVG}set")}
    assert times == {"1.00s": "2.00s"}
    assert texts(drawn)[:2] == ["$ run", "1 of 2"] and texts(drawn)[-1] == "done"
