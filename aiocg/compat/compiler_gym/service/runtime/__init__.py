"""Running a compiler of one's own as a service."""

from aiocg.compat.compiler_gym.service.runtime.create_and_run_compiler_gym_service import (
    create_and_run_compiler_gym_service,
)

__all__ = ["create_and_run_compiler_gym_service"]
