"""Environments with settings: what their ids say, and that those with other settings have other workers."""

import dataclasses
from collections.abc import Iterator

import pytest

import aiocg
from aiocg import registry
from aiocg.errors import UnknownName
from aiocg.registry import environment, register
from aiocg.testing import scripted_benchmark


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An environment with two settings, which its compiler does not look at."""
    monkeypatch.setattr(registry, "ENVIRONMENTS", dict(registry.ENVIRONMENTS))
    spec = dataclasses.replace(environment("scripted-v0"), id="tuned-v0", settings={"binary": "cc", "mode": ""})
    register(spec)
    return spec.id


def test_the_id_tells_the_settings_that_are_not_the_default(tuned: str) -> None:
    spec = environment(tuned)
    other = spec.configured({"binary": "docker:gcc:13", "mode": ""})
    assert other.id == "tuned-v0?binary=docker:gcc:13"
    assert other.settings == {"binary": "docker:gcc:13", "mode": ""}
    assert environment(other.id) == other
    assert other.configured({"binary": "cc"}) == spec and spec.configured({"mode": ""}) == spec
    assert other.configured({"mode": "a b&c"}).settings == {"binary": "docker:gcc:13", "mode": "a b&c"}
    assert environment(other.configured({"mode": "a b&c=ü?#"}).id).settings["mode"] == "a b&c=ü?#"


def test_a_setting_that_there_is_not_is_refused(tuned: str) -> None:
    with pytest.raises(UnknownName, match=r"'binray'.*binary"):
        environment(f"{tuned}?binray=x")
    with pytest.raises(UnknownName, match="setting of scripted-v0"):
        environment("scripted-v0?binary=x")
    with pytest.raises(TypeError, match="binary of tuned-v0 is a text, not 12"):
        environment(tuned).configured({"binary": 12})  # type: ignore[dict-item]


async def test_other_settings_other_workers(tuned: str) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        envs = [
            await runtime.make(name, benchmark=scripted_benchmark(5), **settings)
            for name, settings in (
                (tuned, {}),
                (tuned, {"binary": "other"}),
                (f"{tuned}?binary=other", {}),
                ("scripted-v0", {}),
            )
        ]
        pids = []
        for env in envs:
            await env.reset()
            pids.append(await env.observe("pid"))
        assert pids[1] == pids[2] and len(set(pids)) == 3
        assert len(runtime.worker_pids()) == 3
        assert envs[1].state.environment == f"{tuned}?binary=other"
        sibling = await envs[1].sibling()
        await sibling.reset()
        assert await sibling.observe("pid") == pids[1]
        with pytest.raises(UnknownName, match="setting of scripted-v0"):
            await runtime.make("scripted-v0", binary="x")
