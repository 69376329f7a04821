"""The session table, in process, on a compiler that does arithmetic."""

import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import pytest

from aiocg.transport.messages import (
    Check,
    Close,
    Done,
    Expand,
    Expanded,
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
    TextReply,
    Unload,
)
from aiocg.transport.status import NO_CANDIDATE, SEVERAL
from aiocg.workers.compilation import CompilationError
from aiocg.workers.scripted import ScriptedSession
from aiocg.workers.sessions import CHECK_TIMEOUT, SessionTable

NOTHING, INCREMENT, DOUBLE, SQUARE, REFUSE = range(5)


class Session(ScriptedSession):
    """A scripted session that remembers what was done and closed, and has an action and an observation with a bug."""

    alive = 0
    applied: ClassVar[list[Any]] = []

    def __init__(self, benchmark: int) -> None:
        super().__init__(benchmark)
        type(self).alive += 1

    def close(self) -> None:
        type(self).alive -= 1

    @classmethod
    def check_action(cls, action: Any) -> None:
        if action != "bug":
            super().check_action(action)

    def apply_action(self, action: Any) -> bool:
        if action == "bug":
            raise ZeroDivisionError("a bug")
        self.applied.append(action)
        return super().apply_action(action)

    def get_observation(self, name: str) -> Any:
        if name == "bug":
            raise RecursionError("a bug")
        return super().get_observation(name)

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        return {"alive": cls.alive}


class Table:
    """A table with a memory of what the status page was told."""

    def __init__(self) -> None:
        Session.alive = 0
        self.begun: list[tuple[int, int, int, float, int]] = []
        self.table = SessionTable(Session, lambda *fields: self.begun.append(fields))

    def __call__(self, request: Request, client: int = 1) -> Any:
        return self.table.handle(client, request)

    def value(self, session: int, client: int = 1) -> Any:
        reply = self(Step(0, session, (), 1.0, ("value",)), client)
        return reply.observations[0] if isinstance(reply, Observed) else reply.code


@pytest.fixture
def table() -> Table:
    """A table with benchmark 5 loaded and session 1 opened on it."""
    table = Table()
    assert table(Load(1, "five", b"5", 1.0)) == Done(1)
    assert isinstance(table(Open(2, 1, "five", 1.0)), Observed)
    return table


def failed(reply: Any, code: str) -> Failure:
    assert isinstance(reply, Failure), reply
    assert reply.code == code
    return reply


def test_open_observes_the_initial_state(table: Table) -> None:
    reply = table(Open(7, 2, "five", 1.0, ("digits", "value")))
    assert (reply.request, reply.observations, reply.state, reply.effects) == (7, ("5", 5), 5, ())
    assert reply.compiler_time >= 0.0


def test_step_applies_in_order_and_tells_effects(table: Table) -> None:
    reply = table(Step(3, 1, (DOUBLE, NOTHING, INCREMENT), 1.0, ("value",)))
    assert (reply.observations, reply.state, reply.effects) == ((11,), 11, (True, False, True))


def test_step_without_actions_only_observes(table: Table) -> None:
    assert table(Step(3, 1, (), 1.0, ("value", "value"))).observations == (5, 5)
    assert table(Step(4, 1, (), 1.0)).effects == ()


def test_opening_again_starts_over(table: Table) -> None:
    table(Step(3, 1, (DOUBLE,), 1.0))
    table(Open(4, 1, "five", 1.0))
    assert (table.value(1), Session.alive) == (5, 1)


def test_a_fork_is_independent_and_replaces_what_had_its_number(table: Table) -> None:
    table(Step(3, 1, (DOUBLE,), 1.0))
    assert table(Fork(4, 1, 2)) == Done(4)
    table(Step(5, 2, (INCREMENT,), 1.0))
    assert (table.value(1), table.value(2)) == (10, 11)
    table(Fork(6, 1, 2))
    assert (table.value(2), Session.alive) == (10, 2)


def test_forking_back_restores(table: Table) -> None:
    table(Fork(3, 1, 9))
    table(Step(4, 1, (SQUARE, REFUSE), 1.0))
    assert table(Fork(5, 9, 1)) == Done(5)
    assert table(Step(6, 1, (DOUBLE,), 1.0, ("value",))).observations == (10,)


def test_forking_a_session_into_itself_keeps_it(table: Table) -> None:
    table(Step(3, 1, (DOUBLE,), 1.0))
    assert table(Fork(4, 1, 1)) == Done(4)
    assert (table.value(1), Session.alive) == (10, 1)


def test_a_fork_that_fails_leaves_the_child_as_it_was(table: Table) -> None:
    failed(table(Fork(3, 99, 1)), FailureCode.SESSION_UNKNOWN)
    assert table.value(1) == 5


def test_a_failed_step_keeps_what_was_applied_and_says_how_much(table: Table) -> None:
    reply = failed(table(Step(3, 1, (DOUBLE, INCREMENT, REFUSE, DOUBLE), 1.0)), FailureCode.ACTION)
    assert (reply.request, reply.message) == (3, "refused, as asked")
    assert (reply.fields["applied"], reply.fields["state"], table.value(1)) == (2, 11, 11)


def test_a_bug_in_an_action_keeps_what_was_applied_and_says_how_much(table: Table) -> None:
    reply = failed(table(Step(3, 1, (DOUBLE, "bug"), 1.0)), FailureCode.INTERNAL)
    assert "ZeroDivisionError: a bug" in reply.message
    assert (reply.fields["applied"], reply.fields["state"], table.value(1)) == (1, 10, 10)
    failed(table(Step(4, 1, (DOUBLE,), 1.0)), FailureCode.SESSION_ENDED)


def test_an_observation_that_fails_behind_actions_says_what_was_applied(table: Table) -> None:
    for request, name, code in ((3, "impossible", FailureCode.OBSERVATION), (5, "bug", FailureCode.INTERNAL)):
        table(Open(request, 1, "five", 1.0))
        reply = failed(table(Step(request + 1, 1, (DOUBLE,), 1.0, (name,))), code)
        assert (reply.fields["applied"], reply.fields["state"]) == (1, 10)


def test_a_session_that_has_ended_is_observed_forked_and_bound_anew_but_not_stepped(table: Table) -> None:
    table(Step(3, 1, (REFUSE,), 1.0))
    failed(table(Step(4, 1, (DOUBLE,), 1.0)), FailureCode.SESSION_ENDED)
    assert table.value(1) == 5
    table(Fork(5, 1, 2))
    assert table(Step(6, 2, (DOUBLE,), 1.0)).state == 10
    table(Open(7, 1, "five", 1.0))
    assert table(Step(8, 1, (DOUBLE,), 1.0)).state == 10


def test_a_failed_observation_alone_does_not_end_the_session(table: Table) -> None:
    failed(table(Step(3, 1, (), 1.0, ("impossible",))), FailureCode.OBSERVATION)
    failed(table(Step(4, 1, (), 1.0, ("nonsense",))), FailureCode.OBSERVATION_UNKNOWN)
    assert table(Step(5, 1, (DOUBLE,), 1.0)).state == 10


@pytest.mark.parametrize("action", [99, -1, "incremnt", "@0(nothing)", None, 1.5, [1], {"a": 1}])
def test_an_action_outside_of_the_space_is_refused_before_anything_is_done(table: Table, action: object) -> None:
    reply = failed(table(Step(3, 1, (DOUBLE, action), 1.0)), FailureCode.ACTION_UNKNOWN)
    assert (reply.fields, table.value(1)) == ({}, 5)
    assert table(Step(4, 1, (DOUBLE,), 1.0)).state == 10


@pytest.mark.parametrize("action", [99, "incremnt", None])
def test_a_check_says_whether_all_actions_are_ones(table: Table, action: object) -> None:
    assert table(Check(3, (DOUBLE, REFUSE))) == Done(3)
    failed(table(Check(4, (DOUBLE, action))), FailureCode.ACTION_UNKNOWN)
    assert table.begun[-1] == (1, 0, 4, CHECK_TIMEOUT, NO_CANDIDATE)


@pytest.mark.parametrize("before", [(), (DOUBLE,), ("double,increment", "@0(raise)")])
def test_a_text_that_means_nothing_in_the_state_it_meets_undoes_its_whole_step(table: Table, before: tuple) -> None:
    table(Parameter(2, 1, "echo", "kept", 1.0))
    reply = failed(table(Step(3, 1, (*before, "@7(raise)", DOUBLE), 1.0)), FailureCode.ACTION_UNKNOWN)
    assert (reply.fields, table.value(1), Session.alive) == ({}, 5, 1)
    assert table(Step(4, 1, (DOUBLE, "@1(raise)"), 1.0, ("echo",))).observations == ("kept",)
    assert (table.value(1), Session.alive) == (20, 1)


def test_a_failure_behind_texts_keeps_what_was_applied(table: Table) -> None:
    reply = failed(table(Step(3, 1, ("double", "increment", "refuse"), 1.0)), FailureCode.ACTION)
    assert (reply.fields["applied"], table.value(1), Session.alive) == (2, 11, 1)


def test_expand_evaluates_every_candidate_from_the_same_state(table: Table) -> None:
    reply = table(Expand(3, 1, ((DOUBLE,), (), (INCREMENT, SQUARE), (NOTHING,)), 1.0, ("value",)))
    assert isinstance(reply, Expanded)
    assert [(c.observations, c.state, c.effects) for c in reply.candidates if c is not None] == [
        ((10,), 10, (True,)),
        ((5,), 5, ()),
        ((36,), 36, (True, True)),
        ((5,), 5, (False,)),
    ]
    assert (table.value(1), Session.alive) == (5, 1)


def test_what_neighbouring_candidates_begin_with_is_done_once(table: Table) -> None:
    begin = (DOUBLE, INCREMENT)
    candidates = ((*begin, DOUBLE), (*begin, SQUARE), (*begin, REFUSE), begin, (*begin, NOTHING), (DOUBLE,), (SQUARE,))
    Session.applied = []
    reply = table(Expand(3, 1, candidates, 1.0, ("value",)))
    assert Session.applied == [*begin, DOUBLE, SQUARE, REFUSE, NOTHING, DOUBLE, SQUARE]
    assert [(c.observations, c.effects) for c in reply.candidates if not c.code] == [
        ((22,), (True, True, True)),
        ((121,), (True, True, True)),
        ((11,), (True, True)),
        ((11,), (True, True, False)),
        ((10,), (True,)),
        ((25,), (True,)),
    ]
    assert reply.candidates[2].code == FailureCode.ACTION
    assert (table.value(1), Session.alive) == (5, 1)


def test_candidates_that_begin_with_the_same_failure_all_fail(table: Table) -> None:
    reply = table(Expand(3, 1, ((REFUSE, DOUBLE), (REFUSE, SQUARE), (DOUBLE, 99), (DOUBLE,)), 1.0, ("value",)))
    codes = [FailureCode.ACTION, FailureCode.ACTION, FailureCode.ACTION_UNKNOWN, ""]
    assert ([c.code for c in reply.candidates], Session.alive) == (codes, 1)


def test_a_candidate_that_fails_does_not_touch_the_others(table: Table) -> None:
    candidates = ((REFUSE,), ("bug",), (99,), (DOUBLE,))
    reply = table(Expand(3, 1, candidates, 1.0, ("value",)))
    assert [c.code for c in reply.candidates] == [
        FailureCode.ACTION,
        FailureCode.INTERNAL,
        FailureCode.ACTION_UNKNOWN,
        "",
    ]
    assert (reply.candidates[3].observations, Session.alive, table.value(1)) == ((10,), 1, 5)


def test_candidates_named_as_failed_are_left_out(table: Table) -> None:
    reply = table(Expand(3, 1, (("bug",), (DOUBLE,), (SQUARE,)), 1.0, ("value",), (0, 2)))
    assert reply.candidates[0] is None and reply.candidates[2] is None
    assert reply.candidates[1].observations == (10,)


def test_expand_of_nothing(table: Table) -> None:
    assert table(Expand(3, 1, (), 1.0)).candidates == ()


def test_the_status_page_is_told_before_anything_runs(table: Table) -> None:
    table.begun.clear()
    table(Load(3, "six", b"6", 2.0), client=4)
    table(Open(4, 8, "six", 3.0), client=4)
    table(Step(5, 8, (DOUBLE,), 4.0), client=4)
    table(Expand(6, 8, ((DOUBLE,), (DOUBLE,), (DOUBLE,)), 5.0, (), (1,)), client=4)
    table(Parameter(7, 8, "echo", "x", 6.0), client=4)
    assert table.begun == [
        (4, 0, 3, 2.0, NO_CANDIDATE),
        (4, 8, 4, 3.0, NO_CANDIDATE),
        (4, 8, 5, 4.0, NO_CANDIDATE),
        (4, 8, 6, 5.0, 0),
        (4, 8, 6, 5.0, 2),
        (4, 8, 7, 6.0, NO_CANDIDATE),
    ]


class Preparing(Session):
    """A session that is told of three candidates at once."""

    lookahead = 3
    told: ClassVar[list[tuple[list[int], tuple[str, ...]]]] = []

    @classmethod
    def anticipate(cls, sessions: Sequence[Self], names: Sequence[str]) -> None:
        assert cls.deadline <= time.monotonic() + 15.0
        cls.told.append(([session.get_observation("value") for session in sessions], tuple(names)))


def test_candidates_that_are_prepared_together_come_to_the_same_as_others() -> None:
    candidates = ((DOUBLE,), (REFUSE,), (INCREMENT, SQUARE), ("bug",), (), (DOUBLE,), (99,), (SQUARE,))
    expand = Expand(3, 1, candidates, 5.0, ("value", "digits"), (5,))
    results = []
    Preparing.told = []
    for compiler in (Session, Preparing):
        begun: list[tuple[int, ...]] = []
        table = SessionTable(compiler, lambda *fields, begun=begun: begun.append((fields[3], fields[4])))
        table.handle(1, Load(1, "five", b"5", 1.0))
        table.handle(1, Open(2, 1, "five", 1.0))
        alive, begun[:] = compiler.alive, []
        results.append(table.handle(1, expand).candidates)  # type: ignore[union-attr]
        assert compiler.alive == alive
    without, with_ = ([one and (one.observations, one.state, one.effects, one.code) for one in r] for r in results)
    assert with_ == without
    assert Preparing.told == [([10, 36], ("value", "digits")), ([5], ("value", "digits"))]
    assert begun == [
        *((5.0, 0), (5.0, 1), (5.0, 2), (15.0, SEVERAL), (5.0, 0), (5.0, 1), (5.0, 2)),
        *((5.0, 3), (5.0, 4), (5.0, 6), (15.0, SEVERAL), (5.0, 3), (5.0, 4), (5.0, 6)),
        (5.0, 7),
    ]


def test_candidates_of_which_one_is_suspected_are_prepared_alone() -> None:
    Preparing.told = []
    begun: list[int] = []
    table = SessionTable(Preparing, lambda *fields: begun.append(fields[4]))
    table.handle(1, Load(1, "five", b"5", 1.0))
    table.handle(1, Open(2, 1, "five", 1.0))
    table.handle(1, Expand(3, 1, ((DOUBLE,), (DOUBLE,), (SQUARE,)), 5.0, ("value",), (1,), True))
    assert (begun[-2:], Preparing.told) == ([0, 2], [])


def test_clients_do_not_see_each_others_sessions_and_benchmarks(table: Table) -> None:
    failed(table(Open(3, 1, "five", 1.0), client=2), FailureCode.BENCHMARK_UNKNOWN)
    failed(table(Step(3, 1, (), 1.0), client=2), FailureCode.SESSION_UNKNOWN)
    table(Load(4, "five", b"7", 1.0), client=2)
    table(Open(5, 1, "five", 1.0), client=2)
    table(Step(6, 1, (DOUBLE,), 1.0), client=2)
    table(Close(7, (1,)), client=3)
    assert (table.value(1), table.value(1, client=2)) == (5, 14)


def test_unloading_leaves_the_sessions(table: Table) -> None:
    assert table(Unload(3, "five")) == Done(3)
    assert table(Unload(4, "five")) == Done(4)
    assert table.value(1) == 5
    failed(table(Open(5, 2, "five", 1.0)), FailureCode.BENCHMARK_UNKNOWN)


def test_a_benchmark_that_is_no_program_is_refused(table: Table) -> None:
    failed(table(Load(3, "bad", b"five", 1.0)), FailureCode.BENCHMARK)
    failed(table(Open(4, 2, "bad", 1.0)), FailureCode.BENCHMARK_UNKNOWN)


def test_an_open_that_fails_leaves_the_session_as_it_was(table: Table) -> None:
    table(Step(3, 1, (DOUBLE,), 1.0))
    failed(table(Open(4, 1, "none", 1.0)), FailureCode.BENCHMARK_UNKNOWN)
    failed(table(Open(5, 1, "five", 1.0, ("impossible",))), FailureCode.OBSERVATION)
    assert table.value(1) == 10


def test_closing_frees_and_ignores_what_is_not_open(table: Table) -> None:
    table(Fork(3, 1, 2))
    assert table(Close(4, (1, 2, 3))) == Done(4)
    assert Session.alive == 0
    failed(table(Step(5, 1, (), 1.0)), FailureCode.SESSION_UNKNOWN)


@pytest.mark.parametrize(
    "request_", [Step(3, 9, (), 1.0), Fork(3, 9, 10), Expand(3, 9, ((1,),), 1.0), Parameter(3, 9, "echo", "x", 1.0)]
)
def test_a_session_that_is_not_open_is_a_failure_of_the_request(table: Table, request_: Request) -> None:
    assert failed(table(request_), FailureCode.SESSION_UNKNOWN).request == 3


def test_parameters_are_answered_or_refused(table: Table) -> None:
    assert table(Parameter(3, 1, "echo", "hello", 1.0)) == TextReply(3, "hello")
    failed(table(Parameter(4, 1, "nonsense", "", 1.0)), FailureCode.PARAMETER)


def test_statistics_count_requests_sessions_and_what_the_compiler_says(table: Table) -> None:
    table(Step(3, 1, (DOUBLE,), 1.0))
    table(Step(4, 99, (DOUBLE,), 1.0))
    counters = json.loads(table(Statistics(5)).text)
    assert (counters["sessions"], counters["benchmarks"], counters["alive"]) == (1, 1, 1)
    assert counters["requests"] == {"Load": 1, "Open": 1, "Step": 2, "Statistics": 1}
    assert counters["compiler_time"] >= 0.0


def test_a_compiler_without_parameters_refuses_them() -> None:
    with pytest.raises(CompilationError):
        ScriptedSession(1).set_parameter("nonsense", "1")


def test_sessions_beyond_the_limit_are_refused_and_those_open_go_on() -> None:
    table = SessionTable(Session, lambda *_: None, max_sessions=2)
    table.handle(1, Load(1, "five", b"5", 9.0))
    assert isinstance(table.handle(1, Open(2, 1, "five", 9.0)), Observed)
    assert isinstance(table.handle(1, Fork(3, 1, 2)), Done)
    for request in (Open(4, 3, "five", 9.0), Fork(5, 1, 3)):
        refused = table.handle(1, request)
        assert isinstance(refused, Failure)
        assert (refused.code, refused.fields) == (FailureCode.LIMIT, {"limit": "sessions", "allowed": 2})
        assert "2 sessions are open in this worker" in refused.message
    assert isinstance(table.handle(1, Open(6, 2, "five", 9.0)), Observed)  # a reset of one that is open
    table.handle(1, Close(7, (1,)))
    assert isinstance(table.handle(1, Fork(8, 2, 3)), Done)
