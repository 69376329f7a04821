"""What Tab offers."""

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from aiocg.cli.shell._prompt import ShellCompleter, suggest

from .conftest import Spoken

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one runtime for all of them


def texts(say: Spoken, line: str) -> list[str]:
    """Return what the last word of a line may become."""
    return [suggestion.text for suggestion in suggest(say.shell, line)]


async def test_commands_are_completed_with_hyphens(say: Spoken) -> None:
    assert texts(say, "set_d") == ["set-default-observation", "set-default-reward"]
    assert "undo" in texts(say, "action double; und")
    assert texts(say, "help hill") == ["hill-climb"]
    assert texts(say, "nonsense a") == []
    assert texts(say, "undo ") == []


async def test_each_argument_has_suggestions_of_its_kind(say: Spoken) -> None:
    for line, expected in (
        ("action double incr", "increment"),
        ("observation val", "value"),
        ("observation value dig", "digits"),
        ("reward p", "pid"),
        ("set-default-reward ", "value"),
        ("set-action-space Rec", "Recipes"),
        ("set-env scrip", "scripted-v0"),
        ("list-benchmarks progr", "programs-v0"),
        ("set-benchmark progr", "programs-v0/"),
        ("set-benchmark programs-v0/gc", "programs-v0/gcd"),
        ("set-benchmark benchmark://programs-v0/gc", "benchmark://programs-v0/gcd"),
        ("set-benchmark generator://csm", "generator://csmith-v0/"),
    ):
        assert expected in texts(say, line), line
    described = {one.text: one.description for one in suggest(say.shell, "action ")}
    assert described["double"] == "multiply by 2"


async def test_actions_are_those_of_the_action_space(say: Spoken) -> None:
    await say("set-action-space Places; action @0(raise)")
    assert texts(say, "action ") == ["@0("]
    assert texts(say, "action @0(ra") == ["@0(raise)"]
    await say("set-action-space Texts")
    assert "square" in texts(say, "action squ")


async def test_datasets_that_would_have_to_be_fetched_have_names_but_no_programs(
    say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    assert texts(say, "set-benchmark angha") == ["anghabench-v1/"]
    assert texts(say, "set-benchmark anghabench-v1/") == []


async def test_datasets_without_an_end_are_not_enumerated(say: Spoken) -> None:
    assert texts(say, "set-benchmark scripted-v0/1")[:3] == ["scripted-v0/1", "scripted-v0/10", "scripted-v0/11"]


async def test_files_are_completed_and_for_programs_only_those_that_can_be_one(
    say: Spoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources").mkdir()
    for name in ("sources/a.c", "sources/notes.txt", "b.ll", ".hidden"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert texts(say, "save ") == ["b.ll", "sources/"]
    assert texts(say, "load .h") == [".hidden"]
    assert texts(say, "set-benchmark ./") == ["./b.ll", "./sources/"]
    assert texts(say, "set-benchmark sources/") == ["sources/a.c"]
    assert texts(say, f"write {tmp_path}/so") == [f"{tmp_path}/sources/"]
    assert texts(say, "write /no/such/folder/") == []


async def test_the_menu_has_names_that_leave_room_for_what_they_mean(say: Spoken) -> None:
    document = Document("action in")
    found = list(ShellCompleter(say.shell).get_completions(document, CompleteEvent()))
    assert (found[0].text, found[0].start_position, found[0].display_meta_text) == ("increment", -2, "add 1")
    assert all(len(one.display_text) <= 48 for one in found)
