"""Structured logs: silent until asked for, and then a line an event, with fields that say whose it is."""

import contextlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

import aiocg
import aiocg.testing
from aiocg.errors import AiocgError, UnknownName
from aiocg.fleet.blame import brief
from aiocg.fleet.restart_policy import SlotState
from aiocg.telemetry import configure
from aiocg.telemetry.logs import configure_from_environment
from aiocg.transport.security import Gate, KeyPair, ServerSecurity

LOGGER = logging.getLogger("aiocg.test")
PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
FIELDS = set(re.findall(r"^\| `(\w+)` \|", PAGE.partition("| field |")[2].partition("\n\n")[0], re.MULTILINE))


@pytest.fixture
def events() -> Callable[[], list[dict[str, Any]]]:
    """Log everything as JSON; returns what there is so far."""
    stream = io.StringIO()
    configure("json", "debug", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def _of(events: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [one for one in events if one["event"] == event]


# ------------------------------------------------------------------------------------------------------ form


@pytest.mark.slow
def test_nothing_is_written_unless_asked_for() -> None:
    script = "import logging, aiocg.runtime; logging.getLogger('aiocg.fleet.slot').error('lost', extra={'slot': 1})"
    environment = {name: value for name, value in os.environ.items() if name != "AIOCG_LOG"}
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=True, env=environment)
    assert done.stdout + done.stderr == b""


def test_text_has_time_level_logger_event_and_fields() -> None:
    configure(stream=(stream := io.StringIO()))
    LOGGER.info("worker ended", extra={"kind": "llvm", "slot": 0, "cause": "signal SIGKILL", "session": None})
    time, _, rest = stream.getvalue().partition(" ")
    assert time.endswith("+00:00") and len(time) == len("2026-01-01T00:00:00.000+00:00")
    assert rest == 'INFO    aiocg.test worker ended kind=llvm slot=0 cause="signal SIGKILL"\n'


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_other_packages_add_to_records_is_left_out(format: str) -> None:
    configure(format, stream=(stream := io.StringIO()))
    LOGGER.info("node up", extra={"address": "tcp://one:1", "_ray_timestamp_ns": 1})
    assert "tcp://one:1" in stream.getvalue() and "_ray" not in stream.getvalue()


def test_a_field_cannot_forge_a_line_or_another_field() -> None:
    configure(stream=(stream := io.StringIO()))
    LOGGER.info("client attached", extra={"client": 'a"\n2026 ERROR x=1', "address": "", "cause": "\x1b[2Jé"})
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith(r'client="a\"\n2026 ERROR x=1" address="" cause="\u001b[2Jé"' + "\n")


def test_json_has_the_same_fields_in_one_object_a_line() -> None:
    configure("json", stream=(stream := io.StringIO()))
    LOGGER.warning("worker ended", extra={"kind": "llvm", "slot": 0, "cause": "two\nlines é"})
    assert stream.getvalue().count("\n") == 1
    event = json.loads(stream.getvalue())
    assert event.pop("time").endswith("+00:00")
    assert event == {
        "level": "WARNING",
        "logger": "aiocg.test",
        "event": "worker ended",
        "kind": "llvm",
        "slot": 0,
        "cause": "two\nlines é",
    }


def test_an_exception_follows_its_event() -> None:
    configure(stream=(stream := io.StringIO()))
    try:
        raise KeyError("x")
    except KeyError:
        LOGGER.exception("slot lost", extra={"slot": 3})
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("slot lost slot=3")
    assert rest[-1] == "KeyError: 'x'"


def test_what_is_below_the_level_is_left_out() -> None:
    configure(level="warning", stream=(stream := io.StringIO()))
    LOGGER.info("worker ready")
    LOGGER.warning("worker ended")
    assert [line.partition("aiocg.test ")[2] for line in stream.getvalue().splitlines()] == ["worker ended"]


def test_configuring_again_replaces_what_was_said_before() -> None:
    configure(stream=(first := io.StringIO()))
    configure(stream=(second := io.StringIO()))
    LOGGER.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


@pytest.mark.parametrize(
    ("format", "level", "message"),
    [("yaml", "info", "unknown log format 'yaml'; .*text"), ("text", "warn", "unknown log level 'warn'; .*warning")],
)
def test_what_does_not_exist_is_refused_and_changes_nothing(format: str, level: str, message: str) -> None:
    configure(stream=(stream := io.StringIO()))
    with pytest.raises(UnknownName, match=message):
        configure(format, level)
    LOGGER.info("still there")
    assert "still there" in stream.getvalue()


def test_json_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pythonjsonlogger.json", None)
    with pytest.raises(AiocgError, match=r"pip install 'aiocg\[telemetry\]'"):
        configure("json")


@pytest.mark.parametrize(
    ("value", "written"),
    [("", 0), ("info", 1), ("text", 1), ("json", 1), ("text:debug", 2), ("json:error", 0), ("json:info", 1)],
)
def test_the_environment_says_format_and_level(value: str, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_LOG", value)
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    configure_from_environment()
    LOGGER.debug("one")
    LOGGER.info("two")
    lines = stream.getvalue().splitlines()
    assert len(lines) == written
    assert all(line.startswith("{") == value.startswith("json") for line in lines)


def test_what_was_said_in_the_program_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(stream=(stream := io.StringIO()))
    monkeypatch.setenv("AIOCG_LOG", "json:debug")
    configure_from_environment()
    LOGGER.info("as before")
    assert "as before" in stream.getvalue()


def test_a_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_LOG", "loud")
    with pytest.raises(UnknownName, match="unknown log level 'loud'"):
        configure_from_environment()


def test_long_texts_become_brief() -> None:
    assert brief("x" * 300) == "x" * 300
    assert brief("x" * 301) == "x" * 299 + "…"


# ---------------------------------------------------------------------------------------------------- events


async def test_a_crash_says_which_worker_session_and_request(
    runtime: aiocg.Runtime, env: aiocg.Env, events: Callable[[], list[dict[str, Any]]]
) -> None:
    other = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    await other.reset()
    *_, info = await env.step("crash")
    assert isinstance(info["error"], aiocg.errors.WorkerCrashed)
    seen = events()
    _, ended = _of(seen, "worker ended")  # the first time it might be the late effect of another request
    assert (ended["kind"], ended["cause"], ended["level"]) == ("scripted", "signal SIGSEGV", "WARNING")
    (responsible,) = _of(seen, "request held responsible")
    same = ("kind", "slot", "session", "request", "cause")
    assert {name: responsible[name] for name in same} == {name: ended[name] for name in same}
    assert responsible["doing"] == "the actions [7]"
    (lost,) = _of(seen, "session lost")
    assert lost["session"] == ended["session"]


async def test_a_kill_from_outside_blames_nobody_and_the_session_is_rebuilt(
    runtime: aiocg.Runtime, env: aiocg.Env, events: Callable[[], list[dict[str, Any]]], eventually: Callable[..., Any]
) -> None:
    slots = [slot for one in runtime.supervisors() for slot, *_ in one.looks()]
    await eventually(lambda: all(slot.state is SlotState.READY for slot in slots))
    before = len(events())
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert (await env.step("increment"))[3] is False
    seen = events()[before:]
    assert {one["cause"] for one in _of(seen, "worker ended")} == {"signal SIGKILL"}
    assert not _of(seen, "request held responsible")
    (rebuilt,) = _of(seen, "session rebuilt")
    await eventually(lambda: len(_of(events()[before:], "worker ready")) == 2)
    ready = {one["slot"]: one["pid"] for one in _of(events()[before:], "worker ready")}
    assert ready[rebuilt["slot"]] in runtime.worker_pids()


async def test_every_field_of_every_event_is_documented(
    runtime: aiocg.Runtime, env: aiocg.Env, events: Callable[[], list[dict[str, Any]]]
) -> None:
    await env.step("abort")
    await env.reset()
    await env.step("exit")
    standard = {"level", "logger", "event", "time"}
    assert events()
    assert {name for event in events() for name in event} - standard <= FIELDS


async def test_closing_is_no_news(events: Callable[[], list[dict[str, Any]]]) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    assert [one["event"] for one in events()] == ["worker started", "worker ready"]


async def test_a_flood_of_clients_that_are_not_let_in_is_counted_and_fills_no_disk(
    events: Callable[[], list[dict[str, Any]]], eventually: Callable[..., Any]
) -> None:
    own, began = KeyPair.generate(), time.monotonic()
    context, outside = zmq.Context(), zmq.Context()
    with contextlib.ExitStack() as undo:
        undo.callback(context.term)  # to leave a context would close the gate's socket, which its thread waits at
        undo.callback(outside.term)
        gate = Gate(context, lambda key: False)
        server = undo.enter_context(context.socket(zmq.ROUTER))
        ServerSecurity.for_clients(own, []).apply(server)
        port = server.bind_to_random_port("tcp://127.0.0.1")
        clients = [undo.enter_context(outside.socket(zmq.DEALER)) for _ in range(20)]
        for client in clients:
            stranger = KeyPair.generate()
            client.curve_serverkey = own.public.encode()
            client.curve_publickey, client.curve_secretkey = stranger.public.encode(), stranger.secret.encode()
            client.connect(f"tcp://127.0.0.1:{port}")
        await eventually(lambda: gate.refused >= 20)
        for socket in (server, *clients):
            socket.linger = 0
    lines = _of(events(), "handshake refused")
    assert lines[0]["address"] == "127.0.0.1"
    assert 1 <= len(lines) <= 1 + time.monotonic() - began
