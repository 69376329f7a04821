"""Results of validation, what two executions differ in, retries, and validating states that need no compiler."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.recipe import ProgramRun
from aiocg.errors import ResetNeeded
from aiocg.states.behaviour import Behaviour
from aiocg.states.executions import differences, faults, findings
from aiocg.states.state import CompilerEnvState
from aiocg.testing import scripted_benchmark
from aiocg.validation import ErrorKind, ValidationError, ValidationResult, validate, validate_states
from aiocg.validation._differential import Finding, retried

STATE = CompilerEnvState(environment="scripted-v0", benchmark="benchmark://scripted-v0/5", reward=2.5)


def wrong(kind: str = ErrorKind.WRONG_OUTPUT, **data: Any) -> ValidationError:
    return ValidationError(kind=kind, data=data)


def failed(*errors: ValidationError) -> ValidationResult:
    return ValidationResult(
        state=STATE, benchmark_semantics_validated=True, benchmark_semantics_validation_failed=True, errors=errors
    )


# ------------------------------------------------------------------------------------------------ values


def test_errors_have_types() -> None:
    assert wrong().type == "Wrong output"
    assert ValidationError(kind=ErrorKind.RUNTIME_ERROR, exit_code=-6).type == "Runtime error (-6)"
    assert ValidationError(kind=ErrorKind.MEMORY_LEAK, by_itself=True).type == "Memory leak, by itself"


def test_errors_are_ordered_by_type_and_then_by_data() -> None:
    errors = [wrong(run="b"), wrong("Another"), wrong(run="a")]
    assert sorted(errors) == [errors[1], errors[2], errors[0]]


@pytest.mark.parametrize("flag", ["actions_replay_failed", "reward_validation_failed", "semantics"])
def test_any_failure_makes_a_result_wrong(flag: str) -> None:
    same = ValidationResult(state=STATE, reward_validated=True, behaviour=Behaviour.SAME)
    assert same.okay() and not same.wrong
    name = "benchmark_semantics_validation_failed" if flag == "semantics" else flag
    result = ValidationResult(state=STATE, behaviour=Behaviour.SAME, **{name: True})
    assert result.wrong and not result.okay()


@pytest.mark.parametrize("behaviour", Behaviour)
def test_only_one_of_five_outcomes_is_okay(behaviour: Behaviour) -> None:
    result = ValidationResult(state=STATE, behaviour=behaviour, reason="why")
    assert result.okay() == (behaviour is Behaviour.SAME)
    assert result.verdict.endswith(" why") and ("miscompiled" in result.verdict) == (behaviour is Behaviour.DIFFERS)
    assert ValidationResult.from_json(result.to_json()).behaviour is behaviour


def test_the_worst_of_several_outcomes_counts() -> None:
    def joined(*behaviours: Behaviour) -> str:
        parts = [ValidationResult(state=STATE, behaviour=one, reason=one.name) for one in behaviours]
        return ValidationResult.join(parts).reason

    assert joined(Behaviour.NOT_RUN, Behaviour.SAME) == "SAME"
    assert joined(Behaviour.SAME, Behaviour.VARIES, Behaviour.NOT_RUN) == "VARIES"
    assert joined(Behaviour.VARIES, Behaviour.DIFFERS, Behaviour.FAILS) == "DIFFERS"


def test_error_details_aggregate_equal_errors_as_compilergym_does() -> None:
    assert ValidationResult(state=STATE).error_details == ""
    assert failed(wrong()).error_details == "Wrong output"
    assert failed(wrong(run="a"), wrong(run="b")).error_details == "2× Wrong output"  # noqa: RUF001
    mixed = failed(wrong("One"), *[wrong("Two")] * 2, *[wrong("Three")] * 3)
    assert mixed.error_details == "[1/3] 3× Three, [2/3] 2× Two, [3/3] One"  # noqa: RUF001
    many = failed(*(wrong(str(number)) for number in range(8)))
    assert many.error_details == "[1/8] 0, [2/8] 1, [3/8] 2, ... (5 more errors)"


def test_repr_shows_at_a_glance_how_it_went() -> None:
    assert repr(ValidationResult(state=STATE, behaviour=Behaviour.SAME)) == "✅  scripted-v0/5  2.5000"
    assert repr(ValidationResult(state=STATE)) == "❔  scripted-v0/5  2.5000  not run"
    assert repr(failed(wrong())) == "❌  scripted-v0/5  Wrong output"
    assert len(repr(failed(*(wrong("long " * 9 + str(n)) for n in range(9))))) < 80


def test_results_are_equal_whatever_their_wall_time_and_the_order_of_errors() -> None:
    one, two = wrong(run="a"), wrong(run="b")
    first = ValidationResult(state=STATE, walltime=1.0, errors=(one, two))
    assert first == ValidationResult(state=STATE, walltime=9.0, errors=(two, one))
    assert not first != ValidationResult(state=STATE, walltime=9.0, errors=(two, one))  # noqa: SIM202
    assert hash(first) == hash(ValidationResult(state=STATE, walltime=9.0, errors=(two, one)))
    assert first != ValidationResult(state=STATE, errors=(one,))


any_error = st.builds(
    ValidationError,
    kind=st.sampled_from(ErrorKind),
    data=st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(-9, 9) | st.none(), max_size=3),
    exit_code=st.none() | st.integers(-64, 255),
    by_itself=st.booleans(),
)
any_result = st.builds(
    ValidationResult,
    state=st.just(STATE),
    walltime=st.floats(0, 1e6),
    reward_validated=st.booleans(),
    actions_replay_failed=st.booleans(),
    reward_validation_failed=st.booleans(),
    benchmark_semantics_validated=st.booleans(),
    benchmark_semantics_validation_failed=st.booleans(),
    behaviour=st.sampled_from(Behaviour),
    reason=st.text(max_size=5),
    errors=st.lists(any_error, max_size=4).map(tuple),
    skipped=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@given(result=any_result)
def test_a_result_survives_json(result: ValidationResult) -> None:
    assert ValidationResult.from_json(result.to_json()) == result


@given(results=st.lists(any_result, min_size=1, max_size=4))
def test_a_join_fails_when_any_part_fails_and_has_all_errors(results: list[ValidationResult]) -> None:
    joined = ValidationResult.join(results)
    assert joined.wrong == any(result.wrong for result in results)
    assert sorted(joined.errors) == sorted(error for result in results for error in result.errors)
    assert joined.walltime == sum(result.walltime for result in results)


def test_only_results_of_one_state_can_be_joined() -> None:
    other = ValidationResult(state=CompilerEnvState(environment="x", benchmark="benchmark://x-v0/1"))
    for results in ([], [ValidationResult(state=STATE), other]):
        with pytest.raises(ValueError, match="join"):
            ValidationResult.join(results)


# -------------------------------------------------------------------------------------------- executions


def content(text: str) -> dict[str, Any]:
    return {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest(), "head": text}


RUNS = {"small": ProgramRun()}


def execution(**changes: Any) -> list[dict[str, Any]]:
    """One run, in the form of the observation `Execution`."""
    run = {
        "name": "small",
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "problem": "",
        "stdout": content("out"),
        "stderr": "",
        "files": {"result": content("file")},
    }
    return [run | changes]


@pytest.mark.parametrize(
    ("changes", "types"),
    [
        ({}, []),
        ({"stderr": "chatter"}, []),
        ({"exit_code": 3}, ["Runtime error (3)"]),
        ({"exit_code": None, "signal": "SIGSEGV"}, ["Segmentation fault"]),
        ({"exit_code": None, "signal": "SIGBUS"}, ["Segmentation fault"]),
        ({"exit_code": None, "signal": "SIGILL"}, ["Illegal Instruction"]),
        ({"exit_code": None, "signal": "SIGABRT"}, ["Runtime error (-6)"]),
        ({"exit_code": None, "signal": "signal 40"}, ["Runtime error (-40)"]),
        ({"exit_code": None, "timed_out": True}, ["Execution timeout"]),
        ({"stdout": content("other")}, ["Wrong output"]),
        ({"files": {"result": None}}, ["Output not generated"]),
        ({"files": {"result": content("x")}}, ["Wrong output (file)"]),
        ({"stdout": content("o"), "files": {"result": None}}, ["Wrong output", "Output not generated"]),
    ],
)
def test_what_differs_from_the_unoptimised_program_has_a_type(changes: dict[str, Any], types: list[str]) -> None:
    errors = differences(execution(), execution(**changes), RUNS)
    assert [error.type for error in errors] == types
    assert all(error.data["run"] == "small" for error in errors)


def test_a_program_that_fails_as_before_is_no_difference() -> None:
    crash = execution(exit_code=None, signal="SIGSEGV")
    assert differences(crash, crash, RUNS) == []
    (error,) = differences(crash, execution(), RUNS)
    assert (error.type, error.data["expected"]) == ("Runtime error (0)", "ended by SIGSEGV")


def test_output_that_varies_is_no_difference_and_files_are() -> None:
    varied = execution(stdout=content("?"), files={"result": None})
    (error,) = differences(execution(), varied, {"small": ProgramRun(output_varies=True)})
    assert error.type == "Output not generated"


def test_an_execution_is_compared_with_what_the_benchmark_promises(tmp_path: Path) -> None:
    expected = tmp_path / "expected"
    expected.write_text("out")
    promised = {"small": ProgramRun((), expected, output_files={"result": b"file"})}
    assert faults(promised, execution()) == []
    assert [error.type for error in faults(promised, execution(stdout=content("?")))] == ["Wrong output"]
    assert [error.type for error in faults(promised, execution(exit_code=1))] == ["Runtime error (1)"]
    unknown = {"small": ProgramRun(output_files={"result": None})}
    assert faults(unknown, execution(stdout=content("?"))) == []
    assert [error.type for error in faults(unknown, execution(files={"result": None}))] == ["Output not generated"]


@pytest.mark.parametrize(
    ("finding", "kind"),
    [
        ("AddressSanitizer: 40 byte(s) leaked in 1 allocation(s).", ErrorKind.MEMORY_LEAK),
        ("AddressSanitizer: heap-buffer-overflow", ErrorKind.MEMORY_ERROR),
        ("AddressSanitizer: SEGV", ErrorKind.SEGMENTATION_FAULT),
        ("AddressSanitizer: ILL", ErrorKind.ILLEGAL_INSTRUCTION),
        ("MemorySanitizer: use-of-uninitialized-value", ErrorKind.MEMORY_ERROR),
        ("ThreadSanitizer: data race", ErrorKind.DATA_RACE),
        ("ThreadSanitizer: heap-use-after-free", ErrorKind.MEMORY_ERROR),
        ("UndefinedBehaviorSanitizer: undefined-behavior a.c:1:2", ErrorKind.UNDEFINED_BEHAVIOUR),
    ],
)
def test_what_sanitizers_find_has_a_kind(finding: str, kind: ErrorKind) -> None:
    (error,) = findings(execution(finding=finding, report="words"), "asan")
    assert (error.kind, error.data["report"], error.data["sanitizer"]) == (kind, "words", "asan")
    assert findings(execution(finding="", report=""), "asan") == []


# ----------------------------------------------------------------------------------------------- retries


def sequence(*results: list[ValidationError]) -> Callable[[], Any]:
    """A test whose tries end as given."""
    rest = iter(results)

    async def test() -> Finding:
        errors = next(rest)
        return Finding(Behaviour.DIFFERS if errors else Behaviour.SAME, "", tuple(errors))

    return test


async def test_the_first_success_wins() -> None:
    assert await retried(sequence([wrong()], [wrong()], []), 5) == Finding(Behaviour.SAME, "")


async def test_each_try_reports_its_own_errors() -> None:
    timeout, leak = wrong(ErrorKind.EXECUTION_TIMEOUT), wrong(ErrorKind.MEMORY_LEAK)
    (error,) = (await retried(sequence([leak], [timeout]), 2)).errors
    assert (error.kind, error.data) == (ErrorKind.EXECUTION_TIMEOUT, {"attempts": 2})


async def test_what_the_compiler_refuses_is_not_tried_again() -> None:
    (error,) = (await retried(sequence([wrong(ErrorKind.COMPILATION_FAILED)]), 5)).errors
    assert error.data["attempts"] == 1


# ------------------------------------------------------------------------------- states on scripted workers


async def test_a_state_that_can_be_reached_again_is_okay(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step(["increment", "double"])
    result = await env.validate()
    assert (not result.wrong, result.reward_validated, result.benchmark_semantics_validated) == (True, True, False)
    assert result.state == env.state or result.state.actions == env.action_texts
    assert await env.observe("value") == 12, "the environment is not touched"


async def test_a_state_without_reward_or_actions_is_okay(env: aiocg.Env) -> None:
    result = await env.validate()
    assert (not result.wrong, result.reward_validated) == (True, False)


async def test_an_environment_without_a_state_cannot_be_validated(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0")
    with pytest.raises(ResetNeeded):
        await env.validate()


async def test_actions_that_lead_elsewhere_are_found(fresh: aiocg.Runtime) -> None:
    env = await fresh.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()
    await env.step("forget")  # adds the process id, and the sibling is on the other worker
    result = await env.validate()
    assert (not result.wrong, result.actions_replay_failed) == (False, True)
    assert result.error_details == "Another state"


@pytest.mark.parametrize("action", ["crash", "refuse", "no-such-action"])
async def test_actions_that_cannot_be_applied_are_found(runtime: aiocg.Runtime, action: str) -> None:
    state = CompilerEnvState(
        environment="scripted-v0", benchmark="benchmark://scripted-v0/5", actions=("increment", action)
    )
    result = await validate(runtime, state)
    assert (result.actions_replay_failed, result.error_details) == (True, "Replay failed")
    assert result.errors[0].data["error_details"]


@pytest.mark.parametrize(("reward", "okay"), [(-7.0, True), (-7.00001, True), (-7.001, False), (0.0, False)])
async def test_rewards_must_agree_within_a_hundred_thousandth(
    runtime: aiocg.Runtime, reward: float, okay: bool
) -> None:
    state = CompilerEnvState(
        environment="scripted-v0",
        benchmark="benchmark://scripted-v0/5",
        actions=("increment", "double"),
        reward_space="value",
        reward=reward,
    )
    result = await validate(runtime, state)
    assert (not result.wrong, result.reward_validated, result.reward_validation_failed) == (okay, True, not okay)
    assert result.error_details == ("" if okay else "Wrong reward")


async def test_a_reward_that_is_not_deterministic_is_not_compared(env: aiocg.Env) -> None:
    env.reward_spaces["value"].deterministic = False
    env.reward_space = "value"
    await env.step("increment")
    state = CompilerEnvState(
        environment="scripted-v0",
        benchmark="benchmark://scripted-v0/5",
        actions=("increment",),
        reward_space="value",
        reward=99.0,
    )
    result = await env.validate(state)
    assert (not result.wrong, result.reward_validated) == (True, False)


async def test_tests_of_a_benchmark_are_called_at_the_state(runtime: aiocg.Runtime) -> None:
    benchmark = scripted_benchmark(5)
    seen = []

    async def look(env: aiocg.Env) -> list[ValidationError]:
        seen.append(await env.observe("value"))
        return [wrong("Too large", value=seen[-1])] if seen[-1] > 5 else []

    assert not benchmark.is_validatable()
    benchmark.add_validation_callback(look)
    assert benchmark.is_validatable()
    env = await runtime.make("scripted-v0", benchmark=benchmark)
    await env.reset()
    assert (await env.validate()).benchmark_semantics_validated
    await env.step("increment")
    result = await env.validate(flakiness=2)
    assert (not result.wrong, result.error_details) == (False, "Too large")
    assert result.errors[0].data == {"value": 6, "attempts": 2}
    assert seen == [5, 6, 6]
    unasked = await env.validate(semantics=False)
    assert (unasked.okay(), unasked.wrong, unasked.verdict) == (False, False, "not run, because it was not to be run")
    assert await benchmark.validate(env) == [wrong("Too large", value=6)]


async def test_a_test_that_runs_out_of_time_is_tried_once_more_and_then_reported(runtime: aiocg.Runtime) -> None:
    benchmark, calls = scripted_benchmark(5), []

    async def slow(env: aiocg.Env) -> list[ValidationError]:
        calls.append(env)
        if len(calls) != 2:
            raise TimeoutError("too slow")
        return []

    benchmark.add_validation_callback(slow)
    env = await runtime.make("scripted-v0", benchmark=benchmark)
    await env.reset()
    assert (await env.validate()).okay()
    result = await env.validate(flakiness=5)
    assert (result.error_details, len(calls)) == ("Execution timeout", 4)


async def test_many_states_are_validated_in_order(runtime: aiocg.Runtime) -> None:
    states = [
        CompilerEnvState(environment="scripted-v0", benchmark=f"benchmark://scripted-v0/{n}", actions=(action,))
        for n in range(4)
        for action in ("increment", "refuse")
    ]
    results = [result async for result in validate_states(runtime, states, ordered=True)]
    assert [result.state for result in results] == states
    assert [not result.wrong for result in results] == [True, False] * 4
    unordered = [result async for result in validate_states(runtime, states)]
    assert sorted(unordered, key=lambda result: states.index(result.state)) == results


def test_a_benchmark_of_sources_can_be_compiled_with_more_flags() -> None:
    benchmark = Benchmark("benchmark://x-v0/1", lambda: b"plain", recompile=lambda flags: " ".join(flags).encode())
    variant = benchmark.recompiled(["-fsanitize=undefined"])
    assert variant is not None
    assert (benchmark.content, variant.content) == (b"plain", b"-fsanitize=undefined")
    assert Benchmark("benchmark://x-v0/1", lambda: b"plain").recompiled(["-g"]) is None
