"""Nodes on the machines of a Ray cluster: Ray places and restarts them, and takes no part in what they do.

One actor on each machine holds a node. The client's public key is part of the actor, so nobody else is let in; the node
makes a key pair in its own process, and Ray hands back its address and public key. No secret key leaves the process
that made it.
"""

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import Future
from typing import Any

from aiocg.cluster.hosts import Host
from aiocg.errors import AiocgError, NodeUnreachable
from aiocg.host.threads import in_thread
from aiocg.node.leases import Policy
from aiocg.node.limits import Limits, LimitsTable
from aiocg.node.server import Node, Settings, installed_kinds
from aiocg.transport.security import KeyPair

READY = 60.0  # seconds to wait for machines, and for a node to start
ANSWER = 2.0  # seconds to wait for a node that was started before

logger = logging.getLogger("aiocg.cluster")


class RayNode:
    """A node in a thread of this process; Ray makes an actor of it.

    Args:
        client: public key of the one client.
        workers: number of workers that it should run; it may run twice as many.
    """

    def __init__(self, client: str, workers: int) -> None:
        self._said: Future[tuple[str, str]] = Future()
        arguments = client, workers, _ray().util.get_node_ip_address()
        threading.Thread(target=lambda: asyncio.run(self._serve(*arguments)), daemon=True).start()

    async def _serve(self, client: str, workers: int, ip: str) -> None:
        try:
            pair = KeyPair.generate()
            settings = Settings(
                f"tcp://{ip}:0",
                pair,
                lambda: {client: "the client"},
                Policy(workers=4 * workers, kinds=installed_kinds(), processors=workers),
                LimitsTable(Limits(workers=2 * workers, spawns_per_minute=60 * workers)),
                options={"untrusted": False},
            )
            node = await Node.open(settings)
        except BaseException as error:
            self._said.set_exception(error)
            raise
        self._said.set_result((node.address, pair.public))
        await node.run()

    def said(self) -> tuple[str, str]:
        """Return the node's address and public key, once it listens."""
        return self._said.result(READY)


class RayNodes:
    """The nodes on the machines of a Ray cluster.

    Args:
        cluster: `"ray"` for the cluster of RAY_ADDRESS or of this machine, or else a new one; or `"ray://HOST:PORT"`.
        client: public key of the client.
    """

    def __init__(self, cluster: str, client: str) -> None:
        self._ray = _ray()
        self._cluster = cluster
        self._client = client
        self._group: Any = None
        self._actors: list[Any] = []
        self._hosts: dict[int, Host] = {}  # by the numbers of the actors

    async def start(self) -> list[Host]:
        """Have a node started on each machine; return those that were started.

        Raises:
            NodeUnreachable: if Ray cannot be reached, or has no machine free.
        """
        try:
            await in_thread(self._start)
        except Exception as error:  # Ray raises errors of many kinds
            await self.close()
            raise NodeUnreachable(self._cluster, f"Ray has no machines for us: {error}") from error
        return await self.hosts(READY)

    def _start(self) -> None:
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray = self._ray
        if not ray.is_initialized():
            address = None if self._cluster == "ray" else self._cluster
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
        machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        shares = [processors for processors in machines if processors]
        self._group = placement_group([{"CPU": share} for share in shares], strategy="STRICT_SPREAD")
        ray.get(self._group.ready(), timeout=READY)
        actor = ray.remote(max_restarts=-1, max_task_retries=-1)(RayNode)
        for index, share in enumerate(shares):
            strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index)
            options = {"num_cpus": share, "scheduling_strategy": strategy, "max_concurrency": 4}
            self._actors.append(actor.options(**options).remote(self._client, share))

    async def hosts(self, timeout: float = ANSWER) -> list[Host]:
        """Return the nodes, as far as they can be asked; of the others, what they said before."""
        await in_thread(lambda: self._ask(timeout))
        return list(self._hosts.values())

    def _ask(self, timeout: float) -> None:
        asked = {actor.said.remote(): index for index, actor in enumerate(self._actors)}
        answered, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=timeout)
        for reference in answered:
            with contextlib.suppress(self._ray.exceptions.RayError):  # it is being restarted, and will be asked again
                address, public = self._ray.get(reference)
                self._hosts[asked[reference]] = Host(address, public)

    async def close(self) -> None:
        """End the nodes; Ray itself goes on."""
        await in_thread(self._close)

    def _close(self) -> None:
        from ray.util.placement_group import remove_placement_group

        actors, self._actors = self._actors, []
        with contextlib.suppress(Exception):  # Ray may be gone
            for actor in actors:
                self._ray.kill(actor)
            if self._group is not None:
                remove_placement_group(self._group)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise AiocgError("nodes on Ray need Ray: pip install 'aiocg[ray]'") from None
    return ray
