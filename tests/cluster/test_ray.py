"""Nodes on the machines of a Ray cluster: one here, of this machine alone. Needs `pip install ray`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ray")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("ray_client.py")


def test_an_actor_holds_a_node_that_is_used_and_replaced_when_it_is_killed() -> None:
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: it has sockets
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
        done = subprocess.run(
            [sys.executable, "-P", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=500
        )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("ok: ")] == [
        "ok: a search finds what it finds at home",
        "ok: no key is in the environment of Ray's processes",
        "ok: the environment goes on with the next node",
        "ok: nothing of the node is left",
    ], done.stdout + done.stderr
