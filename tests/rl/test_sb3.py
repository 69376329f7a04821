"""Stable-Baselines3 over our vector, and over our Gymnasium environments as its users have them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiocg.gym
from aiocg.gym import SyncRuntime
from aiocg.rl import Features, PhaseOrdering, Plan, Program, collect, find_programs, prepare_programs, sb3
from aiocg.rl.sb3 import PhaseOrderingVecEnv

from ..waiting import is_alive

ACTIONS = ("mem2reg", "instcombine", "simplifycfg", "gvn", "default<Oz>")
STARTS = ("O0", "OzMinsize")
STOP, STEPS = len(ACTIONS), 4

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the library write its logs where they are removed."""
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))


@pytest.fixture(scope="module")
def runtime() -> Iterator[SyncRuntime]:
    pytest.importorskip("stable_baselines3")
    with SyncRuntime(workers=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def programs(runtime: SyncRuntime) -> list[Program]:
    benchmarks = list(find_programs(runtime.runtime, ["programs-v0/gcd", "programs-v0/crc32"], 2))
    return runtime.run(lambda: prepare_programs(runtime.runtime, benchmarks, starts=STARTS))


@pytest.fixture
def envs(runtime: SyncRuntime, programs: list[Program]) -> Iterator[PhaseOrderingVecEnv]:
    envs = PhaseOrderingVecEnv(PhaseOrdering(runtime, ACTIONS, num_envs=3, steps=STEPS), programs, STARTS)
    yield envs
    envs.close()


@pytest.mark.parametrize("name", ["PPO", "A2C", "MaskablePPO"])
def test_agents_learn(envs: PhaseOrderingVecEnv, name: str) -> None:
    from stable_baselines3.common.vec_env import VecMonitor

    library = pytest.importorskip("sb3_contrib" if name == "MaskablePPO" else "stable_baselines3")
    more = {} if name == "A2C" else {"batch_size": 12}
    watched = VecMonitor(envs, info_keywords=("ratio",))
    model = getattr(library, name)("MlpPolicy", watched, n_steps=8, seed=0, device="cpu", **more)
    before = [value.clone() for value in model.policy.parameters()]
    model.learn(48)
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))
    assert all(1 <= episode["l"] <= STEPS and episode["ratio"] > 0 for episode in model.ep_info_buffer)


def test_episodes_are_those_of_our_vector(
    runtime: SyncRuntime, programs: list[Program], envs: PhaseOrderingVecEnv
) -> None:
    taken = (0, 0, 4, STOP)
    with PhaseOrdering(runtime, ACTIONS, num_envs=1, steps=STEPS) as ordering:
        plans = [Plan(program, start, actions=taken[:3]) for program in programs for start in STARTS]
        known = {(one.plan.program.uri, one.plan.start): one for one in collect(ordering, None, plans)}
    envs.seed(3)
    observations = envs.reset()
    rows: list[list[Any]] = [[] for _ in range(envs.num_envs)]
    for action in taken:
        masks, seen = np.stack(envs.env_method("action_masks")), observations
        observations, rewards, dones, infos = envs.step(np.full(envs.num_envs, action))
        for index in range(envs.num_envs):
            rows[index].append((seen[index], masks[index], rewards[index]))
        assert dones.all() == (action == STOP) == dones.any()
    for index, info in enumerate(infos):
        one = known[info["program"], info["start"]]
        features, masks, rewards = zip(*rows[index], strict=True)
        assert np.array_equal(np.stack(features), one.features)
        assert np.array_equal(np.stack(masks), one.masks) and not np.stack(masks).all()
        assert np.array_equal(np.stack(rewards), one.rewards)
        assert info["best"] == one.best and info["ratio"] == one.plan.program.oz_minsize / one.best
        assert np.array_equal(info["terminal_observation"], one.features[-1])
        assert not np.array_equal(info["terminal_observation"], observations[index])
        assert envs.observation_space.contains(observations[index])


def test_each_program_is_taken_as_often_and_the_seed_decides_when(envs: PhaseOrderingVecEnv) -> None:
    def begun(seed: int) -> list[tuple[str, str]]:
        envs.seed(seed)
        envs.reset()
        found = []
        for _ in range(8):
            *_, infos = envs.step(np.full(envs.num_envs, STOP))
            found += [(info["program"], info["start"]) for info in infos]
        return found

    first = begun(1)
    assert first == begun(1) != begun(2)
    assert [first.count(one) for one in set(first)] == [6] * 4


def test_a_reset_gives_up_a_step_under_way(envs: PhaseOrderingVecEnv) -> None:
    envs.seed(1)
    begun = envs.reset()
    envs.step_async(np.array([0, STOP, 4]))
    envs.seed(1)
    assert np.array_equal(envs.reset(), begun)
    _, _, dones, _ = envs.step(np.array([STOP, 0, 0]))
    assert dones.tolist() == [True, False, False]


def test_what_there_is_not_is_named(runtime: SyncRuntime, envs: PhaseOrderingVecEnv) -> None:
    assert envs.has_attr("action_masks") and not envs.has_attr("spec")
    assert envs.get_attr("render_mode") == [None] * 3 and envs.get_attr("episode", [1]) == [None]
    assert envs.env_is_wrapped(object) == [False] * 3
    with pytest.raises(AttributeError, match="there are action_masks, episode and render_mode"):
        envs.env_method("render")
    with pytest.raises(AttributeError, match="cannot be set"):
        envs.set_attr("steps", 3)
    with pytest.raises(ValueError, match="nothing to begin with"), PhaseOrdering(runtime, ACTIONS) as ordering:
        PhaseOrderingVecEnv(ordering, [])


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3, "VecEnv", object)
    with pytest.raises(ImportError, match=r"pip install 'aiocg\[sb3\]'"):
        PhaseOrderingVecEnv(None, [])  # type: ignore[arg-type]


def test_features_say_their_own_bounds(envs: PhaseOrderingVecEnv) -> None:
    assert envs.observation_space.shape == (Features(len(ACTIONS)).size,)
    assert envs.action_space.n == STOP + 1


# ------------------------------------------------------------------------ Gymnasium's environments, as they are


SUBPROCESSES = """
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

if __name__ == "__main__":
    envs = make_vec_env(
        "aiocg.gym:llvm-autophase-ic-v0", 2, seed=1, vec_env_cls=SubprocVecEnv,
        env_kwargs={"benchmark": "programs-v0/gcd", "max_episode_steps": 5},
    )
    PPO("MlpPolicy", VecNormalize(envs), n_steps=8, batch_size=8, device="cpu").learn(32)
    envs.close()
    print("learned")
"""


EIGHT = """
import json, multiprocessing, sys
import psutil
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv
import aiocg.gym

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["aiocg.gym", "stable_baselines3.common.vec_env"])
    with aiocg.gym.shared_nursery("llvm-autophase-ic-v0"):
        envs = make_vec_env(
            "aiocg.gym:llvm-autophase-ic-v0", 8, vec_env_cls=SubprocVecEnv,
            env_kwargs={"benchmark": "programs-v0/gcd", "max_episode_steps": 5},
        )
        envs.reset()
        envs.step([0] * 8)
        nurseries = [one for one in psutil.Process().children(recursive=True) if "--nursery" in one.cmdline()]
        nurseries = [one for one in nurseries if one.ppid() not in [other.pid for other in nurseries]]
        print(json.dumps([[child.pid for child in one.children()] for one in nurseries]), flush=True)
        sys.stdin.read()
        envs.close()
"""


def remaining(place: Any, workers: list[int]) -> list[str]:
    """Return what is left: workers, other processes, and files that are not of the libraries or of multiprocessing."""
    files = [name for name in place.leftovers() if not name.startswith(("SB3-", "torchinductor_", "pymp-"))]
    return [*map(str, filter(is_alive, workers)), *map(str, place.processes()), *files]


@pytest.mark.sampled
@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_eight_subprocesses_have_workers_of_one_nursery_and_leave_nothing(place: Any, killed: bool) -> None:
    pytest.importorskip("stable_baselines3")
    (place.folder / "script.py").write_text(EIGHT)
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with place.start(sys.executable, "-P", str(place.folder / "script.py"), **streams) as process:
        (workers,) = json.loads(process.stdout.readline())
        assert len(workers) == 8
        if killed:
            process.kill()
    until = time.monotonic() + 60
    while (left := remaining(place, workers)) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_make_vec_env_takes_our_environments_by_their_ids(name: str) -> None:
    library = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    settings = {"benchmark": "programs-v0/gcd", "action_space": list(ACTIONS), "max_episode_steps": 5}
    envs = make_vec_env("llvm-autophase-ic-v0", 2, seed=1, env_kwargs=settings)
    try:
        model = getattr(library, name)("MlpPolicy", VecNormalize(envs), n_steps=8, device="cpu")
        model.learn(32)
        assert {episode["l"] for episode in model.ep_info_buffer} == {5}
    finally:
        envs.close()
        aiocg.gym.shutdown()


@pytest.mark.every_case
def test_subproc_vec_env_works_and_leaves_nothing(place: Any) -> None:
    pytest.importorskip("stable_baselines3")
    script = place.folder / "script.py"
    script.write_text(SUBPROCESSES)
    done = place.run(sys.executable, "-P", str(script))
    assert done.stdout.strip().endswith("learned"), done.stderr
    assert place.processes() == []
    others = ("SB3-", "torchinductor_")  # folders that the libraries leave
    assert [left for left in place.leftovers() if not left.startswith(others)] == []
