"""Several hosts on one machine: network namespaces on a bridge, with links that can be cut, lose and delay frames.

Names have the process id of the test run in them; what an earlier run that was killed has left is removed by the next.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "aiocg-test-"
WIRE = Path(__file__).with_name("wire.py")


def missing() -> str | None:
    """Say what this machine lacks for network namespaces, None if nothing."""
    if shutil.which("ip") is None:
        return "the command ip (iproute2) is not installed"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is not there or not ours: no links that lose frames"
    name = f"{PREFIX}{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "br0", "type", "bridge")
    except subprocess.CalledProcessError as error:
        return f"no network namespaces, which need root (CAP_NET_ADMIN): {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return None


@dataclass
class Host:
    """One host: a namespace with one interface.

    Attributes:
        name: of the host.
        namespace: of the kernel.
        address: its IP address.
        port: of the switch, that its cable is plugged into.
    """

    name: str
    namespace: str
    address: str
    port: str
    switch: str
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(self, *command: str, env: Mapping[str, str], output: Path) -> "subprocess.Popen[str]":
        """Start a program on the host; what it writes goes to a file, its errors to one beside that."""
        with output.open("w") as out, output.with_suffix(".err").open("w") as err:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],  # which becomes the command: same process id
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                text=True,
            )
        self.processes.append(process)
        return process

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a program on the host to its end."""
        return subprocess.run(
            ["ip", "netns", "exec", self.namespace, *command], capture_output=True, text=True, timeout=30
        )

    def pids(self) -> list[int]:
        """Return the process ids of all that runs on the host."""
        return [int(pid) for pid in _ip("netns", "pids", self.namespace).split()]

    def cut(self) -> None:
        """Pull the cable out of the switch."""
        _ip("-n", self.switch, "link", "set", self.port, "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        _ip("-n", self.switch, "link", "set", self.port, "up")

    def statistics(self) -> Mapping[str, int]:
        """Return how many packets and bytes the host has received and sent."""
        (link,) = json.loads(_ip("-n", self.namespace, "-s", "-j", "link", "show", "eth0"))
        return {f"{way}_{what}": link["stats64"][way][what] for way in ("rx", "tx") for what in ("packets", "bytes")}


class Network:
    """Hosts on one switch."""

    def __init__(self) -> None:
        self._prefix = f"{PREFIX}{os.getpid()}-{time.monotonic_ns() % 1_000_000}-"
        self._switch = f"{self._prefix}switch"
        self.hosts: list[Host] = []
        self._wires: list[subprocess.Popen[str]] = []
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "br0", "up")

    def host(self, name: str) -> Host:
        """Add a host with a good cable."""
        host = self._namespace(name)
        _ip("-n", self._switch, "link", "add", host.port, "type", "veth", "peer", "eth0", "netns", host.namespace)
        return self._plug(host)

    def far_host(self, name: str, *, loss: float, delay: float, seed: int = 1) -> Host:
        """Add a host behind a bad line.

        Args:
            name: of the host.
            loss: share of the frames that are lost, each way.
            delay: seconds that a frame takes, each way.
            seed: of the dice.
        """
        host = self._namespace(name)
        far = f"f{host.port}"
        command = [sys.executable, "-P", str(WIRE), host.port, far, str(loss), str(delay), str(seed)]
        wire = subprocess.Popen(
            ["ip", "netns", "exec", self._switch, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._wires.append(wire)
        assert wire.stdout is not None
        assert wire.stdout.readline() == "ready\n"
        _ip("-n", self._switch, "link", "set", far, "netns", host.namespace, "name", "eth0")
        return self._plug(host)

    def _namespace(self, name: str) -> Host:
        number = len(self.hosts) + 1
        host = Host(name, f"{self._prefix}{name}", f"10.77.0.{number}", f"port{number}", self._switch)
        _ip("netns", "add", host.namespace)
        self.hosts.append(host)
        return host

    def _plug(self, host: Host) -> Host:
        inside = ("-n", host.namespace)
        _ip("-n", self._switch, "link", "set", host.port, "master", "br0", "up")
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "up")
        return host

    def close(self) -> None:
        """End all processes on the hosts, and remove everything."""
        for wire in self._wires:
            assert wire.stdin is not None and wire.stdout is not None
            wire.stdin.close()
            wire.stdout.close()
            wire.wait(10)
        for name in _names():
            if name.startswith(self._prefix):
                _remove(name)
        for host in self.hosts:
            for process in host.processes:
                process.wait(10)


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Make a network, and remove it whatever happens; and others that no living test run owns."""
    for name in _names():
        if name.startswith(PREFIX) and not Path(f"/proc/{name.removeprefix(PREFIX).partition('-')[0]}").exists():
            _remove(name)
    made = Network()
    try:
        yield made
    finally:
        made.close()


def _names() -> list[str]:
    return [line.split()[0] for line in _ip("netns", "list").splitlines()]


def _remove(name: str) -> None:
    """Kill what runs in a namespace, the janitors last: they have folders to remove when the others are dead."""
    _kill(name, lambda command: b"janitor.py" not in command)
    patience = time.monotonic() + 5.0
    while _ip("netns", "pids", name) and time.monotonic() < patience:
        time.sleep(0.02)
    _kill(name, lambda command: True)
    _ip("netns", "delete", name)


def _kill(name: str, chosen: Callable[[bytes], bool]) -> None:
    for pid in _ip("netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if chosen(Path(f"/proc/{pid}/cmdline").read_bytes()):
                os.kill(int(pid), signal.SIGKILL)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, check=True, text=True, timeout=20).stdout
