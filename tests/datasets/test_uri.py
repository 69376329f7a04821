import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiocg.datasets.errors import InvalidBenchmarkUri
from aiocg.datasets.uri import SCHEMES, BenchmarkUri

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
SEGMENT = TEXT.filter(lambda text: text not in ("", ".", "..") and "/" not in text)
DATASET = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", fullmatch=True).filter(str.isascii)
PARAMS = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)


@st.composite
def uris(draw: st.DrawFn) -> BenchmarkUri:
    scheme = draw(st.sampled_from(SCHEMES))
    if scheme == "file":
        return BenchmarkUri(scheme, "", "/" + draw(TEXT), draw(PARAMS), draw(TEXT))
    path = "/".join(draw(st.lists(SEGMENT, max_size=3)))
    return BenchmarkUri(scheme, draw(DATASET), path, draw(PARAMS), draw(TEXT))


@given(uris())
def test_text_of_a_uri_reads_back_to_an_equal_uri(uri: BenchmarkUri) -> None:
    text = str(uri)
    assert BenchmarkUri.from_string(text) == uri
    assert hash(BenchmarkUri.from_string(text)) == hash(uri)
    assert text.isascii()
    assert BenchmarkUri.canonicalize(text) == text


@given(st.text())
def test_any_text_is_a_uri_or_refused_as_one(text: str) -> None:
    try:
        canonical = BenchmarkUri.canonicalize(text)
    except InvalidBenchmarkUri:
        return
    assert BenchmarkUri.canonicalize(canonical) == canonical


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_file_names_that_are_not_utf8_survive(name: bytes) -> None:
    path = "/" + os.fsdecode(name)
    assert os.fsencode(BenchmarkUri.from_string(str(BenchmarkUri.from_file(path))).path) == b"/" + name


@given(uris(), uris())
def test_uris_are_ordered_consistently_with_equality(one: BenchmarkUri, other: BenchmarkUri) -> None:
    assume(one != other)
    assert (one < other) != (other < one)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("programs-v0/qsort", "benchmark://programs-v0/qsort"),
        ("programs-v0", "benchmark://programs-v0"),
        ("programs-v0/", "benchmark://programs-v0"),
        ("BENCHMARK://programs-v0/qsort", "benchmark://programs-v0/qsort"),
        ("generator://csmith-v0/17", "generator://csmith-v0/17"),
        ("file:///home/me/my program.c", "file:///home/me/my%20program.c"),
        ("file:///home/me/my%20program.c", "file:///home/me/my%20program.c"),
        ("a-v1/b/c?k=v&k=w#f", "benchmark://a-v1/b/c?k=v&k=w#f"),
        ("a-v1/é", "benchmark://a-v1/%C3%A9"),
    ],
)
def test_every_spelling_has_one_canonical_form(text: str, canonical: str) -> None:
    assert BenchmarkUri.canonicalize(text) == canonical


def test_parts_hold_plain_text() -> None:
    uri = BenchmarkUri.from_string("generator://g-v2/a%20b/c?seed=1&seed=2&x#y%23")
    assert (uri.scheme, uri.dataset, uri.path, uri.fragment) == ("generator", "g-v2", "a b/c", "y#")
    assert uri.params == (("seed", "1"), ("seed", "2"), ("x", ""))
    assert uri.param("seed") == ("1", "2")
    assert uri.param("nothing") == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "missing"),
        ("benchmark://", "missing"),
        ("/qsort", "missing"),
        ("ftp://host/file", "unknown scheme 'ftp'"),
        ("benchmark:programs-v0/qsort", "'://'"),
        ("pro grams/qsort", "not a dataset name"),
        ("programs-v0//qsort", "segment"),
        ("programs-v0/../secret", "segment"),
        ("programs-v0/%2e%2e/secret", "segment"),
        ("programs-v0/a\0b", "character"),
        ("programs-v0/a%00b", "character"),
        ("programs-v0/\ud800", "character"),
        ("file://host/x.c", "begins with file:///"),
        ("file://", "missing"),
    ],
)
def test_a_bad_uri_is_refused_with_the_reason_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(InvalidBenchmarkUri) as caught:
        BenchmarkUri.from_string(text)
    assert complaint in caught.value.reason
    assert caught.value.uri == text
    assert caught.value.example in str(caught.value)
    BenchmarkUri.from_string(caught.value.example)
