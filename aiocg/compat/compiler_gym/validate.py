"""Validating many states at a time."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
from aiocg.compat.compiler_gym.validation_result import ValidationResult

__all__ = ["validate_states"]


def validate_states(
    make_env: Callable[[], Any],
    states: Iterable[CompilerEnvState],
    nproc: int | None = None,
    inorder: bool = False,
) -> Iterator[ValidationResult]:
    """Validate states, several at once, and yield a result for each.

    Args:
        make_env: makes an environment; it is called for each state, in the thread that validates it.
        states: what to validate.
        nproc: how many are validated at the same time; as many as there are processors if None.
        inorder: yield the results in the order of the states, not as they come.
    """
    if nproc == 1:
        for state in states:
            yield _validate(make_env, state)
        return
    executor = ThreadPoolExecutor(nproc or os.cpu_count() or 1, "validate")
    try:
        futures = [executor.submit(_validate, make_env, state) for state in states]
        for future in futures if inorder else as_completed(futures):
            yield future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _validate(make_env: Callable[[], Any], state: CompilerEnvState) -> ValidationResult:
    with make_env() as env:
        result: ValidationResult = env.validate(state)
        return result
