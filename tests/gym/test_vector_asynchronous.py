"""The pool of environments behind vectors, used as asyncio code uses it: no portal, no threads."""

import asyncio
import gc
import os
import random
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import gymnasium.error
import numpy as np
import pytest
import pytest_asyncio
from gymnasium.vector import AutoresetMode

import aiocg
import aiocg.testing
from aiocg.errors import EnvClosed, InvalidAction, ResetNeeded, RuntimeClosed, UnknownName
from aiocg.fleet.restart_policy import Policy
from aiocg.gym.vector import AsyncVector, EnvsBusy, NothingPending
from aiocg.transport.framing import Outgoing

NOTHING, INCREMENT, DOUBLE, REFUSE, HANG, CRASH, NAP = 0, 1, 2, 4, 5, 7, 11

QUICK = Policy(first_delay=0.01, max_delay=0.1, quarantine_deaths=0)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[aiocg.Runtime]:
    """An asynchronous runtime with two workers, which the tests of this module share."""
    async with aiocg.Runtime(workers=2, policy=QUICK) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


async def ready(runtime: aiocg.Runtime, count: int, **settings: Any) -> AsyncVector:
    """Make a vector of scripted environments that stand at 5, and reset it."""
    settings = {"benchmark": "scripted-v0/5", "reward_space": "value", **settings}
    vector = await AsyncVector.make(runtime, "scripted-v0", count, **settings)
    await vector.reset()
    return vector


def ids(infos: dict[str, Any]) -> list[int]:
    """Return which environments a batch is from, sorted."""
    return sorted(infos["env_id"].tolist())


async def drained(vector: AsyncVector) -> dict[int, Any]:
    """Receive everything and return the observations by environment."""
    found: dict[int, Any] = {}
    while vector.pending:
        observations, _, _, _, infos = await vector.recv()
        found.update(zip(infos["env_id"].tolist(), observations.tolist(), strict=True))
    return found


# ------------------------------------------------------------------------------------------------- together


@pytest.mark.slow
async def test_thousands_are_stepped_without_a_task_for_any(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2000)
    before = len(asyncio.all_tasks())
    step = vector.start_step([INCREMENT, DOUBLE] * 1000)
    assert len(asyncio.all_tasks()) == before
    observations, rewards, terminations, truncations, _ = await step
    assert observations.tolist() == [6, 10] * 1000
    assert rewards.tolist() == [-1.0, -5.0] * 1000
    assert not terminations.any() and not truncations.any()
    await vector.close()


async def test_a_step_is_one_message_to_each_worker(workers: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = await ready(workers, 64)
    sent = []
    put = Outgoing.put
    monkeypatch.setattr(Outgoing, "put", lambda *args: (sent.append(1), put(*args))[1])
    for _ in range(5):
        await vector.step([INCREMENT] * 64)
    assert len(sent) == 5 * 2


async def test_resets_to_the_same_programs_need_no_tasks_either(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 100, max_episode_steps=1)
    *_, truncations, _ = await vector.step([INCREMENT] * 100)
    assert truncations.all()
    before = len(asyncio.all_tasks())
    step = vector.start_step([INCREMENT] * 100)
    assert len(asyncio.all_tasks()) == before
    observations, *_, infos = await step
    assert observations.tolist() == [5] * 100
    assert infos["benchmark"].tolist() == ["benchmark://scripted-v0/5"] * 100


# ----------------------------------------------------------------------------------------- whichever is ready


@pytest.mark.slow
async def test_recv_returns_those_that_are_ready_while_a_slow_one_goes_on() -> None:
    async with aiocg.Runtime(workers=2, policy=QUICK) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        vector = await ready(runtime, 4, timeout=2.0)  # two on each worker
        vector.send([INCREMENT, HANG, INCREMENT, INCREMENT])
        observations, rewards, _, _, infos = await vector.recv(min_ready=2)
        first = ids(infos)  # the two on the other worker than the one that hangs
        (behind,) = {0, 2, 3} - {*first}
        assert observations.tolist() == [6, 6]
        assert rewards.tolist() == [-1.0, -1.0]
        for expected in (7, 8, 9):
            vector.send([INCREMENT, INCREMENT], infos["env_id"])
            observations, _, _, _, infos = await vector.recv(min_ready=2)
            assert ids(infos) == first
            assert observations.tolist() == [expected, expected]
        assert vector.pending == 2
        assert await drained(vector) == {1: 0, behind: 6}  # the one that hung has ended, the one behind it has not


async def test_recv_waits_no_longer_than_its_deadline(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2, timeout=1.0)
    vector.send([HANG], [1])
    observations, rewards, terminations, truncations, infos = await vector.recv(deadline=0.05)
    assert observations.tolist() == []
    assert rewards.shape == terminations.shape == truncations.shape == (0,)
    assert infos["env_id"].tolist() == []
    vector.send([INCREMENT], [0])
    *_, infos = await vector.recv(min_ready=2, deadline=0.2)
    assert ids(infos) == [0]
    assert vector.pending == 1


async def test_recv_returns_no_more_than_it_may(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 5)
    vector.send([INCREMENT] * 5)
    seen: list[int] = []
    for expected in (2, 2, 1):
        observations, *_, infos = await vector.recv(min_ready=2, max_ready=2)
        assert len(observations) == expected
        seen += infos["env_id"].tolist()
    assert sorted(seen) == [0, 1, 2, 3, 4]


async def test_recv_of_more_than_are_pending_returns_all_of_them(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 3)
    vector.send([INCREMENT, DOUBLE], [2, 0])
    observations, *_, infos = await vector.recv(min_ready=3)
    assert dict(zip(infos["env_id"].tolist(), observations, strict=True)) == {2: 6, 0: 10}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
async def test_sent_environments_are_reset_automatically(workers: aiocg.Runtime, mode: AutoresetMode) -> None:
    vector = await ready(workers, 2, max_episode_steps=2, autoreset_mode=mode)
    seen = []
    for _ in range(4):
        vector.send([DOUBLE], [1])
        (observation,), _, _, truncations, infos = await vector.recv()
        seen.append((observation, bool(truncations[0]), "final_obs" in infos))
    if mode is AutoresetMode.NEXT_STEP:
        assert seen == [(10, False, False), (20, True, False), (5, False, False), (10, False, False)]
    else:
        assert seen == [(10, False, False), (5, True, True), (10, False, False), (5, True, True)]
        assert infos["final_obs"].tolist() == [20]
        assert infos["final_info"]["state"].tolist() == [20]


async def test_async_reset_is_received_like_steps(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 3)
    await vector.step([DOUBLE] * 3)
    await vector.send_reset()
    assert await drained(vector) == {0: 5, 1: 5, 2: 5}
    await vector.step([DOUBLE] * 3)
    await vector.send_reset(options={"reset_mask": np.array([False, True, False])})
    vector.send([INCREMENT], [0])
    assert await drained(vector) == {0: 11, 1: 5}


async def test_async_reset_gives_up_what_its_environments_were_doing(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 3, timeout=0.5)
    vector.send([INCREMENT, HANG, DOUBLE])
    await vector.send_reset()
    assert await drained(vector) == {0: 5, 1: 5, 2: 5}


# ------------------------------------------------------------------------------------------------- misuse


async def test_misuse_is_named(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 3)
    with pytest.raises(NothingPending, match="send"):
        await vector.recv()
    vector.send([NAP, NAP], [0, 2])
    with pytest.raises(EnvsBusy, match="environment 2:") as caught:
        vector.send([INCREMENT, INCREMENT], [1, 2])
    assert caught.value.env_ids == (2,)
    assert vector.pending == 2  # nothing was sent
    with pytest.raises(EnvsBusy, match="environments 0, 2:"):
        await vector.step([INCREMENT] * 3)
    with pytest.raises(EnvsBusy):
        await vector.reset(options={"reset_mask": np.array([False, True, False])})
    with pytest.raises(EnvsBusy):
        await vector.call("observe", "value")
    with pytest.raises(EnvsBusy):
        await vector.fork()
    waiting = asyncio.ensure_future(vector.recv(min_ready=2))
    await asyncio.sleep(0)
    with pytest.raises(gymnasium.error.AlreadyPendingCallError, match="someone else"):
        await vector.recv()
    *_, infos = await waiting
    assert ids(infos) == [0, 2]
    assert issubclass(EnvsBusy, gymnasium.error.AlreadyPendingCallError)
    assert issubclass(NothingPending, gymnasium.error.NoAsyncCallError)


@pytest.mark.parametrize("bad", [[3], [-1], [0, 0], [0.5], [], 1, "ab", [[0]]])
async def test_env_ids_that_make_no_sense_are_refused(workers: aiocg.Runtime, bad: Any) -> None:
    vector = await ready(workers, 3)
    with pytest.raises(ValueError, match="env_ids"):
        vector.send([INCREMENT], bad)
    assert vector.pending == 0


@pytest.mark.parametrize(
    "bad", [[INCREMENT], [INCREMENT] * 3, "ab", 5, None, {0: 1, 1: 2}, np.array(1), [1, 99], [1, 1.5], np.zeros(2)]
)
async def test_bad_actions_are_refused_before_anything_is_done(workers: aiocg.Runtime, bad: Any) -> None:
    vector = await ready(workers, 2)
    with pytest.raises(InvalidAction):
        await vector.step(bad)
    with pytest.raises(UnknownName) as caught:
        await vector.step(["increment", "incremend"])
    assert caught.value.__notes__ == ["for environment 1 of 2; nothing was done"]
    observations, *_ = await vector.step(["increment", ["double", "double"]])
    assert observations.tolist() == [6, 20]


@pytest.mark.parametrize("settings", [{"count": 0}, {"max_episode_steps": 0}, {"autoreset_mode": "sometimes"}])
async def test_settings_that_make_no_sense_are_refused(workers: aiocg.Runtime, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        await ready(workers, settings.pop("count", 1), **settings)


async def test_numbers_for_recv_that_make_no_sense_are_refused(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2)
    vector.send([INCREMENT] * 2)
    for bad in ({"min_ready": 0}, {"min_ready": 2, "max_ready": 1}, {"deadline": -1.0}):
        with pytest.raises(ValueError):
            await vector.recv(**bad)
    assert await drained(vector) == {0: 6, 1: 6}


async def test_a_reset_is_needed_first_and_after_an_episode_without_autoreset(workers: aiocg.Runtime) -> None:
    vector = await AsyncVector.make(workers, "scripted-v0", 2, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(ResetNeeded, match="environment 0 has not been reset"):
        await vector.step([INCREMENT] * 2)
    with pytest.raises(ResetNeeded, match="first reset with a mask"):
        await vector.reset(options={"reset_mask": np.array([True, False])})
    await vector.reset()
    *_, infos = await vector.step([REFUSE, INCREMENT])
    assert infos["error_type"].tolist() == ["ActionFailed", None]
    with pytest.raises(ResetNeeded, match=r"\[0\] have ended and autoreset is disabled"):
        await vector.step([INCREMENT] * 2)
    vector.send([INCREMENT], [1])
    assert list(await drained(vector)) == [1]


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ],
)
async def test_bad_masks_are_refused(workers: aiocg.Runtime, mask: Any, error: type[Exception]) -> None:
    vector = await ready(workers, 2)
    with pytest.raises(error, match="reset_mask"):
        await vector.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("seed", [[1], [1, 2, 3]])
async def test_seeds_go_with_environments(workers: aiocg.Runtime, seed: Sequence[int]) -> None:
    vector = await ready(workers, 2)
    with pytest.raises(ValueError, match="seeds for 2 environments"):
        await vector.reset(seed=seed)


async def test_unknown_options_of_a_reset_are_refused(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2)
    with pytest.raises(UnknownName, match="observation_space"):
        await vector.reset(options={"observation_space": "digits"})


# ------------------------------------------------------------------------------------------------- faults


async def test_one_that_dies_or_hangs_ends_alone_and_is_reset_with_the_next_step(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 6, timeout=0.4)
    await vector.step([DOUBLE] * 6)
    observations, rewards, terminations, truncations, infos = await vector.step(
        [INCREMENT, CRASH, INCREMENT, HANG, INCREMENT, REFUSE]
    )
    assert terminations.tolist() == [False, True, False, True, False, True]
    assert not truncations.any()
    assert observations.tolist() == [11, 0, 11, 0, 11, 0]
    assert rewards.tolist() == [-1.0, 5.0, -1.0, 5.0, -1.0, 5.0]
    assert infos["error_type"].tolist() == [None, "WorkerCrashed", None, "DeadlineExceeded", None, "ActionFailed"]
    assert infos["_error_type"].tolist() == terminations.tolist()
    assert "SIGSEGV" in infos["error_details"][1]
    assert infos["_state"].tolist() == (~terminations).tolist()
    observations, rewards, terminations, _, infos = await vector.step([INCREMENT] * 6)
    assert observations.tolist() == [12, 5, 12, 5, 12, 5]
    assert rewards.tolist() == [-1.0, 0.0, -1.0, 0.0, -1.0, 0.0]
    assert not terminations.any()
    observations, *_ = await vector.step([INCREMENT] * 6)
    assert observations.tolist() == [13, 6, 13, 6, 13, 6]


@pytest.mark.few(1)
@pytest.mark.parametrize("action", [CRASH, HANG, REFUSE])
async def test_one_that_dies_last_is_reset_in_the_same_step(workers: aiocg.Runtime, action: int) -> None:
    vector = await ready(workers, 2, timeout=0.4, autoreset_mode=AutoresetMode.SAME_STEP)
    for actions in ([action, INCREMENT], [action, action]):
        observations, _, terminations, _, infos = await vector.step(actions)
        assert terminations.tolist() == [one == action for one in actions]
        assert observations.tolist() == [5, 6 if actions[1] == INCREMENT else 5]
        assert infos["final_obs"][0] == 0
        assert infos["final_info"]["_error_type"].tolist() == terminations.tolist()
    vector.send([action], [1])
    observations, _, terminations, _, infos = await vector.recv()
    assert (observations.tolist(), terminations.tolist()) == ([5], [True])


async def test_what_the_compiler_does_not_take_for_an_action_is_an_error_and_the_rest_can_be_received(
    workers: aiocg.Runtime,
) -> None:
    vector = await AsyncVector.make(workers, "scripted-v0", 3, benchmark="scripted-v0/5", action_space="Texts")
    await vector.reset()
    with pytest.raises(InvalidAction, match="gibberish") as caught:
        await vector.step(["increment", "gibberish", "add<5>"])
    assert caught.value.__notes__ == ["in environment 1 of 3"]
    with pytest.raises(EnvsBusy, match="recv"):
        await vector.step(["increment"] * 3)
    assert await drained(vector) == {0: 6, 2: 10}
    observations, *_ = await vector.step(["increment"] * 3)
    assert observations.tolist() == [7, 6, 11]


async def test_a_cancelled_step_can_be_received_or_dropped(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2)
    vector.start_step([INCREMENT, NAP]).cancel()
    with pytest.raises(EnvsBusy):
        await vector.step([INCREMENT] * 2)
    assert await drained(vector) == {0: 6, 1: 6}
    vector.start_step([INCREMENT, NAP]).cancel()
    observations, _ = await vector.reset()
    assert observations.tolist() == [5, 5]
    observations, *_ = await vector.step([INCREMENT] * 2)
    assert observations.tolist() == [6, 6]


async def test_what_was_received_of_a_cancelled_step_can_be_stepped_while_the_rest_goes_on() -> None:
    async with aiocg.Runtime(workers=2, policy=QUICK) as runtime:  # where nothing else is, so that they are dealt out
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        vector = await ready(runtime, 4, timeout=0.7, autoreset_mode=AutoresetMode.SAME_STEP)
        # 0 and 3 are on one worker, 1 and 2 on another
        vector.start_step([INCREMENT, HANG, INCREMENT, REFUSE]).cancel()
        *_, infos = await vector.recv()
        assert ids(infos) == [0]
        vector.send([DOUBLE], [0])
        assert await drained(vector) == {0: 12, 1: 5, 2: 6, 3: 5}


async def test_a_step_that_is_dropped_with_its_automatic_resets_leaves_nothing_behind(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 4, max_episode_steps=1, autoreset_mode=AutoresetMode.SAME_STEP)
    for wait in (0.0, 0.001, 0.003, 0.01, 0.02):  # wherever the step is then
        step = vector.start_step([INCREMENT, NAP, REFUSE, NAP])
        await asyncio.sleep(wait)
        step.cancel()
        observations, _ = await vector.reset()
        assert observations.tolist() == [5, 5, 5, 5]
        step = vector.start_step([INCREMENT, NAP, REFUSE, NAP])
        await asyncio.sleep(wait)
        others = {0: 5, 3: 5} if step.cancel() else {}  # unless it was done
        await vector.send_reset(options={"reset_mask": np.array([False, True, True, False])})
        assert await drained(vector) == {1: 5, 2: 5, **others}
    observations, _, terminations, truncations, infos = await vector.step([INCREMENT] * 4)
    assert observations.tolist() == [5, 5, 5, 5]
    assert truncations.all() and not terminations.any()
    assert infos["final_obs"].tolist() == [6, 6, 6, 6]


async def test_whoever_waits_for_a_vector_that_is_closed_is_told(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 2)
    vector.send([NAP, NAP])
    waiting = asyncio.ensure_future(vector.recv(min_ready=2))
    await asyncio.sleep(0)
    await vector.close()
    await vector.close()
    with pytest.raises(EnvClosed):
        await waiting
    for call in (vector.reset(), vector.recv(), vector.call("observe", "value")):
        with pytest.raises(EnvClosed):
            await call
    with pytest.raises(EnvClosed):
        vector.send([INCREMENT] * 2)


async def test_environments_of_a_closed_runtime_say_so() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        vector = await AsyncVector.make(runtime, "scripted-v0", 3)
        await vector.reset()
        vector.send([HANG] * 3)
        waiting = asyncio.ensure_future(vector.recv(min_ready=3))
        await asyncio.sleep(0)
    with pytest.raises(RuntimeClosed):
        await waiting
    with pytest.raises(RuntimeClosed):
        await vector.reset()


async def test_sessions_of_a_closed_vector_are_freed(workers: aiocg.Runtime) -> None:
    async def sessions() -> int:
        return sum(one["sessions"] for one in await workers.statistics())

    gc.collect()  # what other tests have dropped
    await asyncio.sleep(0)
    before = await sessions()
    vector = await ready(workers, 20)
    assert await sessions() == before + 20
    await vector.close()
    assert await sessions() == before
    vector = await ready(workers, 20)
    del vector
    gc.collect()
    await asyncio.sleep(0)
    assert await sessions() == before


class Model:
    """What one environment of the vector below does, worked out by hand."""

    def __init__(self, mode: AutoresetMode) -> None:
        self.mode = mode
        self.value, self.elapsed, self.over = 5, 0, False

    def reset(self) -> tuple[int, float, bool, bool]:
        self.value, self.elapsed, self.over = 5, 0, False
        return 5, 0.0, False, False

    def step(self, action: int) -> tuple[int, float, bool, bool]:
        if self.over:
            return self.reset()
        before, terminated = self.value, action in (REFUSE, CRASH)
        after = 0 if terminated else before + 1 if action == INCREMENT else 2 * before
        reward = float(before - 5 if terminated else before - after)  # an error takes back what was earned
        self.value, self.elapsed = after, self.elapsed + 1
        truncated = self.elapsed >= 4
        self.over = terminated or truncated
        if self.over and self.mode is AutoresetMode.SAME_STEP:
            self.reset()
        return self.value, reward, terminated, truncated


async def play_at_random(runtime: aiocg.Runtime, mode: AutoresetMode, seed: int, actions: Sequence[int]) -> None:
    """Do anything that is allowed in any order, and compare all results with the model's."""
    rng = random.Random(seed)
    vector = await ready(runtime, 5, max_episode_steps=4, autoreset_mode=mode)
    models = [Model(mode) for _ in range(5)]
    expected: dict[int, Any] = {}  # of the environments that are busy

    def check(result: Any) -> None:
        observations, rewards, terminations, truncations, infos = result
        columns = (infos["env_id"], observations, rewards, terminations, truncations)
        for index, *found in zip(*(column.tolist() for column in columns), strict=True):
            assert tuple(found) == expected.pop(index), (seed, index)

    def give(indices: list[int]) -> list[int]:
        given = rng.choices(actions, k=len(indices))
        expected.update({index: models[index].step(action) for index, action in zip(indices, given, strict=True)})
        return given

    for _ in range(40):
        idle = [index for index in range(5) if index not in expected]
        if mode is AutoresetMode.DISABLED:
            idle = [index for index in idle if not models[index].over]
        what = rng.choice(["send", "send", "recv", "recv", "step", "cancelled step", "reset", "cancelled recv"])
        if what == "send" and idle:
            chosen = rng.sample(idle, rng.randint(1, len(idle)))
            vector.send(give(chosen), chosen)
        elif what == "recv" and expected:
            check(await vector.recv(rng.randint(1, 5), deadline=rng.choice([None, None, 0, 0.001])))
        elif what == "cancelled recv" and expected:
            recv = vector.start_recv(rng.randint(1, 5))
            await asyncio.sleep(0)
            if not recv.cancel():
                check(recv.result())
        elif what.endswith("step") and len(idle) == 5:
            step = vector.start_step(give(idle))
            if what == "step":
                *columns, infos = await step
                check((*columns, {**infos, "env_id": np.arange(5)}))
            else:
                step.cancel()
        elif what == "reset":
            mask = np.array([rng.random() < 0.3 for _ in range(5)])
            if mask.any():
                await vector.send_reset(options={"reset_mask": mask})
                expected.update({int(index): models[index].reset() for index in np.flatnonzero(mask)})
        assert vector.pending == len(expected)
    while expected:
        check(await vector.recv())
    await vector.close()


@pytest.mark.parametrize("mode", AutoresetMode)
async def test_whatever_is_done_in_whatever_order_results_are_right(
    workers: aiocg.Runtime, mode: AutoresetMode
) -> None:
    for seed in range(25):
        await play_at_random(workers, mode, seed, [INCREMENT, DOUBLE, INCREMENT, DOUBLE, REFUSE])


@pytest.mark.slow
@pytest.mark.parametrize("mode", AutoresetMode)
async def test_crashes_in_whatever_order_change_nothing_else(workers: aiocg.Runtime, mode: AutoresetMode) -> None:
    for seed in range(4):
        await play_at_random(workers, mode, seed, [*[INCREMENT, DOUBLE] * 6, CRASH])


async def test_killed_workers_change_nothing(workers: aiocg.Runtime) -> None:
    vector = await ready(workers, 40, max_episode_steps=7)
    twin = await ready(workers, 40, max_episode_steps=7)
    rng = random.Random(0)
    steps = [[rng.choice([INCREMENT, DOUBLE, NOTHING]) for _ in range(40)] for _ in range(30)]
    expected = [await twin.step(actions) for actions in steps]
    for number, (actions, theirs) in enumerate(zip(steps, expected, strict=True)):
        step = vector.start_step(actions)
        if number % 5 == 2 and (pids := workers.worker_pids()):
            await asyncio.sleep(rng.uniform(0.0, 0.003))
            os.kill(rng.choice(pids), signal.SIGKILL)
        ours = await step
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert not ours[2].any()
    assert vector.pending == 0
