"""A plugin for the workers of Dask: on two of them here, alone and with nodes. Needs `pip install distributed`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from aiocg.cluster.hosts import write_hosts
from aiocg.gym.dask import RuntimePlugin

from .conftest import Nodes

SCRIPT = Path(__file__).with_name("dask_client.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def told_by(hosts: str, **variables: str) -> list[str]:
    """Run the script; return what it has found to be so."""
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), hosts],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removeprefix("ok: ") for line in done.stdout.splitlines() if line.startswith("ok: ")]


def test_tasks_share_the_runtime_of_their_worker_and_nothing_is_left() -> None:
    assert told_by("") == [
        "without the plugin there is a message: True",
        "the tasks of a worker share its runtime",
        "nothing is left",
    ]


def test_tasks_use_the_nodes_of_a_cluster(nodes: Callable[..., Nodes], place: Any, tmp_path: Path) -> None:
    two = nodes(2)
    write_hosts(tmp_path / "hosts.toml", two.hosts)
    told = told_by(str(tmp_path / "hosts.toml"), AIOCG_KEYS=place.environment["AIOCG_KEYS"])
    assert told == ["they use the nodes", "nothing is left"]


def test_keys_do_not_travel() -> None:
    with pytest.raises(ValueError, match="keys do not travel"):
        RuntimePlugin(keys=object())
