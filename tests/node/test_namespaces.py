"""A node and its clients on several hosts: what networks do to them, and what they do to each other.

The hosts are network namespaces, so this needs root, or what root has in a container (CAP_NET_ADMIN).
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aiocg.transport.keys import KeyFolder

from .namespaces import Host, Network, missing, network

CLIENT = Path(__file__).with_name("stepping_client.py")
HOSTILE = Path(__file__).with_name("hostile_peers.py")
LACK = missing()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(90),
    pytest.mark.skipif(LACK is not None, reason=f"network namespaces: {LACK}"),
]

ENVIRONMENTS = 8
ROUNDS = 30
PAUSE = 0.1
SHORT_LEASE = 2.0


def eventually(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Wait until a condition holds, and return what it is then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.05)
    pytest.fail(f"not so after {seconds} s: {what}")


class Client:
    """A client program on a host.

    Args:
        host: where it runs.
        home: folder with its keys.
        output: where it writes.
        arguments: of the program.
    """

    def __init__(self, host: Host, home: Path, output: Path, *arguments: object) -> None:
        self._output = output
        command = [sys.executable, "-P", str(CLIENT), *map(str, arguments)]
        self.process = host.start(*command, env=_environment(home), output=output)

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has said so far."""
        text = self._output.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def rounds(self) -> list[dict[str, Any]]:
        """Return its rounds so far."""
        return [line for line in self.lines() if "round" in line]

    def wait_for_rounds(self, number: int) -> None:
        """Wait until it has done so many rounds."""
        eventually(lambda: len(self.rounds()) >= number or self._check(), f"{number} rounds of {self.lines()[-1:]}")

    def _check(self) -> None:
        if self.process.poll() not in (None, 0):
            pytest.fail(f"the client ended: {self.lines()[-1:]} {self.errors()[-3000:]}")

    def errors(self) -> str:
        """Return what it has written to standard error."""
        return self._output.with_suffix(".err").read_text()

    def finish(self, seconds: float = 40.0) -> dict[str, Any]:
        """Wait for its end and return the last line."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the client goes on: {self.lines()[-1:]} {self.errors()[-3000:]}")
        self._check()
        return self.lines()[-1]


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "AIOCG_KEYS": str(home / "keys"), "AIOCG_LOG": "debug"}


def check_that_nothing_was_lost_or_done_twice(client: Client, rounds: int = ROUNDS) -> None:
    """Check every number that a client has seen."""
    for number, line in enumerate(client.rounds()):
        assert line["errors"] == []
        assert line["values"] == [1000 * index + number + 1 for index in range(ENVIRONMENTS)]
    assert len(client.rounds()) == rounds


class Node:
    """`aiocg serve` on a host, and what can be seen of it there.

    Attributes:
        address: where clients find it.
        process: the program.
    """

    def __init__(self, host: Host, folder: Path, port: int, lease: float) -> None:
        self.address = f"tcp://{host.address}:{port}"
        self._host, self._metrics = host, f"127.0.0.1:{port + 1000}"
        self._folder, self._arguments = folder, ["--lease", str(lease), "--client-workers", "6"]
        self.process = self.start()

    def start(self) -> "subprocess.Popen[str]":
        """Start it, or start it again."""
        command = [sys.executable, "-P", "-m", "aiocg.cli", "serve", "--bind", self.address, *self._arguments]
        output = self._folder / f"node-{time.monotonic_ns()}.out"
        self.log = output.with_suffix(".err")
        environ = {**_environment(self._folder), "AIOCG_LOG": "json:debug"}
        self.process = self._host.start(*command, "--metrics", self._metrics, env=environ, output=output)
        eventually(lambda: self._scrape() is not None or self._check(), "the node serves metrics")
        return self.process

    def _check(self) -> None:
        if self.process.poll() is not None:
            pytest.fail(f"the node ended: {self.log.read_text()[-3000:]}")

    def _scrape(self) -> str | None:
        url = f"http://{self._metrics}/metrics"
        script = f"import urllib.request as r; print(r.urlopen({url!r}, timeout=5).read().decode())"
        done = self._host.run(sys.executable, "-c", script)
        return done.stdout if done.returncode == 0 else None

    def numbers(self) -> dict[tuple[str, ...], float]:
        """Return its metrics, by names and values of labels."""
        text = eventually(self._scrape, "the node serves metrics")
        return {
            (sample.name.removeprefix("aiocg_node_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def number(self, name: str, *labels: str) -> float:
        """Return one number, 0 when there is none of that name."""
        return self.numbers().get((name, *labels), 0.0)

    def workers(self, client: str) -> float:
        """Return how many processes a client has."""
        return sum(value for key, value in self.numbers().items() if key[:2] == ("workers", client))

    def events(self) -> list[dict[str, Any]]:
        """Return what it has logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


class Site:
    """A network with a host for nodes, and others for clients that are authorised there.

    Attributes:
        patient: a node with a long lease.
        strict: one with a lease of `SHORT_LEASE` seconds.
        folder: with a folder for each host.
        public: the nodes' public key.
    """

    def __init__(self, net: Network, folder: Path) -> None:
        self.net, self.folder = net, folder
        self.host = net.host("node")
        self._keys = KeyFolder(folder / "node" / "keys")
        self.public = self._keys.create().public
        self.patient = Node(self.host, folder / "node", 7000, 30.0)
        self.strict = Node(self.host, folder / "node", 7001, SHORT_LEASE)
        self._outputs = itertools.count()

    def admit(self, host: Host, *, authorise: bool = True) -> Host:
        """Give a host keys, and have them authorised under its name."""
        keys = KeyFolder(self.folder / host.name / "keys")
        public = keys.create().public
        for node in (self.patient, self.strict):
            keys.trust(node.address, self.public)
        if authorise:
            self._keys.authorize(host.name, public)
        return host

    def client(self, host: Host, node: Node | str, *arguments: object) -> Client:
        """Start a client program on a host."""
        home = self.folder / host.name
        address = node if isinstance(node, str) else node.address
        return Client(host, home, home / f"{next(self._outputs)}.out", address, *arguments)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nodes, and clients on good lines."""
    with network() as net:
        made = Site(net, tmp_path_factory.mktemp("site"))
        yield made


@pytest.fixture(scope="module")
def one(site: Site) -> Host:
    """A host with an authorised client."""
    return site.admit(site.net.host("one"))


@pytest.fixture(scope="module")
def two(site: Site) -> Host:
    """Another one."""
    return site.admit(site.net.host("two"))


STEPS = ("step", ENVIRONMENTS, ROUNDS, PAUSE)


@pytest.fixture(scope="module")
def undisturbed(site: Site) -> dict[str, Any]:
    """What the stepping client ends with on one machine."""
    done = subprocess.run(
        [sys.executable, "-P", str(CLIENT), "", "step", str(ENVIRONMENTS), str(ROUNDS), "0"],
        capture_output=True,
        check=True,
        text=True,
    )
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


# --------------------------------------------------------------------------------------------- what networks do


def test_after_a_partition_within_the_lease_all_goes_on_as_if_nothing_had_been(
    site: Site, one: Host, two: Host, undisturbed: dict[str, Any]
) -> None:
    requests = site.patient.number("requests_total", "one")
    cut, other = (site.client(host, site.patient, *STEPS) for host in (one, two))
    cut.wait_for_rounds(3)
    other.wait_for_rounds(3)
    one.cut()
    before, others = len(cut.rounds()), len(other.rounds())
    time.sleep(3.0)
    assert len(cut.rounds()) <= before + 1
    assert len(other.rounds()) > others + 5
    one.mend()
    for client in (cut, other):
        assert client.finish() == undisturbed
        check_that_nothing_was_lost_or_done_twice(client)
        assert len({tuple(line["pids"]) for line in client.rounds()}) == 1, "the same processes throughout"
    assert site.patient.number("expired_leases_total", "one") == 0
    (sent,) = (line["sent"] for line in cut.lines() if "sent" in line)
    assert site.patient.number("requests_total", "one") - requests == sent, "each is carried out once"


def test_after_a_partition_longer_than_the_lease_sessions_are_free_there_and_rebuilt_later(
    site: Site, one: Host, undisturbed: dict[str, Any]
) -> None:
    client = site.client(one, site.strict, *STEPS)
    client.wait_for_rounds(3)
    one.cut()
    eventually(lambda: site.strict.workers("one") == 0, "the client's workers are gone", 4 * SHORT_LEASE)
    assert site.strict.number("expired_leases_total", "one") == 1
    gone = [event for event in site.strict.events() if event["event"] == "client gone"][-1]
    assert (gone["client"], gone["cause"]) == ("one", "its lease ran out")
    one.mend()
    assert client.finish() == undisturbed
    check_that_nothing_was_lost_or_done_twice(client)
    first, last = client.rounds()[0], client.rounds()[-1]
    assert not set(first["pids"]) & set(last["pids"]), "other processes"


def test_over_a_bad_line_a_search_finds_what_it_finds_at_home(site: Site) -> None:
    far = site.admit(site.net.far_host("far", loss=0.03, delay=0.005))
    search = site.client(far, site.patient, "search", 60)
    steps = site.client(far, site.patient, "step", ENVIRONMENTS, 10, 0)
    home = subprocess.run(
        [sys.executable, "-P", str(CLIENT), "", "search", "60"], capture_output=True, check=True, text=True
    )
    assert search.finish() == json.loads(home.stdout.splitlines()[-1])
    steps.finish()
    check_that_nothing_was_lost_or_done_twice(steps, 10)


# ------------------------------------------------------------------------------------------- who is not let in


def test_who_is_not_authorised_is_told_so_and_gets_nothing(site: Site) -> None:
    stranger = site.admit(site.net.host("stranger"), authorise=False)
    before = site.patient.number("refused_handshakes_total")
    began = time.monotonic()
    client = site.client(stranger, site.patient, *STEPS)
    assert client.process.wait(20) != 0
    assert time.monotonic() - began < 15
    last = client.lines()[-1]
    assert last["error"] == "NodeUnreachable"
    assert "authorize" in last["message"]
    assert site.patient.number("refused_handshakes_total") > before
    assert site.patient.number("clients", "stranger") == 0


def test_a_handshake_that_is_sent_again_opens_nothing(site: Site, one: Host, tmp_path: Path) -> None:
    host, port = site.patient.address.removeprefix("tcp://").split(":")
    recorded = tmp_path / "recorded"
    proxy = one.start(*_hostile("record", 7000, host, port, recorded), env=os.environ, output=tmp_path / "proxy.out")
    eventually(lambda: "listening" in (tmp_path / "proxy.out").read_text(), "the proxy listens")
    KeyFolder(site.folder / "one" / "keys").trust("tcp://127.0.0.1:7000", site.public)
    client = site.client(one, "tcp://127.0.0.1:7000", "step", ENVIRONMENTS, 3, 0)
    eventually(lambda: client.process.poll() is not None, "it ends, as the proxy leads to no worker")
    assert client.lines()[-1]["error"] == "NodeUnreachable"
    proxy.kill()
    assert recorded.stat().st_size > 500, "greeting, handshake and messages"
    before = site.patient.numbers()
    one.start(*_hostile("replay", host, port, recorded), env=os.environ, output=tmp_path / "replay.out").wait(30)
    came = json.loads((tmp_path / "replay.out").read_text())
    assert came["closed"]
    assert came["received"] < 500, "a greeting and half a handshake"
    after = site.patient.numbers()
    for name in ("attached_clients_total", "worker_starts_total", "requests_total"):
        assert after[name, "one"] == before[name, "one"]


# --------------------------------------------------------------------------------- what clients do to each other


def test_a_flood_from_one_host_does_not_keep_the_clients_of_others_from_working(
    site: Site, one: Host, two: Host, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    host, port = site.patient.address.removeprefix("tcp://").split(":")
    node = psutil.Process(site.patient.process.pid)
    memory, descriptors = node.memory_info().rss, node.num_fds()
    client = site.client(one, site.patient, *STEPS)
    client.wait_for_rounds(1)
    flood = two.start(*_hostile("flood", host, port, 5), env=os.environ, output=tmp_path / "flood.out")
    time.sleep(1.0)
    late = site.client(one, site.patient, "step", ENVIRONMENTS, 3, 0)  # who comes in the middle of it
    late.finish(20)
    assert client.finish() == undisturbed
    flood.wait(20)
    counts = json.loads((tmp_path / "flood.out").read_text())
    assert counts["connections"] > 100
    check_that_nothing_was_lost_or_done_twice(client)
    check_that_nothing_was_lost_or_done_twice(late, 3)
    assert len({tuple(line["pids"]) for line in client.rounds()}) == 1
    assert node.memory_info().rss < memory + (64 << 20)
    eventually(lambda: node.num_fds() <= descriptors + 8, "its connections are closed", 20)


def test_a_client_that_stops_reading_holds_up_no_other_and_goes_on_later(
    site: Site, one: Host, two: Host, undisturbed: dict[str, Any]
) -> None:
    slow = site.client(two, site.patient, "read", 8, 200)
    eventually(lambda: len(slow.rounds()) >= 1 or slow._check(), "it reads")
    os.kill(slow.process.pid, signal.SIGSTOP)
    assert len(slow.rounds()) < 8, "it is in the midst of reading"
    client = site.client(one, site.patient, *STEPS)
    client.wait_for_rounds(3)
    held = site.patient.number("memory_bytes", "two")
    assert client.finish() == undisturbed
    check_that_nothing_was_lost_or_done_twice(client)
    assert site.patient.number("memory_bytes", "two") < held + (1 << 20), "what nobody reads does not pile up"
    os.kill(slow.process.pid, signal.SIGCONT)
    assert slow.finish() == {"read": 8 * 200 * 65536}


# --------------------------------------------------------------------------------------------------- who is killed


def test_what_a_killed_client_had_is_free_after_its_lease(site: Site, one: Host) -> None:
    client = site.client(one, site.strict, *STEPS)
    client.wait_for_rounds(3)
    assert site.strict.workers("one") == 2
    assert site.strict.number("sessions", "one") >= ENVIRONMENTS
    client.process.kill()
    eventually(lambda: site.strict.workers("one") == 0, "its workers are gone", SHORT_LEASE + 10)
    assert site.strict.number("clients", "one") == 0


def test_a_killed_node_leaves_nothing_and_its_clients_go_on_when_it_is_back(
    site: Site, one: Host, undisturbed: dict[str, Any]
) -> None:
    client = site.client(one, site.strict, *STEPS)
    client.wait_for_rounds(3)
    workers = {child.pid for child in psutil.Process(site.strict.process.pid).children(recursive=True)}
    assert len(workers) >= 2
    site.strict.process.kill()
    site.strict.process.wait(10)
    eventually(lambda: not workers & set(site.host.pids()), "its workers are gone", 10)
    site.strict.start()
    assert client.finish() == undisturbed
    check_that_nothing_was_lost_or_done_twice(client)


def _hostile(*arguments: object) -> list[str]:
    return [sys.executable, "-P", str(HOSTILE), *map(str, arguments)]
