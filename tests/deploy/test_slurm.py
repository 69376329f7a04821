"""The script for Slurm, with a stand-in for `srun` that starts the nodes on this machine."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "slurm.sh"
SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
nodes=
trap 'kill $nodes; wait; exit 143' TERM
for number in $(seq "$SLURM_JOB_NUM_NODES"); do "$@" & nodes="$nodes $!"; done
wait
"""


@pytest.mark.slow
def test_script_runs_a_command_on_as_many_nodes_as_there_are_machines_and_leaves_nothing(place: Any) -> None:
    binaries = place.folder / "bin"
    binaries.mkdir()
    for name, text in {"srun": SRUN, "aiocg": f'#!/bin/sh\nexec {sys.executable} -P -m aiocg.cli "$@"\n'}.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    home = place.folder / "home"
    home.mkdir()
    place.environment.update({
        "PATH": f"{binaries}:{os.environ['PATH']}", "SLURM_JOB_NUM_NODES": "2", "HOME": str(home),
        "AIOCG_KEYS": str(place.folder / "keys"),
    })  # fmt: skip
    done = place.run(str(SCRIPT), "aiocg", "cluster", "status", "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("joined ") == 2
    assert done.stdout.count('"problem":""') == 2 or done.stdout.count('"problem": ""') == 2
    assert not place.processes()
    assert not [path for path in home.iterdir() if path.name.startswith(".aiocg-join")]
