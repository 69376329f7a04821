"""Requests that are well formed and make no sense: a worker answers each, and goes on."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.messages import (
    Check,
    Close,
    Done,
    Expand,
    Failure,
    FailureCode,
    Fork,
    Load,
    Observed,
    Open,
    Parameter,
    Request,
    Statistics,
    Step,
    Unload,
)
from aiocg.transport.status import StatusPage
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.session import LlvmSession
from aiocg.workers.sessions import SessionTable

IR = b"define i32 @f(i32 %x) {\n  %y = alloca i32\n  store i32 %x, ptr %y\n  %z = load i32, ptr %y\n  ret i32 %z\n}\n"
QUICK = sorted(name for name in OBSERVATIONS if not name.startswith(("Execution", "Build", "Run", "TextSize", "Is")))

numbers = st.sampled_from([0, 1, 2, 3, 2**31, 2**63, 2**64 - 1])  # others are refused by the codec
seconds = st.sampled_from([1.0, 0.0, -1.0, 1e300, math.inf, -math.inf, math.nan, 5e-324])
words = st.sampled_from(["", "a", "b", "\0", "/etc/passwd", "../a", "x" * 5000, "☃", "llvm.set_measured_run", *QUICK])
values = st.recursive(
    st.none() | st.booleans() | numbers | seconds | words | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
texts = st.sampled_from(
    ["mem2reg", "gvn", "@f(sroa)", "@f:0(unroll<2>)", "@g(dce)", "{loop-unrolling=0}default<O1>", "no-pass", "dce,"]
)
actions = st.lists(texts | values | st.integers(-2, 300), max_size=4).map(tuple)
observe = st.lists(words, max_size=3).map(tuple)
contents = st.sampled_from([IR, b"", b"BC\xc0\xde", b"define", b"\x7fELF"])
requests = st.one_of(
    st.builds(Load, numbers, words, contents, seconds, st.binary(max_size=8)),
    st.builds(Unload, numbers, words),
    st.builds(
        Open, numbers, numbers, words, seconds, observe, st.lists(st.tuples(words, words), max_size=2).map(tuple)
    ),
    st.builds(Check, numbers, actions),
    st.builds(Step, numbers, numbers, actions, seconds, observe),
    st.builds(Fork, numbers, numbers, numbers),
    st.builds(Expand, numbers, numbers, st.lists(actions, max_size=3).map(tuple), seconds, observe, st.just((0, 9))),
    st.builds(Parameter, numbers, numbers, words, words, seconds),
    st.builds(Close, numbers, st.lists(numbers, max_size=3).map(tuple)),
    st.builds(Statistics, numbers),
)
GOOD: list[Request] = [Load(1, "a", IR, 1.0), Open(2, 1, "a", 1.0), Open(3, 2, "a", 1.0)]


@pytest.fixture(scope="module")
def session() -> type[LlvmSession]:
    class Session(LlvmSession):
        pass

    Session.start({"untrusted": True})
    return Session


def answers(table: SessionTable, batch: list[Request]) -> list[Any]:
    """Send requests over the wire, and their answers back."""
    replies = [table.handle(1, request) for request in request_codec().decode(request_codec().encode(batch))]
    return reply_codec().decode(reply_codec().encode(replies))


@settings(derandomize=True, database=None, deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(requests, min_size=1, max_size=8))
def test_requests_without_sense_are_answered(session: type[LlvmSession], batch: list[Request]) -> None:
    page = StatusPage.create()
    before = len(os.listdir("/proc/self/fd"))
    try:
        table = SessionTable(session, page.begin)
        assert [type(reply) for reply in answers(table, GOOD)] == [Done, Observed, Observed]
        for request, reply in zip(batch, answers(table, batch), strict=True):
            assert reply.request == request.request  # type: ignore[union-attr]
            assert not isinstance(reply, Failure) or reply.code != FailureCode.INTERNAL, (request, reply.message)
        more = [Load(1, "z", IR, 1.0), Open(2, 77, "z", 1.0, ("IrInstructionCount",)), Step(3, 77, ("mem2reg",), 1.0)]
        assert [type(reply) for reply in answers(table, more)] == [Done, Observed, Observed]
        assert len(os.listdir("/proc/self/fd")) <= before + 4  # some things are opened once
    finally:
        page.close()


def test_no_observation_names_a_file_of_the_worker(session: type[LlvmSession]) -> None:
    page = StatusPage.create()
    table = SessionTable(session, page.begin)
    answers(table, GOOD)
    for name in QUICK:
        (reply,) = answers(table, [Step(1, 1, (), 60.0, (name,))])
        values = (
            [value for value in reply.observations if isinstance(value, str)] if isinstance(reply, Observed) else []
        )
        assert not any(Path(value).is_absolute() for value in values), name
    page.close()
