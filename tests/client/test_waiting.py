"""Requests that wait for long: it is logged why, and their sessions move when that helps."""

import asyncio
import logging
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

import aiocg
from aiocg.fleet import _withdrawal as waiting
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark


def request(session: Any = None, *binds: Any, attempts: int = 0, overdue: bool = False) -> Any:
    bound = binds or ((session,) if session is not None else ())
    return SimpleNamespace(since=0.0, is_overdue=overdue, attempts=attempts, binds=lambda: bound, session=session)


class Session:
    kills = crashes = 0
    error = None


def test_each_request_that_waits_for_long_is_told_of_once() -> None:
    old, new = request(), request()
    assert waiting.overdue([old], 100.0) == []
    assert waiting.overdue([old, new], 105.0) == []
    assert waiting.overdue([old, new], 110.0) == [old]
    assert waiting.overdue([old, new], 116.0) == [new]
    assert waiting.overdue([old, new], 200.0) == []


def test_sessions_that_wait_for_long_move_with_those_that_they_are_bound_to_and_without_who_does_harm() -> None:
    one, child, quick, harmful, rebuilt = (Session() for _ in range(5))
    rebuilt.kills = 1
    backlog = [
        request(one, overdue=True),
        request(one, one, child),
        request(quick),
        request(harmful, overdue=True, attempts=1),
        request(rebuilt, overdue=True),
        request(overdue=True),
    ]
    assert waiting.movable(backlog) == [one, child]


def test_whoever_was_hit_once_need_not_wait_for_a_worker_that_does_not_start() -> None:
    hit, harmful, killed, crashing = (Session() for _ in range(4))
    killed.kills, crashing.kills = 1, 2
    backlog = [request(hit, attempts=1), request(harmful, attempts=2), request(killed), request(crashing)]
    assert waiting.movable(backlog, everybody=True) == [hit, killed]


def test_half_of_those_that_wait_for_long_stay_for_the_next_process() -> None:
    sessions = [Session() for _ in range(5)]
    assert waiting.movable([request(one, overdue=True) for one in sessions]) == sessions[::2]


async def test_whoever_has_waited_for_long_is_served_elsewhere_when_the_worker_dies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "LONG", 0.5)
    caplog.set_level(logging.WARNING, "aiocg")
    async with aiocg.Runtime(workers=2, policy=Policy(first_delay=0.01)) as runtime, asyncio.timeout(60):
        envs = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(number)) for number in range(4)]
        await asyncio.gather(*(env.reset() for env in envs))
        worker = envs[0]._session.worker
        (behind,) = [env for env in envs[1:] if env._session.worker is worker]
        hanging, stepping = envs[0].submit("hang", timeout=100.0), behind.submit("double")
        while not behind._session.last.is_overdue:  # noqa: ASYNC110, nobody sets an event
            await asyncio.sleep(0.05)
        message = next(record for record in caplog.records if record.message == "requests wait")
        assert "the worker has been executing request " in message.cause and message.count == 1
        pid = next(pid for pid in runtime.worker_pids() if pid == worker.welcome.result().pid)
        os.kill(pid, signal.SIGKILL)
        assert (await stepping)[0] == int(behind.benchmark.uri.path) * 2
        assert behind._session.worker is not worker and envs[0]._session.worker is worker
        assert not hanging.done()
        assert (await (await behind.fork()).step("increment"))[0] == int(behind.benchmark.uri.path) * 2 + 1
        hanging.cancel()
