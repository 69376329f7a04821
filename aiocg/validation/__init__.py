"""Validation of states: reproducibility, rewards, and the behaviour of the program.

::

    result = await env.validate()
    print(result.okay(), result.verdict, result.error_details)

    async for result in validate_states(runtime, states):
        print(result)

A state is replayed in a fresh session. Runnable programs are then built, run and compared with the program as it came
and at the compiler's own levels, also under LLVM's sanitizers; there are five outcomes (`Behaviour`).
`aiocg.validation.minimize` finds the actions to blame.
"""

from aiocg.states.behaviour import Behaviour
from aiocg.states.result import ErrorKind, ValidationError, ValidationResult
from aiocg.validation._differential import Sanitizer
from aiocg.validation.state import Options, rewards_agree, validate, validate_states

__all__ = [
    "Behaviour",
    "ErrorKind",
    "Options",
    "Sanitizer",
    "ValidationError",
    "ValidationResult",
    "rewards_agree",
    "validate",
    "validate_states",
]
