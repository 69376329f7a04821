"""The environment `loops-v0` in process: actions, observations, measurements, and what becomes of wrong kernels."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.transport.messages import Expand, FailureCode, Load, Open
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._kernel_session import Kernels, KernelSession
from aiocg.workers.loops._nest import Nest
from aiocg.workers.loops._observations import JOINED, bandwidth, least_seconds
from aiocg.workers.loops._schedule import MAX_LOOPS, Step
from aiocg.workers.loops._target import Kernel, Roof
from aiocg.workers.loops.session import (
    CURSOR_MOVES,
    PLACES,
    LoopsSession,
    _action_spaces,
    _offered,
    _read_recipe,
    _resolve,
)
from aiocg.workers.sessions import SessionTable

MATMUL = b"# a product\nC[i:24, j:16] = sum(k:20) A[i, k] * B[k, j]\n"
SOFTMAX = b"""\
M[i:6] = max(j:50) X[i, j]
E[i:6, j:50] = exp(X[i, j] - M[i])
S[i:6] = sum(j:50) E[i, j]
Y[i:6, j:50] = E[i, j] / S[i]
"""


@pytest.fixture(autouse=True, scope="module")
def _started() -> Iterator[None]:
    LoopsSession.start({"target": "cpu", "threads": "2"})
    yield
    KernelSession._devices.clear()


def opened(content: bytes = MATMUL) -> LoopsSession:
    session = LoopsSession(LoopsSession.load_benchmark(content))
    session.set_parameter("samples", "2")
    session.set_parameter("seconds", "0.002")
    return session


def after(session: LoopsSession, *actions: Any) -> list[bool]:
    for action in actions:
        session.check_action(action)
    return [session.apply_action(action) for action in actions]


# ------------------------------------------------------------------------------------------------------ actions


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_three_spaces_have_the_same_steps(target: str) -> None:
    steps, primitives, cursor, recipes = _action_spaces(target)
    texts = [action.text or action.name for action in steps.actions]
    assert texts == list(_offered(target)) and len(texts) == len(set(texts))
    made = set()
    for action in primitives.actions:
        first, *rest = (parameter.choices for parameter in action.parameters)
        assert first == tuple(f"loop={number}" for number in range(MAX_LOOPS))
        assert len(rest) <= 1 and action.text == f"{action.name}$<>"
        for loop in first:
            made |= (
                {f"{action.name}<{';'.join([loop, *more])}>" for more in ([one] for one in rest[0])}
                if rest
                else {f"{action.name}<{loop}>"}
            )
    assert made == set(texts)
    at_three = {_resolve(action.name, 3).text for action in cursor.actions if action.name not in CURSOR_MOVES}
    assert at_three == {text for text in texts if "<loop=3" in text}
    assert len(recipes.options) == PLACES
    assert {word.partition(":")[2] for option in recipes.options for word in option.texts} < set(texts)


def test_an_index_a_step_and_one_at_the_cursor_are_the_same() -> None:
    first, second, third = opened(), opened(), opened()
    text = "split<loop=1;factor=4>"
    assert after(first, _offered("cpu").index(text)) == after(second, text) == [True]
    assert after(third, "cursor_down", "split<factor=4>", "cursor_up") == [True, True, True]
    assert first.schedule == second.schedule == third.schedule
    assert first.state_hash() == second.state_hash() == third.state_hash()


def test_a_recipe_is_a_schedule_from_the_start_without_what_is_refused() -> None:
    session, again = opened(), opened()
    recipe = "schedule 1:split<loop=0;factor=8> 2:vectorize<loop=0> 4:reorder<loop=1> 12:parallel<loop=0>"
    assert [step.primitive for step in _read_recipe("cpu", recipe)] == ["split", "vectorize", "reorder", "parallel"]
    after(session, "split<loop=0;factor=2>", "cursor_down", "fuse<loop=2>")
    assert after(session, recipe, recipe) == [True, False]
    after(again, "split<loop=0;factor=8>", "reorder<loop=1>", "parallel<loop=0>", "cursor_down")
    assert session.state_hash() == again.state_hash()
    assert after(session, "schedule") == [True] and session.schedule == opened().schedule
    after(session, "schedule 3:parallel<loop=3> 4:split<loop=10;factor=2>")  # 10 of 3 loops is 1
    assert [loop.variable for loop in session.schedule.nests[0].loops] == ["i", "j.0", "j.1", "k"]
    for text in ("schedule 13:reorder<loop=0>", "schedule reorder<loop=0>", "schedule 1:reorder<loop=20>", "schedules"):
        with pytest.raises(CompilationError):
            LoopsSession.check_action(text)


def test_a_step_that_is_refused_changes_nothing_and_the_mask_says_so() -> None:
    session = opened()
    before, mask = session.state_hash(), session.get_observation("action_mask")
    refusals = session.get_observation("refusals")
    assert (mask.dtype, mask.shape) == (np.int8, (len(_offered("cpu")),))
    assert set(np.array(_offered("cpu"))[mask == 0]) == set(refusals)
    refused = ("vectorize<loop=0>", "parallel<loop=2>", "fuse<loop=2>", "split<loop=9;factor=2>")
    assert after(session, *refused) == [False] * 4
    assert session.state_hash() == before
    assert "turns" in refusals["split<loop=0;factor=24>"] and "only the innermost" in refusals["vectorize<loop=0>"]
    json.dumps(refusals)


@pytest.mark.parametrize(
    "action", ["", "split", "split<loop=0>", "reorder<loop=24>", "cursor", "fuse<loop=a>", -1, 552, None, 1.5, "gvn"]
)
def test_what_is_no_action_is_told_before_anything_is_done(action: object) -> None:
    with pytest.raises(CompilationError) as caught:
        LoopsSession.check_action(action)
    assert caught.value.code == FailureCode.ACTION_UNKNOWN


def test_the_cursor_stays_where_there_are_loops_and_goes_with_the_loop_it_reorders() -> None:
    session = opened()
    assert after(session, "cursor_up", *["cursor_down"] * 4) == [False, True, True, False, False]
    assert session.get_observation("cursor") == 2
    assert after(session, "cursor_up", "cursor_up", "reorder", "reorder", "reorder") == [True, True, True, True, False]
    assert session.get_observation("cursor") == 2
    assert [loop.variable for loop in session.schedule.nests[0].loops] == ["j", "k", "i"]
    after(session, "reorder<loop=0>", "fuse<loop=1>")
    assert session.get_observation("cursor") <= len(session.schedule.loops) - 1


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, len(_offered("cpu")) - 1), max_size=30), st.sampled_from([MATMUL, SOFTMAX]))
def test_whatever_is_done_states_are_values_and_their_kernels_are_right(actions: list[int], content: bytes) -> None:
    session, again = opened(content), opened(content)
    effects = after(session, *actions)
    child = session.fork()
    assert after(again, *actions) == effects
    assert again.state_hash() == session.state_hash() == child.state_hash()
    assert session.get_observation("features").shape == again.get_observation("features").shape
    assert session.get_observation("runtime") > 0  # a wrong result would be an error


# ------------------------------------------------------------------------------------------------- observations


def test_every_observation_is_of_its_kind() -> None:
    session = opened(SOFTMAX)
    kinds = {"text": str, "json": dict, "array": np.ndarray, "integer": int, "real": float}
    for spec in LoopsSession.observation_spaces:
        if spec.name == "roof_fraction":
            continue
        value = session.get_observation(spec.name)
        assert type(value) is kinds[spec.kind], spec.name
        if spec.kind == "array":
            assert (value.shape, value.dtype) == (spec.shape, spec.dtype)
        if spec.kind == "json":
            json.dumps(value)
        assert spec.deterministic == (spec.name not in ("flops", "runtime", "runtime_spread"))
    assert session.get_observation("flop_count") == session.schedule.computation.flops
    with pytest.raises(CompilationError, match="there are loop_tree"):
        session.get_observation("Ir")


def test_speed_and_spread_are_of_one_measurement_and_asking_again_measures_again() -> None:
    session = opened()
    kernels, count = session.kernels, session.kernels.measurements
    low, high = session.get_observation("runtime_spread")
    seconds, flops = session.get_observation("runtime"), session.get_observation("flops")
    assert low <= seconds <= high
    assert flops == pytest.approx(session.schedule.computation.flops / seconds / 1e9)
    assert kernels.measurements == count + 1
    assert session.fork().get_observation("flops") == flops
    session.get_observation("flops")
    assert kernels.measurements == count + 2


def test_an_action_without_effect_costs_no_measurement() -> None:
    session = opened()
    flops, count = session.get_observation("flops"), session.kernels.measurements
    assert after(session, "vectorize<loop=0>", "cursor_down") == [False, True]
    assert (session.get_observation("flops"), session.kernels.measurements) == (flops, count)
    after(session, "split<loop=0;factor=8>")
    session.get_observation("flops")
    assert session.kernels.measurements == count + 1


def test_schedules_that_are_the_same_share_a_kernel() -> None:
    first, second = opened(), opened()
    for session in (first, second):
        after(session, "split<loop=0;factor=12>", "reorder<loop=1>")
    after(second, "unroll<loop=2>", "serial<loop=2>", "cursor_down")
    first.get_observation("source")
    compiles = first.kernels.compiles
    assert second.get_observation("source") == first.get_observation("source")
    assert first.kernels.compiles == compiles


@pytest.mark.slow
def test_candidates_are_compiled_together_and_no_kernel_twice() -> None:
    table = SessionTable(LoopsSession, lambda *_: None)
    table.handle(1, Load(1, "m", b"C[i:30, j:30] = sum(k:30) A[i, k] * B[k, j]", 60.0))
    table.handle(1, Open(2, 1, "m", 60.0, (), (("samples", "1"), ("seconds", "0.001"))))
    kernels = LoopsSession.device("cpu")
    steps = [f"split<loop={loop};factor={factor}>" for loop in range(3) for factor in (2, 4, 8)]
    compiles = kernels.compiles
    candidates = tuple((step,) for step in [*steps, "fuse<loop=2>", steps[0]])
    reply: Any = table.handle(1, Expand(3, 1, candidates, 60.0, ("flops",)))
    assert [one.code for one in reply.candidates] == [""] * 11
    assert [one.effects for one in reply.candidates] == [*[(True,)] * 9, (False,), (True,)]
    assert kernels.compiles == compiles + 10  # nine schedules, and that of the refused one


# --------------------------------------------------------------------------------------------- wrong and impossible


class WrongKernel:
    """A kernel that forgets the last element."""

    def __init__(self, kernel: Kernel) -> None:
        self.source, self._kernel = kernel.source, kernel

    def run(self, arrays: Sequence[Any]) -> None:
        kept = arrays[-1][-1, -1].copy()
        self._kernel.run(arrays)
        arrays[-1][-1, -1] = kept

    def time(self, *args: Any, **kwargs: Any) -> Any:
        return self._kernel.time(*args, **kwargs)


class WrongTarget:
    """The processor with a compiler that has a bug."""

    def __init__(self, kernels: Kernels) -> None:
        self._target = kernels.target
        self.name, self.description = self._target.name, self._target.description

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> Any:
        if any(loop.kind == "unrolled" for nest in nests for loop in nest.loops):
            raise CompilationError(FailureCode.ACTION, "too much code")
        return WrongKernel(self._target.compile(computation, nests))

    def roof(self, deadline: float = math.inf) -> Roof:
        return self._target.roof(deadline)


def test_a_wrong_result_is_an_error_and_no_speed_and_is_found_once() -> None:
    session = opened()
    session.kernels = Kernels(WrongTarget(session.kernels))
    for _ in range(2):
        with pytest.raises(CompilationError, match=r"C\[23, 15\] is nan, expected") as caught:
            session.get_observation("flops")
        assert (caught.value.code, caught.value.fields) == (FailureCode.OBSERVATION, {"reason": "wrong result"})
    assert (session.kernels.checks, session.kernels.measurements) == (1, 0)
    after(session, "unroll<loop=2>")
    with pytest.raises(CompilationError, match="too much code") as caught:
        session.get_observation("runtime")
    assert (caught.value.code, caught.value.fields) == (FailureCode.OBSERVATION, {"reason": "compilation"})


@pytest.mark.parametrize(
    "content", [b"", b"C[i:4] = A[i", b"\xff", b"x" * 100, b"C[i:1073741824] = A[i]", b"int main(void) {}"]
)
def test_what_is_no_computation_is_no_benchmark(content: bytes) -> None:
    with pytest.raises(CompilationError) as caught:
        LoopsSession.load_benchmark(content)
    assert caught.value.code == FailureCode.BENCHMARK


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"target": "tpu"}, "cpu, cuda"), ({"threads": "many"}, "threads"), ({"threads": "0"}, "threads")],
)
def test_what_this_machine_has_not_is_told_at_once(options: dict[str, str], missing: str) -> None:
    class Session(LoopsSession):
        _devices = {}

    with pytest.raises(CompilationError, match=missing) as caught:
        Session.start(options)
    assert caught.value.code == FailureCode.UNSUPPORTED


# -------------------------------------------------------------------------------------------- parameters and roof


def test_parameters_are_set_asked_for_and_checked() -> None:
    session = opened()
    assert session.set_parameter("samples", "5") == "5" == session.set_parameter("samples", "")
    assert session.set_parameter("seconds", "0.25") == "0.25" == session.fork().set_parameter("seconds", "")
    assert session.set_parameter("patience", "") == "inf" and session.set_parameter("patience", "3") == "3"
    assert session.set_parameter("device", "") == LoopsSession.compiler_version
    bad = (
        ("samples", "0"),
        ("samples", "x"),
        ("seconds", "nan"),
        ("seconds", "0"),
        ("patience", "0"),
        ("color", "red"),
        ("device", "x"),
    )
    for key, value in bad:
        with pytest.raises(CompilationError) as caught:
            session.set_parameter(key, value)
        assert caught.value.code == FailureCode.PARAMETER


def test_the_roof_is_whichever_binds() -> None:
    roof = Roof(1e11, ((2**15, 2e11), (2**20, 1e11), (2**30, 1e10)))
    assert [bandwidth(roof, size) for size in (1, 2**15, 2**15 + 1, 2**29, 2**40)] == [2e11, 2e11, 1e11, 1e10, 1e10]
    product = LoopsSession.load_benchmark(b"C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]").computation
    assert least_seconds(product, roof) == product.flops / 1e11
    copy = LoopsSession.load_benchmark(b"C[i:1000] = A[i]").computation
    assert least_seconds(copy, roof) == 8000 / 2e11


def test_steps_have_one_text() -> None:
    assert _resolve("split<factor=8>", 2) == Step("split", 2, 8) == _resolve("split<loop=2;factor=8>", 0)


def test_an_expression_that_overflows_whatever_the_kernel_does_is_said_to() -> None:
    session = opened(b"Y[i:9] = sum(j:64) X[i, j] * 1e38")
    with pytest.raises(CompilationError, match=r"Y overflows float32 .* scale the expression down") as caught:
        session.get_observation("flops")
    assert (caught.value.code, caught.value.fields) == (FailureCode.OBSERVATION, {"reason": "overflow"})
    assert opened(b"Y[i:9] = sum(j:64) exp(100 * X[i, j])").get_observation("flops") > 0


def test_layouts_are_a_whole_schedule_from_the_start_and_templates_are_such() -> None:
    session = opened(SOFTMAX)
    templates = session.get_observation("templates")
    joined = templates.pop(JOINED)
    assert list(templates) == ["M", "E", "S", "Y"]
    action = f"nests<{';'.join(layouts[0] for layouts in templates.values())}>"
    assert after(session, "split<loop=0;factor=2>", action, action, f"nests<{joined[0]}>") == [True, True, False, True]
    assert [nest.loops[0].kind for nest in session.schedule.nests][1:] == ["joined"] * 3
    assert session.get_observation("flops") > 0  # a wrong result would be an error
    assert after(session, "nests<i;j>", "nests<;;;>") == [False, True]
    assert session.schedule == opened(SOFTMAX).schedule
    for text in ("nests", "nests<i", "nests<i,j:x>"):
        with pytest.raises(CompilationError) as caught:
            LoopsSession.check_action(text)
        assert caught.value.code == FailureCode.ACTION_UNKNOWN
