"""Flags that say which environment is made, and how."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiocg.compat.command_flags import FLAGS, UsageError, define

__all__ = ["connection_settings_from_flags", "env_from_flags", "env_session_from_flags"]

define("string", "env", None, "The id of the environment.")
define("string", "service", None, "The host and port of a running service, in place of one of this machine.")
define("string", "local_service_binary", None, "The path of a service of one's own.")
define("string", "observation", None, "The observation space, in place of the environment's default.")
define("string", "reward", None, "The reward space, in place of the environment's default.")
define("boolean", "ls_env", False, "Print the ids of the environments, and exit.")
define("float", "service_rpc_call_max_seconds", 300.0, "Seconds that a call of the compiler may take.")
define("float", "service_init_max_seconds", 10.0, "Seconds that starting it may take.")
define("integer", "service_init_max_attempts", 5, "How often starting it is tried.")
define("float", "local_service_port_init_max_seconds", 10.0, "Accepted for old command lines.")
define("float", "local_service_exit_max_seconds", 10.0, "Accepted for old command lines.")
define("float", "service_rpc_init_max_seconds", 3.0, "Accepted for old command lines.")


def connection_settings_from_flags(service_url: str | None = None, local_service_binary: Path | None = None) -> Any:
    """Return the `ConnectionOpts` that the flags say."""
    from aiocg.compat.compiler_gym.service import ConnectionOpts

    return ConnectionOpts(
        rpc_call_max_seconds=FLAGS.service_rpc_call_max_seconds,
        init_max_seconds=FLAGS.service_init_max_seconds,
        init_max_attempts=FLAGS.service_init_max_attempts,
        local_service_port_init_max_seconds=FLAGS.local_service_port_init_max_seconds,
        local_service_exit_max_seconds=FLAGS.local_service_exit_max_seconds,
        rpc_init_max_seconds=FLAGS.service_rpc_init_max_seconds,
    )


def env_from_flags(benchmark: Any = None) -> Any:
    """Make the environment that the flags name; `--ls_env` lists them and exits.

    Args:
        benchmark: the program, the environment's default if None.

    Raises:
        UsageError: when `--env` is not given.
    """
    from aiocg.compat.compiler_gym.envs import COMPILER_GYM_ENVS  # importing it registers them
    from aiocg.compat.compiler_gym.util.registration import make

    if FLAGS.ls_env:
        print("\n".join(sorted(COMPILER_GYM_ENVS)))
        sys.exit(0)
    if not FLAGS.env:
        raise UsageError("--env must be set")
    options = {"benchmark": benchmark, "connection_settings": connection_settings_from_flags()}
    if FLAGS.service:
        options["service"] = FLAGS.service
    elif FLAGS.local_service_binary:
        options["service"] = Path(FLAGS.local_service_binary)
    env = make(FLAGS.env, **options)
    if FLAGS.observation:
        env.observation_space = FLAGS.observation
    if FLAGS.reward:
        env.reward_space = FLAGS.reward
    return env


@contextlib.contextmanager
def env_session_from_flags(benchmark: Any = None) -> Iterator[Any]:
    """Return a context manager for the environment that the flags name, which is closed at the end."""
    with env_from_flags(benchmark) as env:
        yield env
