"""Actors of Ray that hold nodes: how they are placed, and those that stand until they are taken down."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import Any

from aiocg.errors import AiocgError, NodeUnreachable
from aiocg.node.leases import Policy
from aiocg.node.limits import Limits, LimitsTable
from aiocg.node.server import Node, Settings, installed_kinds
from aiocg.transport.security import KeyPair

READY = 60.0  # seconds to wait for machines, and for a node to start
_STANDING = "aiocg"  # namespace of the actors that stand, and how the names of their placement groups begin


class _RayNode:
    """A node in a thread of this process; Ray makes an actor of it.

    Args:
        workers: number of workers that it should run for each client; it may run twice as many.
    """

    def __init__(self, workers: int) -> None:
        self._said: Future[tuple[str, str]] = Future()
        self._clients: dict[str, str] = {}
        arguments = workers, ray_package().util.get_node_ip_address()
        threading.Thread(target=lambda: asyncio.run(self._serve(*arguments)), daemon=True).start()

    async def _serve(self, workers: int, ip: str) -> None:
        try:
            pair = KeyPair.generate()
            settings = Settings(
                f"tcp://{ip}:0",
                pair,
                lambda: dict(self._clients),
                Policy(workers=8 * workers, kinds=installed_kinds(), processors=workers),
                LimitsTable(Limits(workers=2 * workers, spawns_per_minute=60 * workers)),
                options={"untrusted": False},
            )
            node = await Node.open(settings)
        except BaseException as error:
            self._said.set_exception(error)
            raise
        self._said.set_result((node.address, pair.public))
        await node.run()

    def admit(self, client: str) -> tuple[str, str]:
        """Let the owner of a public key in; return the node's address and public key, once it listens."""
        self._clients[client] = "a client"
        return self._said.result(READY)

    def dismiss(self, client: str) -> None:
        """Let the owner of a public key in no more, and end what he has here."""
        self._clients.pop(client, None)

    def ready(self) -> None:
        """Wait until the node listens."""
        self._said.result(READY)


def ray_package() -> Any:
    """Return Ray.

    Raises:
        AiocgError: if it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise AiocgError("nodes on Ray need Ray: pip install 'aiocg[ray]'") from None
    return ray


def connect(cluster: str, *, running: bool = False) -> None:
    """Connect to a Ray cluster, unless this process belongs to one; `running` forbids to start one here."""
    ray = ray_package()
    if not ray.is_initialized():
        address = cluster if cluster != "ray" else "auto" if running else None
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)


def machines() -> dict[str, int]:
    """Return the processors of the machines that have any, by Ray's ids of the machines."""
    alive = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray_package().nodes() if node["Alive"]}
    return {machine: processors for machine, processors in alive.items() if processors}


def share_on(machine: str, processors: int) -> dict[str, float]:
    """Return the bundle of a placement group for so many processors of one machine."""
    (address,) = (node["NodeManagerAddress"] for node in ray_package().nodes() if node["NodeID"] == machine)
    return {"CPU": processors, f"node:{address}": 0.001}


def place(group: Any, index: int, processors: int, **options: Any) -> Any:
    """Have an actor with a node started in a bundle of a placement group, and again whenever it is gone."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    actor = ray_package().remote(max_restarts=-1, max_task_retries=-1, max_concurrency=4)(_RayNode)
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
    return actor.options(num_cpus=processors, scheduling_strategy=strategy, **options).remote(processors)


def standing() -> dict[str, Any]:
    """Return the actors that stand, by Ray's ids of the machines that they were started for."""
    ray, found = ray_package(), {}
    for one in ray.util.list_named_actors(all_namespaces=True):
        if one["namespace"] == _STANDING:
            with contextlib.suppress(ValueError):  # it has just been taken down
                found[one["name"]] = ray.get_actor(one["name"], namespace=_STANDING)
    return found


def up(cluster: str, processors: int | None = None) -> int:
    """Have a node stand on each machine of a running Ray cluster until `down`; return how many were started.

    Args:
        cluster: `"ray"` or `"ray://HOST:PORT"`.
        processors: share of each machine; all that it has if None.

    Raises:
        NodeUnreachable: if Ray cannot be reached, or has no machine free.
    """
    ray = ray_package()
    try:
        connect(cluster, running=True)
        taken, actors = standing(), []
        for machine, all_of_it in machines().items():
            if machine not in taken:
                share = min(all_of_it, processors or all_of_it)
                group = ray.util.placement_group(  # which nobody removes but `down`
                    [share_on(machine, share)], name=f"{_STANDING}-{machine}", lifetime="detached"
                )
                ray.get(group.ready(), timeout=READY)
                actors.append(place(group, 0, share, name=machine, namespace=_STANDING, lifetime="detached"))
        ray.get([actor.ready.remote() for actor in actors], timeout=READY)
    except Exception as error:  # Ray raises errors of many kinds
        raise NodeUnreachable(cluster, f"Ray has no machines for nodes: {error}") from error
    return len(actors)


def down(cluster: str) -> int:
    """End the nodes that stand on a Ray cluster; return how many there were.

    Raises:
        NodeUnreachable: if Ray cannot be reached.
    """
    ray = ray_package()
    try:
        connect(cluster, running=True)
        actors = standing()
        for actor in actors.values():
            ray.kill(actor)
        for group in ray.util.placement_group_table().values():
            if group["name"].startswith(f"{_STANDING}-") and group["state"] != "REMOVED":
                ray.util.remove_placement_group(ray.util.get_placement_group(group["name"]))
    except Exception as error:  # Ray raises errors of many kinds
        raise NodeUnreachable(cluster, f"Ray does not answer: {error}") from error
    return len(actors)
