"""When Ray is asked for machines: when more are wanted than there were, and to take that back; never before."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.cluster import _membership as membership
from aiocg.cluster import machine as cluster_machine
from aiocg.cluster import ray as ray_nodes
from aiocg.cluster import ray_actors
from aiocg.cluster.hosts import Host
from aiocg.cluster.machine import ClusterMachine
from aiocg.cluster.ray import RayNodes


class Ray:
    """A Ray cluster without Ray: its machines, and what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **machines: int) -> None:
        self.machines = machines
        self.asked: list[list[dict[str, float]]] = []
        self.placed: list[str] = []
        ended: list[Any] = []
        self.ended = ended
        package = SimpleNamespace(
            kill=ended.append,
            util=SimpleNamespace(placement_group=lambda bundles: bundles[0], remove_placement_group=lambda group: None),
        )
        monkeypatch.setattr(ray_actors, "ray_package", lambda: package)
        monkeypatch.setattr(ray_nodes, "machines", lambda: dict(self.machines))
        monkeypatch.setattr(ray_nodes, "share_on", lambda machine, share: {"CPU": share, "on": machine})
        monkeypatch.setattr(ray_nodes, "place", lambda group, index, share: self._place(group))
        monkeypatch.setattr(RayNodes, "_request", lambda nodes, bundles: self.asked.append(bundles))

    def _place(self, group: Any) -> str:
        self.placed.append(group["on"])
        return str(group["on"])

    def nodes(self) -> RayNodes:
        """Return nodes on the machines that there are."""
        nodes = RayNodes("ray", "a client")
        nodes._first = set(self.machines)
        nodes._placed = [ray_nodes._Placed(f"actor on {machine}") for machine in self.machines]
        return nodes


def test_as_many_machines_as_there_are_need_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, a=4, b=8)
    nodes = ray.nodes()
    for wanted in (2, 2, 1):
        nodes._scale(wanted, ())
    assert ray.asked == [] and ray.placed == [] and ray.ended == []


def test_a_request_has_all_machines_and_is_made_once_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, a=4, b=8)
    nodes = ray.nodes()
    for _ in range(3):
        nodes._scale(3, ())
    assert ray.asked == [[{"CPU": 4}, {"CPU": 8}, {"CPU": 4}]]  # one more, as large as the smallest
    ray.machines["c"] = 4
    nodes._scale(3, ())
    nodes._scale(3, ())
    assert ray.placed == ["c"] and len(ray.asked) == 1
    nodes._scale(2, ())
    assert ray.ended == ["c"] and [len(bundles) for bundles in ray.asked] == [3, 2]
    nodes._scale(2, ())
    assert ray.placed == ["c"] and len(ray.asked) == 2  # the machine is still there, and is left alone
    nodes._close()
    assert ray.asked[-1] == []


def test_who_asked_for_nothing_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, a=4)
    nodes = ray.nodes()
    nodes._scale(1, ())
    nodes._close()
    assert ray.asked == []  # it is one request for all programs of the Ray cluster


def test_a_machine_in_the_place_of_another_one_is_not_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, a=4, b=8)
    nodes = ray.nodes()
    del ray.machines["b"]
    ray.machines["c"] = 8
    nodes._scale(2, ())
    assert ray.placed == [] and ray.asked == []  # Ray starts the actor of b there


async def wishes(monkeypatch: pytest.MonkeyPatch, count: int | None, placed: int, requests: int) -> list[int]:
    """Return how many machines a runtime on one wants, with so many workers, and requests that wait."""
    monkeypatch.setattr(membership, "GROW_AFTER", 0.0)
    monkeypatch.setattr(cluster_machine, "RAY_INTERVAL", 0.0)
    machine, wanted = ClusterMachine("ray", count=count), []
    machine.hosts = {"tcp://one:1": Host("tcp://one:1")}
    machine._launchers = [SimpleNamespace(placement=SimpleNamespace(placed=placed), requests=requests)]  # type: ignore
    enough = asyncio.Event()

    class Nodes:
        async def scale(self, count: int, used: Any) -> None:
            wanted.append(count)
            if len(wanted) == 3:
                enough.set()

        async def hosts(self) -> list[Host]:
            return list(machine.hosts.values())

    task = asyncio.create_task(machine._ask_ray(Nodes()))  # type: ignore[arg-type]
    await enough.wait()
    task.cancel()
    return wanted[:3]


async def test_more_machines_are_wanted_for_requests_that_more_workers_could_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await wishes(monkeypatch, None, placed=4, requests=400) == [2, 2, 2]
    assert await wishes(monkeypatch, 8, placed=4, requests=400) == [2, 2, 2]
    assert await wishes(monkeypatch, None, placed=4, requests=4) == [1, 1, 1]
    assert await wishes(monkeypatch, 4, placed=4, requests=400) == [1, 1, 1]  # all of its workers have a place
