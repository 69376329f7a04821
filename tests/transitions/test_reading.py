"""Reading, merging, exporting and replaying files of transitions."""

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.transitions import Transitions, TransitionsError, merge
from aiocg.transitions import _schema as codecs
from aiocg.transitions._merging import import_original
from aiocg.transitions._writer import Compiler, Observation, Start, Step, Writer
from aiocg.transitions.parquet import export, split_of
from aiocg.transitions.replay import ReplayEnv

VALUES = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.dictionaries(st.text(), st.integers(-1000, 1000)),
    st.lists(st.text()),
)


@given(VALUES)
def test_what_is_stored_comes_back(value: Any) -> None:
    back = codecs.decode(*codecs.encode(value))
    assert type(back) is type(value) and (back == value or value != value)


@given(st.sampled_from(["i1", "u4", "i8", "f4", "f8", "?"]), st.lists(st.integers(0, 5), max_size=3))
def test_arrays_come_back_with_their_type_and_shape(dtype: str, shape: list[int]) -> None:
    value = np.ones(shape, dtype)
    back = codecs.decode(*codecs.encode(value))
    assert back.dtype == value.dtype and back.shape == value.shape and (back == value).all()


def test_arrays_in_dictionaries_come_back() -> None:
    value = {"edges": np.arange(200).reshape(2, 100), "texts": ["a", "b"], "none": np.zeros((0, 2), np.int8)}
    back = codecs.decode(*codecs.encode(value))
    assert back["texts"] == value["texts"] and (back["edges"] == value["edges"]).all()
    assert back["none"].shape == (0, 2) and back["none"].dtype == np.int8


def test_an_object_is_no_observation() -> None:
    with pytest.raises(TypeError, match="flat arrays"):
        codecs.encode(object())


def write(path: Path, *rows: Any, compiler: str = "LLVM 1") -> Path:
    writer = Writer(path)
    for row in (Compiler(compiler), *rows):
        writer.put(row)
    writer.close()
    return path


def walk(benchmark: str, states: range) -> list[Any]:
    """The rows of a walk from state to state."""
    rows: list[Any] = [Start(benchmark, states[0])]
    for state in states:
        rows.append(Observation(state, "Value", float(state)))
    rows += [Step(benchmark, state, (f"a{state % 3}",), state + 1, {"R": state / 10}) for state in states[:-1]]
    return rows


def test_a_file_is_a_sequence_that_can_be_sent_to_other_processes(tmp_path: Path) -> None:
    with Transitions(write(tmp_path / "t.db", *walk("b1", range(5)))) as file:
        again = pickle.loads(pickle.dumps(file))
        assert len(file) == 4 and list(again) == list(file) == file[:]
        assert file[-1] == file[3] and file[3].rewards == {"R": 0.3}
        for index in (4, -5):
            with pytest.raises(IndexError, match="has 4"):
                file[index]
        with pytest.raises(KeyError, match="was not logged"):
            file.observation(99, "Value")
        again.close()


def test_drawing_by_program_gives_small_programs_their_share(tmp_path: Path) -> None:
    path = write(tmp_path / "t.db", *walk("large", range(400)), *walk("small", range(1000, 1003)))
    with Transitions(path) as file:
        drawn = file.sample(400, seed=1, by_program=True)
        assert 150 < sum(one.benchmark == "small" for one in drawn) < 250
        assert file.sample(50, seed=2) == file.sample(50, seed=2) != file.sample(50, seed=3)
        weights = [0.0] * 398 + [1.0, 3.0, 0.0]  # the last of "large", and the first of "small"
        counts = collections.Counter(one.state for one in file.sample(400, seed=1, weights=weights))
        assert set(counts) == {file[398].state, file[399].state} and counts[file[399].state] > 250
        with pytest.raises(ValueError, match="size"):
            file.sample(1, weights=[1.0])
    with Transitions(write(tmp_path / "empty.db")) as file, pytest.raises(TransitionsError, match="no transitions"):
        file.sample(1)


def test_merged_files_are_one_that_was_written_at_once(tmp_path: Path) -> None:
    one = write(tmp_path / "one.db", *walk("b1", range(10)))
    two = write(tmp_path / "two.db", *walk("b2", range(20, 30)), *walk("b1", range(10)))
    conflicting = write(tmp_path / "three.db", Step("b1", 3, ("a0",), 77, {}))
    merge(tmp_path / "all.db", [one, two, conflicting])
    whole = write(
        tmp_path / "whole.db", *walk("b1", range(10)), *walk("b2", range(20, 30)), Step("b1", 3, ("a0",), 77, {})
    )
    with Transitions(tmp_path / "all.db") as merged, Transitions(whole) as expected:
        assert sorted(merged, key=str) == sorted(expected, key=str)
        assert merged.benchmarks() == expected.benchmarks() and merged.conflicts() == expected.conflicts() != []
        assert merged.compiler == "LLVM 1" and merged.observation(25, "Value") == 25.0


def test_files_of_two_compilers_are_not_merged(tmp_path: Path) -> None:
    write(tmp_path / "one.db", *walk("b1", range(3)))
    write(tmp_path / "two.db", *walk("b1", range(3)), compiler="LLVM 2")
    with pytest.raises(TransitionsError, match=r"is of LLVM 2, and .* of LLVM 1"):
        merge(tmp_path / "all.db", [tmp_path / "one.db", tmp_path / "two.db"])
    assert not (tmp_path / "all.db").exists()
    before = (tmp_path / "one.db").read_bytes()
    with pytest.raises(TransitionsError, match=r"is of LLVM 2, and .*one\.db of LLVM 1"):
        merge(tmp_path / "one.db", [tmp_path / "two.db"])
    assert (tmp_path / "one.db").read_bytes() == before


@pytest.mark.parametrize("wrong", ["missing.db", "text.db", ".", "all.db"])
def test_nothing_is_written_when_one_of_the_files_cannot_be_read(tmp_path: Path, wrong: str) -> None:
    one = write(tmp_path / "one.db", *walk("b1", range(3)))
    target = write(tmp_path / "all.db", *walk("b2", range(4)))
    (tmp_path / "text.db").write_text("no database")
    before = target.read_bytes()
    with pytest.raises(TransitionsError):
        merge(target, [one, tmp_path / wrong])
    assert target.read_bytes() == before
    if wrong != "all.db":
        with pytest.raises(TransitionsError):
            merge(tmp_path / "new.db", [one, tmp_path / wrong])
        assert not (tmp_path / "new.db").exists()


@pytest.mark.slow
def test_parquet_has_all_rows_and_no_program_in_both_splits(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    names = [f"benchmark://mine-v0/{number}" for number in range(12)]
    assert {split_of(name, 0.5) for name in names} == {"train", "test"}
    rows = [row for number, name in enumerate(names) for row in walk(name, range(100 * number, 100 * number + 5))]
    path = write(tmp_path / "t.db", *rows, Step(names[0], 1, ("bad",), None, {}))
    files = export(path, tmp_path / "out", test=0.5)
    assert (tmp_path / "out" / "README.md").read_text().startswith("---\nconfigs:\n- config_name: transitions\n")
    tables = {file.stem: parquet.read_table(file).to_pylist() for file in files if file.suffix == ".parquet"}
    both = [tables["transitions-train"], tables["transitions-test"]]
    assert not {row["benchmark"] for row in both[0]} & {row["benchmark"] for row in both[1]}
    with Transitions(path) as file:
        expected = {(one.benchmark, one.state, one.actions, one.next, tuple(one.rewards.items())) for one in file}
    assert expected == {
        (
            row["benchmark"],
            row["state"],
            tuple(row["actions"]),
            row["next"],
            tuple((reward["space"], reward["value"]) for reward in row["rewards"]),
        )
        for row in both[0] + both[1]
    }
    assert all(row["value"] == row["state"] for split in ("train", "test") for row in tables[f"Value-{split}"])
    with pytest.raises(TransitionsError, match="no empty folder"):
        export(path, tmp_path / "out")


def test_a_database_of_compiler_gym_is_read(tmp_path: Path) -> None:
    import aiocg.compat.compiler_gym as compiler_gym
    from aiocg.compat.compiler_gym.wrappers import SynchronousSqliteLogger

    env = compiler_gym.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd")
    mem2reg, gvn = (env.action_space.flags.index(flag) for flag in ("-mem2reg", "-gvn"))
    with SynchronousSqliteLogger(env, tmp_path / "original.db") as logger:
        logger.reset()
        rewards = [logger.step(mem2reg)[1]]
        autophase, reward, _, _ = logger.multistep([gvn, mem2reg])
        rewards.append(reward)
    flags = [flag.removeprefix("-") for flag in env.action_space.flags]
    import_original(tmp_path / "original.db", tmp_path / "t.db", flags, "LLVM 1")
    with Transitions(tmp_path / "t.db") as file:
        assert [one.actions for one in file] == [("mem2reg",), ("gvn", "mem2reg")]
        assert [one.rewards["IrInstructionCountOz"] for one in file] == pytest.approx(rewards)
        assert file[0].next == file[1].state and file.benchmarks()[0][1] == file[0].state
        assert file.observation(file[1].next, "Autophase").tolist() == list(autophase)
        assert file.compiler == "LLVM 1" and "define" in file.observation(file[0].state, "Ir")


def test_another_database_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"no database")
    for name, problem in (("other.db", "no database of CompilerGym's logger"), ("missing.db", "there is no file")):
        with pytest.raises(TransitionsError, match=problem):
            import_original(tmp_path / name, tmp_path / "t.db", [])


async def test_replay_answers_as_the_compiler_did(tmp_path: Path) -> None:
    actions = ["mem2reg", "instcombine", "simplifycfg", "gvn", "mem2reg"]
    seen = []
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.log_to(tmp_path / "t.db", ["Autophase"])
        env = await runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd")
        start, _ = await env.reset()
        for action in actions:
            seen.append((await env.step(action))[:2])
    replay = ReplayEnv(tmp_path / "t.db", observation_space="Autophase", reward_space="IrInstructionCountOz")
    observation, info = replay.reset(seed=1)
    assert observation.tolist() == start.tolist() and replay.observation_space.contains(observation)
    for action, (expected, reward) in zip(actions, seen, strict=True):
        number = replay.actions.index(action)
        assert info["action_mask"][number] == 1
        observation, earned, terminated, truncated, info = replay.step(number)
        assert observation.tolist() == expected.tolist() and earned == reward and not terminated and not truncated
    unlogged = int(info["action_mask"].argmin())
    assert not info["action_mask"][unlogged] and replay.step(unlogged)[2:4] == (False, True)
    replay.close()


def test_replay_needs_what_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "t.db", *walk("b1", range(4)), Step("b1", 1, ("bad",), None, {"R": -1.0}))
    with pytest.raises(TransitionsError, match="no observations of Ir, but Value"):
        ReplayEnv(path, observation_space="Ir", reward_space="R")
    with pytest.raises(TransitionsError, match="no rewards of Q, but R"):
        ReplayEnv(path, observation_space="Value", reward_space="Q")
    with pytest.raises(TransitionsError, match=r"b2 is not among .* b1"):
        ReplayEnv(path, observation_space="Value", reward_space="R", benchmark="b2")
    env = ReplayEnv(path, observation_space="Value", reward_space="R", benchmark="b1")
    env.reset()
    env.step(env.actions.index("a0"))
    observation, reward, terminated, truncated, _ = env.step(env.actions.index("bad"))
    assert (float(observation), reward, terminated, truncated) == (1.0, -1.0, True, False)
    env.close()
