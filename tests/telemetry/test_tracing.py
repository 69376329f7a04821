"""Spans of requests: the caller's, and those of the workers that execute them, on this machine and on nodes."""

import asyncio
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

import aiocg
import aiocg.testing
from aiocg.gym import SyncRuntime
from aiocg.telemetry.tracing import LONGEST, NANO, _nanoseconds

from ..cluster.conftest import QUICK, runtime_on, serve
from ..node.conftest import Serve
from ..waiting import eventually

__all__ = ["serve"]  # a fixture


class Spans:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name, in the order of their beginning."""
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)


@pytest.fixture
def spans() -> Spans:
    return Spans()


def is_within(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    """Does a span belong to another one, and lie within it?"""
    assert inner.parent is not None and outer.context is not None and inner.context is not None
    assert (inner.parent.span_id, inner.context.trace_id) == (outer.context.span_id, outer.context.trace_id)
    times: Sequence[Any] = outer.start_time, inner.start_time, inner.end_time, outer.end_time
    return list(times) == sorted(times)


async def scripted(runtime: aiocg.Runtime) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    await env.reset()
    return env


async def test_a_step_is_one_trace_from_the_caller_to_the_worker(spans: Spans) -> None:
    async with aiocg.Runtime(workers=1, node="", tracer=spans.tracer) as runtime:
        env = await scripted(runtime)
        with spans.tracer.start_as_current_span("mine"):
            await env.step(["increment", "double"])
        await env.expand([["increment"], ["double"]])
        (pid,) = runtime.worker_pids()
    (mine,), (step,), (worker,) = spans.named("mine"), spans.named("aiocg step"), spans.named("worker step")
    assert is_within(worker, step) and is_within(step, mine)
    assert (step.kind, worker.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert step.attributes is not None and worker.attributes is not None
    assert (step.attributes["aiocg.kind"], step.attributes["aiocg.slot"]) == ("scripted", 0)
    assert step.attributes["aiocg.doing"] == "the actions [1, 2]"
    assert (worker.attributes["host.name"], worker.attributes["process.pid"]) == (platform.node(), pid)
    (reset,), (load,) = spans.named("aiocg open"), spans.named("worker load")
    assert is_within(load, reset) and is_within(spans.named("worker open")[0], reset)
    assert is_within(spans.named("worker expand")[0], spans.named("aiocg expand")[0])


@pytest.mark.slow
async def test_spans_of_nodes_name_the_worker(spans: Spans, serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=2, tracer=spans.tracer) as runtime:
        envs = [await scripted(runtime) for _ in range(4)]
        await asyncio.gather(*(env.step("increment") for env in envs))
        pids = set(runtime.worker_pids())
    steps, workers = spans.named("aiocg step"), spans.named("worker step")
    assert len(steps) == len(workers) == 4
    for worker in workers:
        assert worker.parent is not None
        (step,) = (one for one in steps if one.context is not None and one.context.span_id == worker.parent.span_id)
        assert is_within(worker, step)
    assert {one.attributes["process.pid"] for one in workers if one.attributes is not None} == pids


@pytest.mark.slow
async def test_a_program_that_a_node_keeps_is_loaded_by_traced_workers(spans: Spans, serve: Serve) -> None:
    async with serve() as site, site.runtime(workers=2, tracer=spans.tracer) as runtime:
        await scripted(runtime)
        await eventually(lambda: len(runtime.worker_pids()) == 2)
        pids = runtime.worker_pids()
        large = aiocg.testing.scripted_benchmark("7".ljust(100_000))
        for _ in range(4):
            env = await runtime.make("scripted-v0", benchmark=large)
            await env.reset()
            assert int((await env.step("double"))[0]) == 14
        assert runtime.worker_pids() == pids
        (supervisor,) = runtime.supervisors()
        assert sum(slot.channel.bytes_sent for slot in supervisor.workers) < 120_000  # once, although there are two
    assert len(spans.named("worker load")) >= 3


@pytest.mark.slow
async def test_what_a_killed_worker_was_doing_is_an_error_and_another_one_goes_on(spans: Spans) -> None:
    async with aiocg.Runtime(workers=1, node="", tracer=spans.tracer, policy=QUICK) as runtime:
        env = await scripted(runtime)
        (pid,) = runtime.worker_pids()
        step = asyncio.ensure_future(env.step(["nap"] * 100))
        (supervisor,) = runtime.supervisors()
        await eventually(lambda: supervisor.looks()[0][2].execution)  # type: ignore[union-attr]
        os.kill(pid, signal.SIGKILL)
        await step
        _, _, terminated, _, info = await env.step("refuse")
        assert terminated
    killed, done, failed = spans.named("worker step")
    step_span, failed_span = spans.named("aiocg step")
    assert killed.status.status_code is StatusCode.ERROR and "SIGKILL" in str(killed.status.description)
    assert is_within(killed, step_span) and is_within(done, step_span) and done.status.status_code is StatusCode.UNSET
    assert is_within(spans.named("worker rebuild")[0], step_span)
    assert failed_span.status.status_code is StatusCode.ERROR
    assert str(info["error"]).startswith(str(failed_span.status.description))
    assert is_within(failed, failed_span)


async def test_a_cancelled_request_ends_its_span(spans: Spans) -> None:
    async with aiocg.Runtime(workers=1, node="", tracer=spans.tracer, policy=QUICK) as runtime:
        env = await scripted(runtime)
        step = asyncio.ensure_future(env.step("nap"))
        await asyncio.sleep(0)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await eventually(lambda: spans.named("aiocg step"))
        assert spans.named("aiocg step")[0].status.description == "nobody waits for it any more"


@pytest.mark.slow
def test_without_a_tracer_nothing_of_opentelemetry_is_loaded() -> None:
    script = (
        "import asyncio, sys, aiocg, aiocg.testing\n"
        "async def main():\n"
        "    async with aiocg.Runtime(workers=1, node='') as runtime:\n"
        "        env = await runtime.make('scripted-v0', benchmark=aiocg.testing.scripted_benchmark(5))\n"
        "        await env.reset()\n"
        "        print(type(runtime.supervisors()[0].workers[0]).__name__)\n"
        "asyncio.run(main())\n"
        "print(sorted(name for name in sys.modules if 'opentelemetry' in name))\n"
    )
    for variable, expected in (("", ["WorkerSlot", "[]"]), ("1", ["TracedSlot"])):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script],
            env={**os.environ, "AIOCG_TRACE": variable}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[: len(expected)] == expected


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0])
def test_times_of_a_worker_that_lies_harm_nobody(nonsense: float) -> None:
    assert 0 <= _nanoseconds(nonsense) <= LONGEST * NANO


def test_the_blocking_runtime_takes_a_tracer(spans: Spans) -> None:
    with SyncRuntime(workers=1, node="", tracer=spans.tracer) as runtime:
        env = runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
        env.reset()
        with spans.tracer.start_as_current_span("mine"):
            env.step("increment")
    assert spans.named("aiocg step") and spans.named("worker step")
