"""Where the environments of a vector get their programs from."""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import aiocg.gym
from aiocg.datasets import mix
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, DatasetError
from aiocg.datasets.uri import BenchmarkUri
from aiocg.gym.vector import CompilerVectorEnv
from aiocg.testing import scripted_benchmark

INCREMENT, REFUSE, NAP = 1, 4, 11


class Numbers(Dataset):
    """Some numbers as programs; those below zero cannot be loaded, and `kill` kills the worker."""

    def __init__(self, *contents: int | str) -> None:
        super().__init__("numbers-v0", "some numbers")
        self.contents = contents

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        return (BenchmarkUri("benchmark", self.name, str(number)) for number in range(len(self.contents)))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        content = self.contents[int(uri.path)]

        def load() -> bytes:
            if isinstance(content, int) and content < 0:
                raise BenchmarkInitError(str(uri), "this one cannot be compiled")
            return str(content).encode()

        return Benchmark(uri, load)


def vector_of(runtime: aiocg.gym.SyncRuntime, count: int, **settings: Any) -> CompilerVectorEnv:
    """Make a vector whose episodes have one step."""
    return runtime.make_vec("scripted-v0", count, **{"max_episode_steps": 1, **settings})


def episodes(vector: CompilerVectorEnv, count: int) -> list[tuple[int, ...]]:
    """Return the programs that so many episodes begin with."""
    found = [tuple(vector.reset()[0].tolist())]
    while len(found) < count:
        vector.step([INCREMENT] * vector.num_envs)
        found.append(tuple(vector.step([INCREMENT] * vector.num_envs)[0].tolist()))
    return found


def test_a_list_gives_each_environment_its_own(runtime: aiocg.gym.SyncRuntime, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int f(int x) { return x; }")
    given = [scripted_benchmark(3), "scripted-v0/4", BenchmarkUri("benchmark", "scripted-v0", "5")]
    assert episodes(vector_of(runtime, 3, benchmarks=given), 3) == [(3, 4, 5)] * 3
    files = runtime.make_vec("llvm-ic-v0", 2, benchmarks=[tmp_path / "x.c", "programs-v0/gcd"])
    _, infos = files.reset()
    assert infos["benchmark"][0].endswith("/x.c") and infos["benchmark"][1] == "benchmark://programs-v0/gcd"


def test_a_dataset_gives_each_episode_the_next_in_the_order_of_the_environments(runtime: aiocg.gym.SyncRuntime) -> None:
    expected = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    for given in ("scripted-v0", "benchmark://scripted-v0", runtime.datasets["scripted-v0"]):
        assert episodes(vector_of(runtime, 3, benchmarks=given), 3) == expected


def test_automatic_resets_take_programs_in_order_whoever_is_done_first(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 4, benchmarks="scripted-v0", autoreset_mode=AutoresetMode.SAME_STEP)
    vector.reset()
    assert vector.step([NAP, INCREMENT, NAP, INCREMENT])[0].tolist() == [4, 5, 6, 7]
    assert vector.step([INCREMENT, NAP, REFUSE, INCREMENT])[0].tolist() == [8, 9, 10, 11]


def test_a_dataset_begins_anew_at_its_end(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 2, benchmarks=Numbers(10, 20, 30))
    assert episodes(vector, 4) == [(10, 20), (30, 10), (20, 30), (10, 20)]


def test_views_mixtures_and_iterators_give_programs_too(runtime: aiocg.gym.SyncRuntime) -> None:
    dataset = Numbers(*range(100, 120))
    shuffled = [100 + int(uri.path) for uri in dataset.shuffled(3).benchmark_uris()]
    assert np.ravel(episodes(vector_of(runtime, 4, benchmarks=dataset.shuffled(3)), 5)).tolist() == shuffled
    mixture = mix({dataset: 1}, seed=1)
    expected = [100 + int(uri.path) for uri in itertools.islice(mixture.benchmark_uris(), 40)]
    assert np.ravel(episodes(vector_of(runtime, 4, benchmarks=mixture), 10)).tolist() == expected
    assert expected[:20] != expected[20:] and sorted(expected[:20]) == sorted(expected[20:])
    names = (f"scripted-v0/{number}" for number in itertools.count(7))
    assert episodes(vector_of(runtime, 2, benchmarks=names), 2) == [(7, 8), (9, 10)]


def test_in_a_list_datasets_are_for_one_environment_alone(runtime: aiocg.gym.SyncRuntime) -> None:
    given = [Numbers(1, 2), "scripted-v0", "scripted-v0/9", (str(n) for n in ())]
    vector = vector_of(runtime, 3, benchmarks=given[:3])
    assert episodes(vector, 3) == [(1, 0, 9), (2, 1, 9), (1, 2, 9)]
    with pytest.raises(DatasetError, match="no programs in"):
        vector_of(runtime, 1, benchmarks=given[3:]).reset()


def test_a_list_of_another_length_is_refused_with_what_to_give(runtime: aiocg.gym.SyncRuntime) -> None:
    with pytest.raises(ValueError, match="2 benchmarks does not go with 3 environments") as caught:
        vector_of(runtime, 3, benchmarks=["scripted-v0/1", "scripted-v0/2"])
    assert "itertools.cycle" in str(caught.value)
    with pytest.raises(TypeError, match="not as 7"):
        vector_of(runtime, 3, benchmarks=7)
    with pytest.raises(BenchmarkNotFound):
        vector_of(runtime, 2, benchmarks=["programs-v0/gcd", "programs-v0/nonesuch"])
    with pytest.raises(DatasetError):
        vector_of(runtime, 2, benchmarks="nonesuch-v0")


def test_an_iterator_that_ends_is_an_error_that_says_so(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 2, benchmarks=iter(["scripted-v0/1", "scripted-v0/2", "scripted-v0/3"]))
    vector.reset()
    vector.step([INCREMENT] * 2)
    with pytest.raises(DatasetError, match="no more programs") as caught:
        vector.step([INCREMENT] * 2)
    assert "in environment 1 of 2" in caught.value.__notes__
    observations, *_, infos = vector.recv()
    assert (observations.tolist(), infos["env_id"].tolist()) == ([3], [0])
    observations, _ = vector.reset(options={"benchmarks": Numbers(4, 5)})
    assert observations.tolist() == [4, 5]


def test_programs_that_cannot_be_had_are_left_out_but_not_silently(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 1, benchmarks=Numbers(1, -1, "text", "kill", 2))
    vector.reset()
    vector.step([INCREMENT])
    with pytest.warns(UserWarning, match="is left out") as caught:
        observations, *_, infos = vector.step([INCREMENT])
    assert observations.tolist() == [2]
    assert len(caught) == 3
    assert infos["skipped_benchmarks"][0] == tuple(f"benchmark://numbers-v0/{number}" for number in (1, 2, 3))
    assert infos["benchmark"].tolist() == ["benchmark://numbers-v0/4"]


def test_a_dataset_of_which_nothing_can_be_had_is_an_error(runtime: aiocg.gym.SyncRuntime) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(BenchmarkInitError, match="cannot be compiled"):
            vector_of(runtime, 2, benchmarks=Numbers(-1)).reset()


def test_a_fixed_program_that_cannot_be_had_is_an_error_at_once(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 2, benchmarks=["scripted-v0/1", "scripted-v0/text"])
    with pytest.raises(BenchmarkInitError, match="text") as caught:
        vector.reset()
    assert "in environment 1 of 2" in caught.value.__notes__
    assert vector.reset(options={"benchmark": "scripted-v0/2"})[0].tolist() == [2, 2]


def test_a_program_is_compiled_once_for_all_environments(runtime: aiocg.gym.SyncRuntime) -> None:
    compiled = []

    def load() -> bytes:
        compiled.append(1)
        return b"6"

    vector = vector_of(runtime, 50, benchmark=Benchmark("benchmark://once-v0/6", load))
    assert episodes(vector, 2) == [(6,) * 50] * 2
    assert len(compiled) == 1


def test_forks_share_a_stream(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = vector_of(runtime, 2, benchmarks="scripted-v0")
    vector.reset()
    fork = vector.fork()
    assert vector.reset()[0].tolist() == [2, 3]
    assert fork.reset()[0].tolist() == [4, 5]
    vector.close()
    assert fork.reset()[0].tolist() == [6, 7]


def test_datasets_of_ones_own_are_found_by_name(runtime: aiocg.gym.SyncRuntime) -> None:
    own = vector_of(runtime, 2, datasets=[Numbers(5, 6)], benchmarks="numbers-v0")
    assert own.reset()[0].tolist() == [5, 6]
    own = vector_of(runtime, 2, datasets=[Numbers(5, 6)], benchmark="numbers-v0/1")
    assert own.reset()[0].tolist() == [6, 6]
    with pytest.raises(DatasetError):
        vector_of(runtime, 2, benchmark="numbers-v0/1")


@pytest.mark.slow
def test_training_on_generated_programs(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = runtime.make_vec(
        "llvm-autophase-ic-v0", 3, benchmarks=runtime.datasets["aiocg-v0"][:5], max_episode_steps=1
    )
    _, infos = vector.reset()
    vector.step(["mem2reg"] * 3)
    *_, more = vector.step([0] * 3)
    seen = [*infos["benchmark"], *more["benchmark"]]
    assert seen == [f"generator://aiocg-v0/{number}" for number in (0, 1, 2, 3, 4, 0)]
