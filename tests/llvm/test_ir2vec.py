"""IR2Vec embeddings as users see them: vocabularies, and what comes of multiplying by them."""

import json

import numpy as np
import pytest

from aiocg.datasets import DownloadError
from aiocg.llvm import _ir2vec as ir2vec

ROWS = {"Opcodes": "Add", "Types": "IntegerTy", "Arguments": "Variable"}
WEIGHTS = {"Add": 1.0, "IntegerTy": 0.5, "Variable": np.float64(np.float32(0.2))}


def json_vocabulary(**changes: object) -> str:
    return json.dumps({section: {name: [1.0, -2.0]} for section, name in ROWS.items()} | changes)


def line_vocabulary() -> str:
    return "add:[1.0, -2.0],\nintegerTy:[1.0, -2.0],\nvariable:[1.0, -2.0]\n"


@pytest.mark.parametrize("text", [json_vocabulary(), line_vocabulary()])
def test_a_vocabulary_is_read_in_both_forms(tmp_path, text: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "vocabulary").write_text(text)
    matrix = ir2vec.read_vocabulary(tmp_path / "vocabulary")
    assert (matrix.shape, matrix.dtype) == ((len(ir2vec.ENTITIES), 2), np.float64)
    for entity, row in zip(ir2vec.ENTITIES, matrix, strict=True):
        weight = WEIGHTS.get(entity, 0.0)
        assert row.tolist() == [weight, -2 * weight]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "no vocabulary",
        '{"Opcodes": 3, "Types": {}, "Arguments": {}}',
        json_vocabulary(Types={"IntegerTy": [1.0]}),
        json_vocabulary(Types={"IntegerTy": []}),
        json_vocabulary(Types={"IntegerTy": ["x", "y"]}),
        json_vocabulary(Types={"IntegerTy": [float("inf"), 0.0]}),
        "unheard:[1.0, 2.0]\n",
        "add:1.0\n",
    ],
)
def test_what_is_no_vocabulary_is_an_error_that_names_the_file(tmp_path, text: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "vocabulary").write_text(text)
    with pytest.raises(ValueError, match=r"vocabulary is not a vocabulary of IR2Vec: "):
        ir2vec.read_vocabulary(tmp_path / "vocabulary")


@pytest.mark.asyncio(loop_scope="session")
async def test_embeddings_by_a_vocabulary_of_ones_own(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "vocabulary").write_text(json_vocabulary())
    env = await make("gcd")
    assert env.observation_spaces["Ir2vecSymbolicCounts"].keys == ir2vec.ENTITIES
    for space in ir2vec.spaces("Own", ir2vec.read_vocabulary(tmp_path / "vocabulary")):
        env.add_observation_space(space)
    names = ["OwnSymbolic", "OwnFlowAware", "OwnFunctionLevelSymbolic", "OwnFunctionLevelFlowAware"]
    symbolic, flow_aware, symbolic_functions, flow_aware_functions = await env.observe(*names)
    counts = dict(zip(ir2vec.ENTITIES, await env.observe("Ir2vecSymbolicCounts"), strict=True))
    expected = sum(counts[name] * weight for name, weight in WEIGHTS.items())
    assert np.allclose(symbolic, [expected, -2 * expected])
    assert (
        symbolic_functions["functions"] == flow_aware_functions["functions"]
        and "gcd" in symbolic_functions["functions"]
    )
    assert np.allclose(symbolic_functions["embeddings"].sum(axis=0), symbolic)
    assert np.allclose(flow_aware_functions["embeddings"].sum(axis=0), flow_aware)
    assert flow_aware[0] > symbolic[0]


@pytest.mark.asyncio(loop_scope="session")
async def test_embeddings_by_the_published_vocabulary(make) -> None:  # type: ignore[no-untyped-def]
    try:
        vocabulary = ir2vec.published_vocabulary()
    except DownloadError as error:
        pytest.skip(str(error))
    assert vocabulary.shape == (len(ir2vec.ENTITIES), ir2vec.DIMENSIONS)
    known = {name for name, row in zip(ir2vec.ENTITIES, vocabulary, strict=True) if row.any()}
    assert known >= {"Add", "GetElementPtr", "PHI", "IntegerTy", "PointerTy", "Function", "Constant", "Variable"}
    env = await make("crc32")
    for name in ("Ir2vecSymbolic", "Ir2vecFlowAware"):
        embedding = await env.observe(name)
        assert np.allclose(embedding, (await env.observe(f"{name}Counts")) @ vocabulary)
        assert env.observation_spaces[name].space.contains(embedding) and embedding.any()
