"""Counts for IR2Vec's embeddings; the client multiplies them by a vocabulary."""

from collections.abc import Callable

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.ir2vec import ENTITIES, Counter
from aiocg.workers.llvm.observations.observation import Observation, Subject

__all__ = ["OBSERVATIONS"]


def _counter(subject: Subject) -> Counter:
    return Counter(subject.engine.natives.load("ir2vec"))


def _program(flow_aware: bool) -> Callable[[Subject], Array]:
    def compute(subject: Subject) -> Array:
        module = subject.engine.module(subject.state)
        return Array("float64", (len(ENTITIES),), _counter(subject).program(module.pointer, flow_aware=flow_aware))

    return compute


def _functions(flow_aware: bool) -> Callable[[Subject], dict[str, object]]:
    def compute(subject: Subject) -> dict[str, object]:
        pointer, counter = subject.engine.module(subject.state).pointer, _counter(subject)
        names = counter.names(pointer)
        counts = counter.functions(pointer, flow_aware=flow_aware)
        return {"functions": names, "counts": Array("float64", (len(names), len(ENTITIES)), counts)}

    return compute


def _observations(form: str, description: str, flow_aware: bool) -> tuple[Observation, Observation]:
    size = len(ENTITIES)
    program = ObservationSpec(
        f"Ir2vec{form}Counts",
        "array",
        f"How often each entity of the vocabulary goes into the {description} IR2Vec embedding.",
        "float64",
        (size,),
        keys=ENTITIES,
        low=0,
        default=Array("float64", (size,), bytes(8 * size)),
    )
    functions = ObservationSpec(
        f"Ir2vecFunctionLevel{form}Counts",
        "record",
        f"The same for the {description} embedding of each function that has a body.",
        fields=(
            ObservationSpec("functions", "texts"),
            ObservationSpec("counts", "array", dtype="float64", shape=(-1, size), keys=ENTITIES, low=0),
        ),
    )
    return Observation(program, _program(flow_aware)), Observation(functions, _functions(flow_aware))


OBSERVATIONS = (*_observations("Symbolic", "symbolic", False), *_observations("FlowAware", "flow-aware", True))
