"""The language of action texts: what is read is what was written, and every mistake is named with its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.llvm._action_text import ActionSyntaxError, ActionText, parse, quote
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._pipeline_text import Element, read, walk, write
from aiocg.workers.llvm.module import Module

NAMES = st.binary(min_size=1, max_size=12).map(lambda name: name.replace(b"\0", b"\1"))
PIPELINES = st.from_regex(r"[a-z][a-z0-9<>;=,()-]{0,30}", fullmatch=True)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.from_regex(r"[a-z0-9-]{1,5}", fullmatch=True), max_size=3
).map(lambda options: tuple(sorted(options.items())))


def _is_balanced(pipeline: str) -> bool:
    return not pipeline.startswith(("{", "@")) and ")@" not in pipeline


ACTIONS = st.one_of(
    st.tuples(PIPELINES, OPTIONS).map(lambda made: ActionText(*made)),
    st.tuples(PIPELINES, st.just(()), NAMES).map(lambda made: ActionText(*made)),
    st.tuples(st.just(""), st.just(()), NAMES, st.integers(0, 10_000), st.sampled_from([0, 2, 3, 16, 1024])).map(
        lambda made: ActionText(*made)
    ),
    st.dictionaries(NAMES, PIPELINES.filter(_is_balanced), min_size=2, max_size=4).map(
        lambda each: ActionText(each=tuple(each.items()))
    ),
    st.just(ActionText()),
)
ELEMENTS = st.recursive(
    st.from_regex(r"[a-z][a-z0-9<>;=-]{0,8}", fullmatch=True).map(Element),
    lambda inner: st.tuples(
        st.sampled_from(["function", "loop-mssa", "cgscc"]), st.lists(inner, min_size=1, max_size=3).map(tuple)
    ).map(lambda made: Element(*made)),
    max_leaves=12,
)


@given(ACTIONS)
def test_action_that_is_written_is_read_as_it_was(action: ActionText) -> None:
    text = str(action)
    assert parse(text) == action
    assert str(parse(text)) == text
    assert text.isascii()


@given(st.text(max_size=40) | st.from_regex(r"[@{][a-z\"\\:(){}<>=;0-9.]{0,20}", fullmatch=True))
def test_any_text_is_an_action_or_a_mistake_with_a_place(text: str) -> None:
    try:
        action = parse(text)
    except ActionSyntaxError as error:
        assert 0 <= error.position <= len(text)  # noqa: PT017 - many texts are read
        assert error.expected in str(error)  # noqa: PT017
    else:
        assert parse(str(action)) == action


@given(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple))
def test_pipeline_that_is_written_is_read_as_it_was(elements: tuple[Element, ...]) -> None:
    assert read(write(elements)) == elements


@pytest.mark.parametrize("text", ["", "a,", ",a", "a,,b", "f(", "f)", "f()", "f(a", "f(a))", "f(a)b", "(a)"])
def test_pipeline_with_a_name_or_parenthesis_missing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"missing|unmatched"):
        read(text)


def test_walk_tells_the_managers_above() -> None:
    found = {element.name: above for element, above in walk(read("a,function(b,loop-mssa(c))"))}
    assert found == {
        "a": (),
        "function": (),
        "b": ("function",),
        "loop-mssa": ("function",),
        "c": ("function", "loop-mssa"),
    }


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('@"main"(gvn)', "@main(gvn)"),
        ("@a$b(gvn)", '@"a$b"(gvn)'),
        ('@"\\6dain":07(unroll<04>)', "@main:7(unroll<4>)"),
        ('@"a\\c3\\a9"(gvn)', '@"a\\C3\\A9"(gvn)'),
        ("{b=1;a=2}default<O2>", "{a=2;b=1}default<O2>"),
    ],
)
def test_spellings_of_one_action_have_one_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("gvn\n", 3, "printable ASCII"),
        ("gvn\0,dce", 3, "printable ASCII"),
        ("@é(gvn)", 1, "printable ASCII"),
        ("{inliner-threshold=50", 21, "'}'"),
        ("{}gvn", 1, "an option"),
        ("{inliner-threshold}gvn", 1, "an option"),
        ("{a=1;a=2}gvn", 5, "only once"),
        ("{a=1}", 5, "a pipeline"),
        ("{a=1}@main(gvn)", 5, "a pipeline"),
        ("@", 1, "name of a function"),
        ('@""(gvn)', 1, "name of a function"),
        ('@"main(gvn)', 1, "name of a function"),
        ('@"ma\\00in"(gvn)', 1, "name of a function"),
        ("@1(gvn)", 1, "name of a function"),
        ("@main", 5, "'('"),
        ("@main gvn", 5, "'('"),
        ("@main(gvn", 9, "')'"),
        ("@main()", 6, "a pipeline"),
        ("@main(@main(gvn))", 6, "a pipeline"),
        ("@main:(unroll<4>)", 5, "the number of a loop"),
        ("@main:18446744073709551616(unroll<4>)", 15, "the number of a loop"),
        ("@main:1(gvn)", 8, "unroll<full>"),
        ("@main:1(unroll<1>)", 8, "from 2 to 1024"),
        ("@main:1(unroll<1025>)", 8, "from 2 to 1024"),
        ("@main:1(unroll<>)", 8, "unroll<full>"),
        (f"@main:1(unroll<{'9' * 5000}>)", 8, "from 2 to 1024"),
        (f"@main({'function(' * 101}gvn{')' * 101})", 914, "100 deep"),
        (f"{{a=1}}{'function(' * 9999}", 913, "100 deep"),
    ],
)
def test_mistake_is_named_with_its_place_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(ActionSyntaxError) as caught:
        parse(text)
    assert caught.value.position == position
    assert expected in caught.value.expected
    assert f"position {position}" in str(caught.value)


@given(NAMES)
def test_names_are_quoted_as_llvm_prints_them(library: Library, name: bytes) -> None:
    """Against LLVM's own printer: the name goes in with every byte escaped."""
    escaped = "".join(f"\\{byte:02X}" for byte in name)
    with Module.parse(library, f'define void @"{escaped}"() {{\n  ret void\n}}\n'.encode()) as module:
        (printed,) = re.findall(r"define void (@.*)\(\) \{\n", module.to_text())
        assert module.defined_functions() == [name]
        assert module.function(name) is not None
    assert quote(name) == printed
    assert parse(f"{printed}(gvn)").function == name


def test_each_of_several_functions_has_passes_of_its_own() -> None:
    action = parse('@main(sroa,gvn)@"a)@b"(loop(licm))')
    assert action.each == ((b"main", "sroa,gvn"), (b"a)@b", "loop(licm)"))
    assert str(action) == '@main(sroa,gvn)@"a)@b"(loop(licm))'


@pytest.mark.parametrize("text", ["@f(sroa)@f(gvn)", "@f(sroa)@g:1(unroll<full>)", "@f(sroa)@g", "@f(sroa)@(gvn)"])
def test_several_functions_need_passes_each_and_once(text: str) -> None:
    with pytest.raises(ActionSyntaxError):
        parse(text)
