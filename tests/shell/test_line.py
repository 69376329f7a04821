"""Lines as they are typed: commands and words."""

import pytest

from aiocg.cli.shell._command import CommandError, fragment_of, split_commands, split_words


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("", []),
        ("  ;; ; ", []),
        ("# a comment; undo", []),
        ("undo; redo ;stack", ["undo", "redo", "stack"]),
        ("undo\n\n# then\nredo\n", ["undo", "redo"]),
        ("action simplifycfg<a;b>; undo", ["action simplifycfg<a;b>", "undo"]),
        ("action function(loop(a;b));undo", ["action function(loop(a;b))", "undo"]),
        ("save 'a;b.json'; undo", ["save 'a;b.json'", "undo"]),
        ('action @"odd;name"(sroa); undo', ['action @"odd;name"(sroa)', "undo"]),
        ("save don't; undo", ["save don't", "undo"]),
        ("action a>; undo", ["action a>", "undo"]),
        ("python x = 1; print(x)", ["python x = 1; print(x)"]),
        ("undo; python a; b", ["undo", "python a; b"]),
    ],
)
def test_commands_end_at_semicolons_and_line_ends_that_nothing_encloses(text: str, commands: list[str]) -> None:
    assert split_commands(text, {"python"}) == commands


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", []),
        ("  action   mem2reg\tgvn ", ["action", "mem2reg", "gvn"]),
        ("write 'my file.ll'", ["write", "my file.ll"]),
        ('write "my file.ll" b', ["write", "my file.ll", "b"]),
        ('action @"odd name"(sroa)', ["action", '@"odd name"(sroa)']),
        ("""action '@"odd name"(sroa)'""", ["action", '@"odd name"(sroa)']),
        ("save don't", ["save", "don't"]),
        ("save ''", ["save", ""]),
    ],
)
def test_quotes_around_a_whole_word_are_dropped_and_others_kept(command: str, words: list[str]) -> None:
    assert split_words(command) == words


@pytest.mark.parametrize("command", ["write 'a", 'write "a', 'action @"odd'])
def test_a_quote_that_is_not_closed_is_named(command: str) -> None:
    with pytest.raises(CommandError, match="without another that closes it"):
        split_words(command)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", ([], "")),
        ("act", ([], "act")),
        ("action ", (["action"], "")),
        ("action mem2reg gv", (["action", "mem2reg"], "gv")),
        ("undo; act", ([], "act")),
        ("undo; ", ([], "")),
        ("action simplifycfg<a;b> g", (["action", "simplifycfg<a;b>"], "g")),
    ],
)
def test_what_is_being_typed_is_the_last_word_of_the_last_command(text: str, fragment: tuple[list[str], str]) -> None:
    assert fragment_of(text) == fragment
