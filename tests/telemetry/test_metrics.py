"""Metrics: what a runtime's numbers say after what has happened, in Prometheus' format."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import aiocg
import aiocg.testing
from aiocg.errors import AiocgError
from aiocg.telemetry import metrics

Numbers = dict[tuple[str, ...], float]


def numbers_in(text: str) -> Numbers:
    """Return the samples in a text, by their names and the values of their labels."""
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


@pytest.fixture
def source(runtime: aiocg.Runtime) -> metrics.Source:
    """The runtime's numbers."""
    return metrics.of_runtime(runtime)


def _sum(numbers: Numbers, name: str) -> float:
    return sum(value for key, value in numbers.items() if key[0] == name)


async def test_a_runtime_without_workers_has_no_numbers(runtime: aiocg.Runtime) -> None:
    assert runtime.metrics() == ""


async def test_workers_sessions_and_requests_are_counted(
    runtime: aiocg.Runtime, source: metrics.Source, env: aiocg.Env, eventually: Callable[..., Any]
) -> None:
    before = numbers_in(metrics.text(source))
    await asyncio.gather(*(env.submit("increment") for _ in range(10)))
    child = await env.fork()
    await child.observe("value")
    after = numbers_in(runtime.metrics())
    assert after["aiocg_requests_total", "scripted"] == before["aiocg_requests_total", "scripted"] + 12
    assert after["aiocg_requests_in_flight", "scripted"] == 0
    assert after["aiocg_sessions", "scripted"] == before["aiocg_sessions", "scripted"] + 1
    assert after["aiocg_worker_starts_total", "scripted"] == 2
    assert ("aiocg_worker_deaths_total",) not in {key[:1] for key in after}
    await eventually(lambda: numbers_in(metrics.text(source))["aiocg_workers", "scripted", "ready"] == 2)
    assert _sum(after, "aiocg_workers") == 2
    assert after["aiocg_worker_memory_bytes", "scripted", "0"] > 1 << 20
    await child.close()


async def test_what_is_on_its_way_is_a_gauge(source: metrics.Source, env: aiocg.Env) -> None:
    futures = [env.submit("nap") for _ in range(5)]
    await asyncio.sleep(0)
    assert numbers_in(metrics.text(source))["aiocg_requests_in_flight", "scripted"] == 5
    await asyncio.gather(*futures)
    assert numbers_in(metrics.text(source))["aiocg_requests_in_flight", "scripted"] == 0


async def test_compiler_seconds_go_on_through_deaths(
    source: metrics.Source, env: aiocg.Env, eventually: Callable[..., Any]
) -> None:
    def seconds() -> float:
        return numbers_in(metrics.text(source))["aiocg_compiler_seconds_total", "scripted"]

    await asyncio.gather(*(env.submit("nap") for _ in range(10)))
    await eventually(lambda: seconds() >= 0.1)
    before = seconds()
    await env.step("crash")
    await env.reset()
    assert seconds() >= before


async def test_deaths_have_a_cause_and_failures_a_code(source: metrics.Source, env: aiocg.Env) -> None:
    await env.step("crash")
    await env.reset()
    await env.step("exit")
    await env.reset()
    await env.step("refuse")
    numbers = numbers_in(metrics.text(source))
    assert numbers["aiocg_worker_deaths_total", "signal SIGSEGV", "scripted"] == 2
    assert numbers["aiocg_worker_deaths_total", "exit status 3", "scripted"] == 2
    assert numbers["aiocg_requests_failed_total", "crashed", "scripted"] == 2
    assert numbers["aiocg_requests_failed_total", "action", "scripted"] == 1
    assert numbers["aiocg_sessions_lost_total", "scripted"] == 2
    assert numbers["aiocg_requests_resent_total", "scripted"] == 2  # each first death may be another request's


async def test_what_is_sent_again_after_a_kill_is_counted_and_does_not_fail(
    source: metrics.Source, runtime: aiocg.Runtime, env: aiocg.Env
) -> None:
    pids = runtime.worker_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that it is dead before it has answered
    futures = [env.submit("nap") for _ in range(20)]
    await asyncio.sleep(0.05)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await asyncio.gather(*futures)
    numbers = numbers_in(metrics.text(source))
    assert 1 <= numbers["aiocg_requests_resent_total", "scripted"] <= 20
    assert numbers["aiocg_sessions_rebuilt_total", "scripted"] == 1
    assert _sum(numbers, "aiocg_requests_failed_total") == 0


async def test_what_killed_its_worker_twice_is_in_quarantine_and_fails_by_that_code(
    source: metrics.Source, env: aiocg.Env
) -> None:
    for _ in range(2):
        await env.step("crash")
        await env.reset()
    numbers = numbers_in(metrics.text(source))
    assert numbers["aiocg_quarantined", "scripted"] == 1
    assert numbers["aiocg_requests_failed_total", "quarantined", "scripted"] == 1
    assert _sum(numbers, "aiocg_worker_deaths_total") == 2


async def test_bytes_are_counted_both_ways_and_through_deaths(source: metrics.Source, env: aiocg.Env) -> None:
    def sent_and_received() -> tuple[float, float]:
        numbers = numbers_in(metrics.text(source))
        return numbers["aiocg_sent_bytes_total", "scripted"], numbers["aiocg_received_bytes_total", "scripted"]

    before = sent_and_received()
    await env.observe("block")
    after = sent_and_received()
    assert 10 < after[0] - before[0] < 1000
    assert 65536 < after[1] - before[1] < 70_000  # perhaps with what the other worker says of itself
    await env.step("crash")
    await env.reset()
    later = sent_and_received()
    assert later[0] > after[0] and later[1] > after[1]


async def test_a_code_that_nobody_knows_is_not_a_number_of_its_own(env: aiocg.Env) -> None:
    tally = env._session.worker.tally
    for index in range(1000):
        tally.failed(f"code-{index}")
    assert tally.failures == {"other": 1000}


@pytest.fixture
async def server(source: metrics.Source, env: aiocg.Env) -> AsyncIterator[metrics.MetricsServer]:
    """Serves the numbers of a runtime with an environment."""
    server = metrics.MetricsServer("0", source)
    yield server
    await server.close()


async def _fetch(address: str) -> str:
    def fetch() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            text: str = answer.read().decode()
            return text

    return await asyncio.to_thread(fetch)


async def test_a_server_gives_the_same_numbers(server: metrics.MetricsServer, source: metrics.Source) -> None:
    assert server.address.startswith("127.0.0.1:")
    served, here = numbers_in(await _fetch(server.address)), numbers_in(metrics.text(source))
    assert {key for key in served if "memory" not in key[0]} == {key for key in here if "memory" not in key[0]}
    assert served["aiocg_requests_total", "scripted"] == here["aiocg_requests_total", "scripted"] > 0


async def test_a_reader_that_says_nothing_holds_up_no_other(server: metrics.MetricsServer) -> None:
    host, _, port = server.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\n")
    await writer.drain()
    assert "aiocg_workers" in await _fetch(server.address)
    writer.close()


async def test_a_closed_server_listens_no_more(source: metrics.Source, env: aiocg.Env) -> None:
    server = metrics.MetricsServer("127.0.0.1:0", source)
    await server.close()
    with pytest.raises(urllib.error.URLError):
        await _fetch(server.address)


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "[::1]"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AiocgError, match="is no address for metrics; expected HOST:PORT"):
        metrics.MetricsServer(address)


async def test_an_address_in_use_is_an_os_error(server: metrics.MetricsServer) -> None:
    with pytest.raises(OSError, match="in use"):
        metrics.MetricsServer(server.address)


@pytest.mark.slow
def test_without_the_library_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from aiocg.errors import AiocgError\n"
        "import aiocg.runtime, aiocg.telemetry  # which do without\n"
        "try: import aiocg.telemetry.metrics\n"
        "except AiocgError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout == "metrics need prometheus-client: pip install 'aiocg[telemetry]'\n"


def test_nothing_is_registered_for_the_whole_process() -> None:
    import prometheus_client

    assert "aiocg" not in prometheus_client.generate_latest().decode()
