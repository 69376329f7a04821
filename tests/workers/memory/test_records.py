"""What is remembered of a transition: exactly what was there, or nothing."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.memory.records import COUNTS, IMAGE_SIZE, Record, decode, encode, facts_of, key_of

CONTEXT = b"c" * 20
INT64 = st.integers(-(2**63), 2**63 - 1)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        COUNTS[0]: st.lists(INT64, max_size=80).map(lambda numbers: struct.pack(f"<{len(numbers)}q", *numbers)),
        f"{IMAGE_SIZE}-minsize": st.integers(0, 2**40),
    },
)
RECORDS = st.builds(Record, st.integers(0, 2**128 - 1), st.integers(0, 2**63 - 1), FACTS)


@given(RECORDS, st.integers(0, 2**128 - 1), st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_record_is_read_as_it_was_written(record: Record, fingerprint: int, action: str) -> None:
    key = key_of(CONTEXT, (fingerprint, action))
    assert decode(key, encode(key, record)) == record


@given(RECORDS, st.binary(max_size=200), st.data())
def test_what_is_damaged_or_of_another_key_is_no_record(record: Record, garbage: bytes, data: st.DataObject) -> None:
    key, other = key_of(CONTEXT, (1, "gvn")), key_of(CONTEXT, (1, "dce"))
    written = bytearray(encode(key, record))
    assert decode(other, bytes(written)) is None
    assert decode(key, garbage) is None
    assert decode(key, bytes(written[: data.draw(st.integers(0, len(written) - 1))])) is None
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert decode(key, bytes(written)) is None


def test_keys_differ_by_context_state_and_action() -> None:
    steps = [(1, "gvn"), (2, "gvn"), (1, "dce"), (1, "")]
    assert len({key_of(context, step) for context in (CONTEXT, b"d" * 20) for step in steps}) == 8


def test_only_what_is_the_same_on_all_machines_is_remembered() -> None:
    memo = {
        "inst_count": b"12345678",
        "object_text_size": 40,
        "object_image_size-minsize": 50,
        "text_size-ab": 90,
        "cloned": True,
        "functions": [b"f"],
    }
    assert facts_of(memo) == {
        "inst_count": b"12345678",
        "object_text_size": 40,
        "object_image_size-minsize": 50,
    }


def test_records_agree_if_they_differ_in_nothing_that_both_know() -> None:
    record = Record(1, 10, {IMAGE_SIZE: 40})
    assert record.agrees(Record(1, 10, {"inst_count": b"12345678"}))
    assert not record.agrees(Record(1, 10, {IMAGE_SIZE: 41}))
    assert not record.agrees(Record(2, 10, {}))
    assert not record.agrees(Record(1, 11, {}))
