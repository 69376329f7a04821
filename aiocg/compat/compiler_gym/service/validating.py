"""Finding out whether a state can be reached again, with the reward that it says, and still works."""

import warnings
from math import isclose
from typing import Any

from aiocg.compat.compiler_gym.errors import ValidationError
from aiocg.compat.compiler_gym.util.timer import Timer
from aiocg.compat.compiler_gym.validation_result import ValidationResult

__all__ = ["validate"]


def validate(env: Any, state: Any = None) -> ValidationResult:
    """Validate a state in a fork of an environment, or the present one in the environment itself.

    Args:
        env: the environment.
        state: the state, the present one if None.
    """
    in_place = state is None
    if in_place:
        if not env.in_episode:
            env.reset()
        state = env.state
    else:
        env.reset(benchmark=state.benchmark)
    errors: list[ValidationError] = []
    found = {
        "actions_replay_failed": False,
        "reward_validated": False,
        "reward_validation_failed": False,
        "benchmark_semantics_validated": False,
        "benchmark_semantics_validation_failed": False,
    }
    fork = env.fork()
    try:
        with Timer() as walltime:
            target = env if in_place else fork
            target.reset(benchmark=env.benchmark)
            try:
                target.apply(state)
            except (ValueError, LookupError, OSError) as error:
                found["actions_replay_failed"] = True
                data = {"exception": str(error), "exception_type": type(error).__name__}
                errors.append(ValidationError(type="Action replay failed", data=data))
            else:
                errors += _reward_errors(env, target, state, found)
                errors += _semantics_errors(target, found)
    finally:
        fork.close()
    return ValidationResult(state=state, walltime=walltime.time, errors=errors, **found)


def _reward_errors(env: Any, target: Any, state: Any, found: dict[str, bool]) -> list[ValidationError]:
    if state.reward is None:
        return []
    if env.reward_space is None:
        warnings.warn("Validating state with reward, but environment has no reward space set", stacklevel=4)
        return []
    if not env.reward_space.deterministic:
        return []
    found["reward_validated"] = True
    actual = target.episode_reward
    if isclose(state.reward, actual, rel_tol=1e-5, abs_tol=1e-10):
        return []
    found["reward_validation_failed"] = True
    data = {"expected_reward": state.reward, "actual_reward": actual}
    return [ValidationError(type=f"Expected reward {state.reward} but received reward {actual}", data=data)]


def _semantics_errors(target: Any, found: dict[str, bool]) -> list[ValidationError]:
    benchmark = target.benchmark
    if not benchmark.is_validatable():
        return []
    found["benchmark_semantics_validated"] = True
    errors = list(benchmark.validate(target) or ())
    found["benchmark_semantics_validation_failed"] = bool(errors)
    return errors
