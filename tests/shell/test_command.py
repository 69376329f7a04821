"""The table of commands: what there is, under which names, and what arguments it takes."""

import pytest

from aiocg.cli.shell._command import Command, CommandError, CommandTable, Suggestion, split_words
from aiocg.cli.shell._commands import COMMANDS
from aiocg.cli.shell._suggestions import MOST, matching
from aiocg.errors import UnknownName

COMPILERGYM = [
    "tutorial", "list_datasets", "list_benchmarks", "set_benchmark", "list_actions", "action", "hill_climb",
    "try_all_actions", "greedy", "list_observations", "observation", "set_default_observation", "list_rewards",
    "reward", "set_default_reward", "commandline", "stack", "simplify_stack", "reset", "back", "undo",
    "breakpoint", "exit", "help",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPILERGYM)
def test_every_command_of_compilergym_is_known_with_underscores_and_with_hyphens(name: str) -> None:
    assert COMMANDS.find(name) is COMMANDS.find(name.replace("_", "-"))


@pytest.mark.parametrize("command", list(COMMANDS), ids=lambda command: command.name)
def test_every_command_has_help_and_examples_that_it_takes(command: Command) -> None:
    assert command.section
    assert command.summary
    assert command.usage.startswith(command.name)
    for example in command.examples:
        name, *words = example.split(maxsplit=1) if command.raw else split_words(example)
        assert COMMANDS.find(name) is command
        command.check(words)


async def nothing(shell: object, words: list[str]) -> None:
    """Do nothing."""


def test_an_unknown_command_is_an_error_that_suggests_others() -> None:
    with pytest.raises(UnknownName, match="unknown command 'acton'; did you mean action"):
        COMMANDS.find("acton")


def test_too_few_and_too_many_arguments_are_errors_that_show_the_usage() -> None:
    one = Command("one", "", "", nothing, ("FILE",))
    many = Command("many", "", "", nothing, ("NAME...",))
    none = Command("none", "", "", nothing)
    for command, words in ((one, ["a"]), (many, ["a", "b", "c"]), (none, [])):
        command.check(words)
    for command, words, says in (
        (one, [], "one needs FILE: one FILE"),
        (one, ["a", "b"], "takes only 1"),
        (many, [], r"many needs NAME: many NAME\.\.\."),
        (none, ["a"], "none takes no argument"),
    ):
        with pytest.raises(CommandError, match=says):
            command.check(words)


def test_two_commands_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two commands are called a"):
        CommandTable([Command("a", "", "", nothing), Command("b", "", "", nothing, aliases=("a",))])


def test_matching_puts_what_a_word_begins_first() -> None:
    named = [Suggestion(name) for name in ("partly-inline", "inline", "Inliner", "gvn")]
    assert [one.text for one in matching("inl", named)] == ["inline", "Inliner", "partly-inline"]
    assert len(matching("", (Suggestion(str(number)) for number in range(10**4)))) == MOST
