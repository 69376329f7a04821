"""Nodes on the machines of a Ray cluster here. Needs `pip install ray`, or `ray[rllib]` and `torch` for all of it."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),  # an import would change all logs
]

HERE = Path(__file__).parent


def told_by(script: str) -> list[str]:
    """Run a script with a Ray cluster of its own; return what it has found to be so."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: it has sockets
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
        done = subprocess.run(
            [sys.executable, "-P", str(HERE / script)], env=environment, capture_output=True, text=True, timeout=500
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removeprefix("ok: ") for line in done.stdout.splitlines() if line.startswith("ok: ")]


def test_an_actor_holds_a_node_that_is_used_and_replaced_when_it_is_killed() -> None:
    assert told_by("ray_client.py") == [
        "a search finds what it finds at home",
        "no key is in the environment of Ray's processes",
        "the environment goes on with the next node",
        "nothing of the node is left",
    ]


@pytest.mark.skipif(not all(map(find_spec, ("torch", "pandas"))), reason="ray[rllib] is not installed")
def test_environment_runners_of_rllib_use_the_nodes_that_stand() -> None:
    assert told_by("rllib_runners.py") == [
        "environment runners of RLlib use the nodes that stand",
        "none of them notices that a node is lost",
    ]


def test_nodes_follow_the_machines_of_ray_and_stand_for_several_programs() -> None:
    told = told_by("ray_machines.py")
    trials = "trials of Ray Tune use them"  # where it is installed
    assert [one for one in told if one != trials] == [
        "a deep queue asks Ray's autoscaler for a machine",
        "a machine that comes is used in the middle of the work",
        "it is given back when there is nothing to do, and nothing is lost",
        "nodes stand for several programs at once",
        "nothing stands any more",
    ]
    assert (trials in told) == (find_spec("pandas") is not None)
