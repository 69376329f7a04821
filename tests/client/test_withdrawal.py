"""Which requests are carried out when some were cancelled, whatever they are and in whatever order."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiocg.fleet._withdrawal import sort_out_abandoned, sort_out_lost
from aiocg.fleet.requests import Pending, PendingFork, PendingOpen, PendingStep
from aiocg.testing import scripted_benchmark

SESSIONS = 3


class FakeSession:
    """As much of a session as sorting needs."""


class Request:
    """A request in words: what it does, to which session, and who wants it."""

    def __init__(self, form: str, session: int, child: int, abandoned: bool, independent: bool) -> None:
        self.form, self.session, self.child = form, session, child
        self.abandoned, self.independent = abandoned, independent

    def make(self, sessions: list[Any], loop: asyncio.AbstractEventLoop) -> Pending:
        future, session = loop.create_future(), sessions[self.session]
        if self.abandoned:
            future.cancel()
        made: Pending
        match self.form:
            case "step":
                made = PendingStep(session, (1,), (), 1.0, future=future)
            case "observe":
                made = PendingStep(session, (), ("x",), 1.0, future=future)
            case "open":
                made = PendingOpen(session, scripted_benchmark(1), (), 1.0, future=future)
            case _:
                made = PendingFork(session, sessions[self.child], future=future)
        made.independent = self.independent
        return made

    def __repr__(self) -> str:
        return f"{self.form} {self.session}{' abandoned' * self.abandoned}{' independent' * self.independent}"


requests = st.lists(
    st.builds(
        Request,
        st.sampled_from(["step", "step", "observe", "open", "fork"]),
        st.integers(0, SESSIONS - 1),
        st.integers(0, SESSIONS - 1),
        st.booleans(),
        st.booleans(),
    ),
    max_size=14,
)


def made(descriptions: list[Request]) -> list[Pending]:
    loop = asyncio.new_event_loop()
    try:
        sessions = [FakeSession() for _ in range(SESSIONS)]
        return [one.make(sessions, loop) for one in descriptions]
    finally:
        loop.close()


def states(carried_out: list[Pending], all_of_them: list[Pending]) -> dict[int, tuple[Any, ...]]:
    """Carry out requests on sessions that remember what was done; return what each request started from."""
    known: dict[Any, tuple[Any, ...]] = {}
    names = {id(one): number for number, one in enumerate(all_of_them)}
    started = {}
    for one in carried_out:
        start = () if isinstance(one, PendingOpen) else known.get(one.session, ("start",))
        started[names[id(one)]] = start
        for changed in one.changes():
            known[changed] = start if isinstance(one, PendingFork) else (*start, names[id(one)])
    return started


@given(requests)
def test_what_is_still_wanted_starts_from_where_it_would_have(descriptions: list[Request]) -> None:
    everything = made(descriptions)
    wanted, unwanted = sort_out_abandoned(everything)
    assert sorted(map(id, [*wanted, *unwanted])) == sorted(map(id, everything))
    assert all(one.abandoned for one in unwanted)
    assert wanted == [one for one in everything if one in wanted]
    undisturbed, now = states(everything, everything), states(wanted, everything)
    if not any(one.independent for one in everything):
        for number, start in now.items():
            if not everything[number].abandoned:
                assert start == undisturbed[number]


@given(requests, st.data())
def test_what_can_be_carried_out_without_another_starts_from_where_it_would_have(
    descriptions: list[Request], data: st.DataObject
) -> None:
    everything = made(descriptions)
    given_up = [one for one in everything if data.draw(st.booleans(), label="given up")][:1]
    possible, impossible = sort_out_lost(everything, given_up)
    assert sorted(map(id, [*possible, *impossible])) == sorted(map(id, everything))
    assert all(one in impossible for one in given_up)
    if not any(one.independent for one in everything):
        undisturbed, now = states(everything, everything), states(possible, everything)
        assert all(start == undisturbed[number] for number, start in now.items())
    if given_up and not given_up[0].changes():
        assert impossible == given_up
