"""Where the workers of a runtime run: on this machine, on a node, or on several."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiocg.errors import AiocgError
from aiocg.host.launcher import Machine
from aiocg.host.local import LocalMachine
from aiocg.host.shared_memory import Places, choose_memory

if TYPE_CHECKING:
    from aiocg.cluster.hosts import Host
    from aiocg.cluster.machine import ClusterMachine
    from aiocg.transport.security import ClientSecurity


def choose_machine(
    node: str | None,
    cluster: "str | Iterable[str | Host] | None",
    keys: "ClientSecurity | None",
    timeout: float,
    workers: int | None,
    memory: Places = None,
) -> "tuple[Machine, ClusterMachine | None]":
    """Return the machine that arguments of `Runtime`, or else environment variables, name; again if it is a cluster.

    Raises:
        ValueError: if both a node and a cluster are given, or one of them and a memory.
        AiocgError: if both variables are set, or the cluster's description or the memory cannot be used.
    """
    if node and cluster:
        raise ValueError("give a node or a cluster, not both")
    if node is None and cluster is None:
        node, cluster = os.environ.get("AIOCG_NODE", ""), os.environ.get("AIOCG_CLUSTER", "")
        if node and cluster:
            raise AiocgError("AIOCG_NODE (--node) and AIOCG_CLUSTER (--cluster) are both set; leave one of them out")
    if memory and (node or cluster):
        raise ValueError("the workers of a node remember where its operator says: set AIOCG_MEMORY for `aiocg serve`")
    if cluster:
        from aiocg.cluster.machine import ClusterMachine  # loaded on demand: local workers do not need its imports

        several = ClusterMachine(cluster, keys, timeout, workers)
        return several, several
    if node:
        from aiocg.node.client import NodeMachine

        return NodeMachine(node, keys, timeout), None
    return LocalMachine(choose_memory(memory)), None
