"""Validation of states: that they can be reached again, earn what they say, and leave the program what it was.

::

    result = await env.validate()
    if not result.okay():
        print(result.error_details)

    async for result in validate_states(runtime, states):
        print(result)

A state is applied again in a fresh session. Programs that can run are then built, run and compared with the unoptimised
program, by themselves and under LLVM's sanitizers. `aiocg.minimize` finds the actions that are to blame.
"""

from aiocg.validation.differential import Sanitizer
from aiocg.validation.errors import ErrorKind, ValidationError
from aiocg.validation.many import validate_states
from aiocg.validation.result import ValidationResult
from aiocg.validation.state import Options, rewards_agree, validate

__all__ = [
    "ErrorKind",
    "Options",
    "Sanitizer",
    "ValidationError",
    "ValidationResult",
    "rewards_agree",
    "validate",
    "validate_states",
]
