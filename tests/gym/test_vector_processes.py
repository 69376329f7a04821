"""Vectors and what happens to processes: Ctrl-C, the end of the script, a fork."""

import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

SCRIPT = """
    import os

    import aiocg.gym, aiocg.testing
    from aiocg.gym.vector import EnvsBusy

    HANG = 5
    runtime = aiocg.gym.SyncRuntime(workers=2)
    envs = runtime.make_vec("scripted-v0", 6, benchmark=aiocg.testing.scripted_benchmark(5))
    envs.reset()
"""


def run(place: Any, body: str) -> "subprocess.Popen[str]":
    """Start a script in a place of its own; it says when it is ready for a signal."""
    script = textwrap.dedent(SCRIPT) + textwrap.dedent(body)
    started: subprocess.Popen[str] = place.start(sys.executable, "-P", "-c", script, stderr=subprocess.PIPE)
    return started


def check_nothing_is_left(place: Any) -> None:
    """Check that no process and no file is left."""
    assert place.processes() == []
    assert place.leftovers() == []


@pytest.mark.slow
def test_after_ctrl_c_in_a_step_the_vector_can_be_used(place: Any) -> None:
    process = run(
        place,
        """
        try:
            print("waiting", flush=True)
            envs.step([HANG, 1, 1, 1, 1, 1])
        except KeyboardInterrupt:
            try:
                envs.step([1] * 6)
            except EnvsBusy as error:
                print("busy", len(error.env_ids))
        *_, infos = envs.recv(min_ready=3)
        print("received", sorted(infos["env_id"].tolist()))
        observations, _ = envs.reset(options={"benchmark": aiocg.testing.scripted_benchmark(7)})
        print(observations, envs.step([1] * 6)[0])
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n", process.communicate()
    time.sleep(0.2)  # it is about to wait
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert error == ""
    assert out.splitlines() == ["busy 6", "received [1, 2, 5]", "[7 7 7 7 7 7] [8 8 8 8 8 8]"]
    assert process.returncode == 0
    check_nothing_is_left(place)


@pytest.mark.slow
def test_a_script_that_ends_with_environments_under_way_leaves_nothing(place: Any) -> None:
    process = run(place, "envs.send([HANG] * 6)")
    out, error = process.communicate(timeout=60)
    assert (out, error, process.returncode) == ("", "", 0)
    check_nothing_is_left(place)


@pytest.mark.slow
def test_a_fork_of_the_process_is_told_that_the_vector_is_not_its_own(place: Any) -> None:
    process = run(
        place,
        """
        child = os.fork()
        if not child:
            try:
                envs.step([1] * 6)
            except aiocg.gym.ForkedProcess:
                envs.close()
                own = aiocg.gym.CompilerVectorEnv("scripted-v0", 2, benchmark=aiocg.testing.scripted_benchmark(3))
                print(own.reset()[0], flush=True)
                aiocg.gym.shutdown()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        print(envs.step([1] * 6)[0])
        """,
    )
    out, error = process.communicate(timeout=60)
    assert (out.splitlines(), error) == (["[3 3]", "[6 6 6 6 6 6]"], "")
    check_nothing_is_left(place)
