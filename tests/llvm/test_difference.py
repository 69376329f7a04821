"""Differences of programs' texts."""

import difflib

import pytest

from aiocg.llvm.difference import difference


@pytest.mark.parametrize("changed", [[], [0], [50], [99], [10, 12], [10, 17], [10, 18], [3, 40, 96]])
@pytest.mark.parametrize("edit", ["replace", "delete", "insert"])
def test_a_text_without_numbers_has_the_differences_that_difflib_finds(changed: list[int], edit: str) -> None:
    before = [f"line {number}" for number in range(100)]
    after: list[str] = []
    for number, line in enumerate(before):
        if number in changed and edit != "delete":
            after.append(f"new {number}")
        if number not in changed or edit == "insert":
            after.append(line)
    expected = list(difflib.unified_diff(before, after, "a", "b", lineterm=""))
    assert difference("\n".join(before), "\n".join(after), "a", "b") == expected


BEFORE = """\
target triple = "x"

define i32 @f(i32 %0) #0 {
  %2 = alloca i32
  %3 = add i32 %0, 1
  br label %4

4:                                   ; preds = %1
  %5 = mul i32 %3, 2
  ret i32 %5
}

define void @gone() #1 {
  ret void
}

attributes #0 = { nounwind }
"""
AFTER = """\
target triple = "x"

define i32 @f(i32 %0) #0 {
  %2 = add i32 %0, 1
  br label %3

3:                                   ; preds = %1
  %4 = shl i32 %2, 1
  ret i32 %4
}

attributes #0 = { nounwind }
"""


def test_new_numbers_of_values_are_no_difference() -> None:
    lines = difference(BEFORE, AFTER, "before", "after")
    changes = [line for line in lines if line[0] in "-+"]
    assert changes == [
        "--- before",
        "+++ after",
        "-  %2 = alloca i32",
        "-  %5 = mul i32 %3, 2",
        "+  %4 = shl i32 %2, 1",
        "-",
        "-define void @gone() #1 {",
        "-  ret void",
        "-}",
    ]
    assert " 3:                                   ; preds = %1" in lines
    assert difference(BEFORE, BEFORE.replace("%5", "%7"), "before", "after") == []


def test_the_lines_that_are_there_make_the_new_text() -> None:
    lines = difference(BEFORE, AFTER, "before", "after")[2:]
    old, new = BEFORE.splitlines(), AFTER.splitlines()
    for line in lines:
        if line.startswith("@@"):
            _, before, after, _ = line.split()
            at, at_new = (int(part[1:].split(",")[0]) - 1 for part in (before, after))
        else:
            if line[0] in " -" and line[0] == "-":
                assert old[at] == line[1:]
            if line[0] in " +":
                assert new[at_new] == line[1:]
            at, at_new = at + (line[0] in " -"), at_new + (line[0] in " +")


def test_a_function_with_another_name_is_another_function() -> None:
    lines = difference(BEFORE, BEFORE.replace("@gone", '@"gone on"'), "before", "after")
    assert {"-define void @gone() #1 {", '+define void @"gone on"() #1 {', "-  ret void", "+  ret void"} <= set(lines)
