"""Nodes that Ray places and restarts on its machines.

One actor on each machine holds a node, which makes its key pair in its own process. Ray hands back its address and
public key, and passes on the public keys of those whom it lets in. No secret key leaves the process that made it.

Nodes belong to the runtime that has started them, or stand (`ray_actors.up`): every runtime on the Ray cluster uses
those.
"""

import contextlib
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from aiocg.cluster import ray_actors
from aiocg.cluster.hosts import Host
from aiocg.cluster.ray_actors import READY, machines, place, share_on
from aiocg.errors import AiocgError, NodeUnreachable
from aiocg.host.threads import in_thread

_ANSWER = 2.0  # seconds to wait for a node that was started before


@dataclass
class _Placed:
    """An actor that holds a node.

    Attributes:
        machine: Ray's id of the machine that it was started for, "" if Ray may choose another one.
        group: the placement group that is removed with it, None if it shares one.
        host: what the node said last, None before it has.
        leaves: it ends as soon as nobody uses it.
        asked: Ray's promise of what it will say, None if it was not asked.
    """

    actor: Any
    machine: str = ""
    group: Any = None
    host: Host | None = None
    leaves: bool = False
    asked: Any = None


class RayNodes:
    """The nodes on the machines of a Ray cluster, for one client.

    Args:
        cluster: `"ray"` for the cluster of RAY_ADDRESS or of this machine, or else a new one; or `"ray://HOST:PORT"`.
        client: public key of the client.
        only_standing: use nodes that stand, and start none.
    """

    def __init__(self, cluster: str, client: str, *, only_standing: bool = False) -> None:
        self._ray = ray_actors.ray_package()
        self._cluster = cluster
        self._client = client
        self._only_standing = only_standing
        self._standing = False
        self._group: Any = None
        self._placed: list[_Placed] = []
        self._first: set[str] = set()  # ids of the machines of the beginning, or what has replaced them
        self._given_up: set[str] = set()  # ids of machines that have had a node, and were too many
        self._requested = 0

    async def start(self) -> list[Host]:
        """Use the nodes that stand, or else have one started on each machine; return them.

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
        ray_actors.connect(self._cluster, running=self._only_standing)
        self._placed = [_Placed(actor, name) for name, actor in ray_actors.standing().items()]
        self._standing = bool(self._placed)
        if self._only_standing and not self._standing:
            raise AiocgError("no nodes stand there; `aiocg cluster up ray` starts some")
        if not self._standing:
            self._first = set(found := machines())
            self._group = self._ray.util.placement_group([{"CPU": n} for n in found.values()], strategy="STRICT_SPREAD")
            self._ray.get(self._group.ready(), timeout=READY)
            self._placed = [_Placed(place(self._group, index, n)) for index, n in enumerate(found.values())]

    async def hosts(self, timeout: float = _ANSWER) -> list[Host]:
        """Return the nodes, as far as they can be asked; of the others, what they said before."""
        await in_thread(lambda: self._ask(timeout))
        return [one.host for one in self._placed if one.host is not None and not one.leaves]

    def _ask(self, timeout: float) -> None:
        if self._standing:
            known = {one.machine: one for one in self._placed}
            actors = ray_actors.standing()
            self._placed = [known.get(name) or _Placed(actor, name) for name, actor in actors.items()]
        for one in self._placed:
            one.asked = one.asked or one.actor.admit.remote(self._client)
        asked = {one.asked: one for one in self._placed}
        if not asked:
            return
        answered, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=timeout)
        for reference in answered:
            asked[reference].asked = None
            with contextlib.suppress(self._ray.exceptions.RayError):  # it is being restarted, and will be asked again
                address, public = self._ray.get(reference)
                asked[reference].host = Host(address, public)

    async def scale(self, wanted: int, used: Container[str]) -> None:
        """Ask Ray's autoscaler for so many machines, start nodes on new ones, and give up nodes that are too many.

        Nodes that stand are left as they are.

        Args:
            wanted: number of machines.
            used: addresses of the nodes that are in use; one that leaves ends when it is not any more.
        """
        if not self._standing:
            with contextlib.suppress(self._ray.exceptions.RayError, TimeoutError):  # tried again at the next look
                await in_thread(lambda: self._scale(wanted, used))

    def _scale(self, wanted: int, used: Container[str]) -> None:
        found = machines()
        if self._requested != wanted and (wanted > len(self._first) or self._requested):  # it is one request for all
            self._requested = wanted
            shares = sorted(found.values()) or [1]
            self._request([{"CPU": share} for share in (*shares, *[shares[0]] * (wanted - len(shares)))[:wanted]])
        stay = [one for one in self._placed if not one.leaves]
        for one in reversed(stay):
            if one.machine and (one.machine not in found or len(stay) > wanted):
                one.leaves = True
                stay.remove(one)
        for one in [one for one in self._placed if one.leaves]:
            if one.host is None or one.host.address not in used:
                self._placed.remove(one)
                self._end([one])
                self._given_up.add(one.machine)
        for machine in found.keys() - self._first - {one.machine for one in self._placed}:
            if gone := self._first - found.keys():  # Ray places there what was on another one
                self._first.remove(gone.pop())
                self._first.add(machine)
            elif machine not in self._given_up or len(stay) < wanted:
                stay.append(self._start_on(machine, found[machine]))

    def _start_on(self, machine: str, share: int) -> _Placed:
        group = self._ray.util.placement_group([share_on(machine, share)])
        placed = _Placed(place(group, 0, share), machine, group)
        self._placed.append(placed)
        return placed

    def _request(self, bundles: list[dict[str, float]]) -> None:
        from ray.autoscaler.sdk import request_resources

        request_resources(bundles=bundles)

    async def close(self) -> None:
        """End our nodes, and leave those that stand; Ray itself goes on."""
        await in_thread(self._close)

    def _close(self) -> None:
        placed, self._placed = self._placed, []
        with contextlib.suppress(Exception):  # Ray may be gone
            if self._standing:
                self._ray.get([one.actor.dismiss.remote(self._client) for one in placed], timeout=_ANSWER)
                return
            self._end(placed)
            if self._group is not None:
                self._ray.util.remove_placement_group(self._group)
            if self._requested:
                self._request([])

    def _end(self, placed: Iterable[_Placed]) -> None:
        for one in placed:
            self._ray.kill(one.actor)
            if one.group is not None:
                self._ray.util.remove_placement_group(one.group)
