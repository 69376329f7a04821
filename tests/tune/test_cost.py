"""What builds cost."""

from pathlib import Path

import pytest

from aiocg.tune._cost import FILE, SIZE, Bound, Cost, Measured, printed_numbers, together
from aiocg.tune._workspace import TuneError, Workspace


@pytest.mark.parametrize(
    ("output", "numbers"),
    [
        ("12\n", {"cost": 12.0}),
        ("   text  data\nsum: 1,234 bytes\n\n", {"cost": 1234.0}),
        ('noise\n{"cycles": 7, "size": 3.5, "name": "x"}\n', {"cycles": 7.0, "size": 3.5}),
        ('{"size": 3, "cost": 9}', {"cost": 9.0, "size": 3.0}),
        ("1e3", {"cost": 1000.0}),
        ("1234 app2.bin", {"cost": 1234.0}),
        ("==7== Collected : 2679332", {"cost": 2679332.0}),
    ],
)
def test_the_last_line_of_a_command_is_a_number_or_several(output: str, numbers: dict[str, float]) -> None:
    assert list(printed_numbers(output, "command").items()) == list(numbers.items())


@pytest.mark.parametrize(
    "output",
    ["", "none\n", '{"a": "b"}', "[1]", '{"a": true}', "5\nfailed\n", "3 tests in 12.5s", "12,5", '{"a": NaN}'],
)
def test_output_without_a_number_says_what_was_printed(output: str) -> None:
    with pytest.raises(TuneError, match="should print a number"):
        printed_numbers(output, "command")


@pytest.mark.parametrize("text", ["", "cycles", "cycles=", "cycles=2%", "=3", "cycles=+x", "cycles=1 2"])
def test_a_bound_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TuneError, match="is no bound"):
        Bound.read(text)


def test_a_bound_of_an_unknown_number_names_the_known_ones() -> None:
    with pytest.raises(TuneError, match="has no cycles, only size, file"):
        Bound.read("cycles=+1%").excess({"size": 1.0, "file": 1.0}, {"size": 1.0})


def test_variants_cost_their_sum_or_the_worst_and_all_have_to_fit() -> None:
    some = [Measured(3.0, {"size": 3.0, "x": 1.0}), Measured(5.0, {"size": 5.0}, overflow=2)]
    whole, worst = together(some, worst=False), together(some, worst=True)
    assert (whole.cost, whole.overflow, whole.numbers) == (8.0, 2, {"size": 8.0})
    assert (worst.cost, worst.overflow) == (5.0, 2)


def test_a_command_is_run_in_the_copy_and_the_original_stays(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    (root / "part").write_text("abc")
    workspace = Workspace.of(root, tmp_path / "copy")
    (workspace.copy / "part").write_text("abcdef")
    assert Cost("wc -c < part && echo new > other && wc -c < part").of(workspace, {}).cost == 6
    assert [path.name for path in root.iterdir()] == ["part"]
    assert (root / "part").read_text() == "abc"


def test_a_command_that_hangs_or_fails_says_so(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    workspace = Workspace.of(root, tmp_path / "copy")
    with pytest.raises(TuneError, match=r"did not end in 0\.2 s"):
        Cost("sleep 60", timeout=0.2).of(workspace, {})
    with pytest.raises(TuneError, match="ended with 3: no board"):
        Cost("echo no board >&2; exit 3").of(workspace, {})


def test_a_file_that_is_no_image_cannot_be_measured(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("text")
    workspace = Workspace.of(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    for how in (SIZE, FILE):
        with pytest.raises(TuneError, match="cannot be measured"):
            Cost(how).of(workspace, {"app": tmp_path / "app"})
