"""Policies as files, and what they see, without a compiler."""

import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from aiocg.policies import Episode, Features, Policy, PolicyError, PolicyFacts, shipped_policies
from aiocg.policies.features import COSTS, COUNTS, PARTS
from aiocg.rl.programs import HELD_OUT, check_training, hash_of

ACTIONS = tuple(f"pass{number}" for number in range(60))


def policy_of(actions: tuple[str, ...] = ACTIONS, **facts: Any) -> Policy:
    rng, size = np.random.default_rng(0), Features(len(actions)).size
    sizes = [size, 256, 256, len(actions) + 1]
    layers = [(rng.normal(size=(a, b)) / 16, rng.normal(size=b)) for a, b in pairwise(sizes)]
    return Policy(PolicyFacts(compiler="LLVM 22.1.8", actions=actions, **facts), layers)


def test_a_policy_is_a_small_file_and_comes_back(tmp_path: Path) -> None:
    uris = tuple(f"generator://csmith-v0/{number}" for number in range(100, 700))
    policy = policy_of(seed=3, uris=uris, programs_hash="ab", scores={"50 of csmith-v0": {"with fallback": 1.02}})
    path = tmp_path / "my.npz"
    path.write_bytes(policy.to_bytes())
    assert path.stat().st_size < 300_000
    again = Policy.load(path)
    assert again.facts == policy.facts
    features = np.random.default_rng(1).random((5, policy.features.size)).astype(np.float32)
    assert np.allclose(again.logits(features), policy.logits(features), atol=0.02)
    assert again.to_bytes() == policy.to_bytes()


def test_what_a_state_comes_to_does_not_depend_on_the_others() -> None:
    policy = policy_of()
    features = np.random.default_rng(1).random((67, policy.features.size)).astype(np.float32)
    together = policy.logits(features)
    alone = np.concatenate([policy.logits(features[place : place + 1]) for place in range(67)])
    assert np.array_equal(together, alone)


def _rewritten(content: bytes, **arrays: Any) -> bytes:
    with np.load(io.BytesIO(content)) as file:
        found = {name: file[name] for name in file.files}
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in (found | arrays).items() if array is not None})
    return file.getvalue()


def _header(facts: PolicyFacts, **changed: Any) -> Any:
    told = json.loads(msgspec.json.encode(facts)) | changed
    return np.frombuffer(json.dumps(told).encode(), np.uint8)


def _damaged(kind: str) -> bytes:
    policy = policy_of()
    content = policy.to_bytes()
    nothing = np.array([None])
    match kind:
        case "empty":
            return b""
        case "cut":
            return content[: len(content) // 2]
        case "flipped":
            at = len(content) // 3
            return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
        case "text":
            return b"no archive at all"
        case "another archive":
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("a.txt", "b")
            return file.getvalue()
        case "pickled":
            return _rewritten(content, weights0=nothing)
        case "no header":
            return _rewritten(content, header=None)
        case "no json":
            return _rewritten(content, header=np.frombuffer(b"{", np.uint8))
        case "other format":
            return _rewritten(content, header=_header(policy.facts, format="aiocg policy 99"))
        case "unknown part":
            return _rewritten(content, header=_header(policy.facts, parts=["tea leaves"]))
        case "fewer actions":
            return _rewritten(content, header=_header(policy.facts, actions=list(ACTIONS[:-1])))
        case "no layers":
            return _rewritten(content, **{f"{what}{n}": None for what in ("weights", "biases") for n in range(3)})
        case "layer missing":
            return _rewritten(content, weights1=None)
        case "texts for weights":
            return _rewritten(content, weights1=np.array(["a"]))
        case "not finite":
            return _rewritten(content, biases1=np.full(256, np.nan, np.float16))
        case _:
            assert kind == "bomb"
            return _rewritten(content, weights9=np.zeros(20 << 20, np.uint8))


KINDS = (
    "empty", "cut", "flipped", "text", "another archive", "pickled", "no header", "no json", "other format",
    "unknown part", "fewer actions", "no layers", "layer missing", "texts for weights", "not finite", "bomb",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_policy_is_refused_by_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "my.npz"
    path.write_bytes(_damaged(kind))
    with pytest.raises(PolicyError, match=r"my\.npz"):
        Policy.load(path)


def test_a_policy_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no policy .*other\.npz"):
        Policy.load(tmp_path / "other.npz")
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path)


@pytest.mark.parametrize("name", shipped_policies())
def test_a_shipped_policy_is_small_and_has_seen_no_program_that_is_kept_for_tests(name: str) -> None:
    path = shipped_policies()[name]
    assert path.stat().st_size <= 300_000
    facts = Policy.load(name).facts
    assert facts.programs == len(facts.uris) >= 100 and facts.programs_hash == hash_of(facts.uris) and facts.scores
    check_training(facts.uris)
    assert not set(facts.sources) & set(HELD_OUT)
    assert len(set(facts.actions)) == len(facts.actions)


# ---------------------------------------------------------------------------------------------------- an episode


def counts_of(cost: int) -> Any:
    counts = np.arange(COUNTS, dtype=np.int64)
    counts[0] = cost
    return counts


def test_an_episode_is_scored_by_the_best_program_on_its_way() -> None:
    episode = Episode(3, 10, 100, 50, counts_of(100), 1)
    gains = [episode.advance(0, counts_of(cost), cost, no_effect=False) for cost in (80, 120, 40, 60)]
    assert gains == pytest.approx([0.1 * np.log(100 / 80), 0, 0.1 * np.log(80 / 50) + np.log(50 / 40), 0])
    assert (episode.best, episode.cost, episode.best_length) == (40, 60, 3)


def test_only_what_was_seen_to_do_nothing_is_masked_and_only_in_that_state() -> None:
    episode = Episode(3, 10, 100, 50, counts_of(100), 1)
    assert episode.mask.all()
    episode.advance(1, counts_of(100), 1, no_effect=True)
    assert episode.mask.tolist() == [True, False, True, True]
    episode.advance(0, counts_of(90), 2, no_effect=False)
    assert episode.mask.all()
    episode.advance(2, counts_of(100), 1, no_effect=False)  # back again
    assert episode.mask.tolist() == [True, False, True, True]


def test_features_are_in_their_ranges_for_any_program() -> None:
    rng = np.random.default_rng(0)
    features = Features(3)
    for scale in (0, 1, 100, 1 << 40):
        counts = rng.integers(0, scale + 1, COUNTS)
        episode = Episode(3, 4, scale, 1, counts, 0)
        for step in range(4):
            episode.advance(step % 3, rng.integers(0, scale + 1, COUNTS), step, no_effect=False)
        (row,) = features([episode])
        assert row.dtype == np.float32 and row.shape == (features.size,)
        assert np.all((row[:-COSTS] >= 0) & (row[:-COSTS] <= 1)) and np.all(np.abs(row[-COSTS:]) <= 2)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_seen_alone(part: str) -> None:
    alone, whole = Features(3, [part]), Features(3)
    episode = Episode(3, 10, 100, 50, counts_of(100), 1)
    episode.advance(1, counts_of(90), 2, no_effect=False)
    assert alone([episode]).shape == (1, alone.size)
    assert set(alone([episode])[0].tolist()) <= set(whole([episode])[0].tolist())


def test_a_part_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="not of tea leaves"):
        Features(3, ["tea leaves"])
