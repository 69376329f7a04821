"""The command-line flags that CompilerGym's programs have in common, and the objects that they describe."""

import contextlib
import logging
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import cpu_count
from pathlib import Path
from typing import Any

from absl import app, flags
from absl.flags import FLAGS

from aiocg.compat.datasets._benchmark import Benchmark
from aiocg.compat.envs._base import COMPILER_GYM_ENVS, make
from aiocg.compat.service._connection import ConnectionOpts

flags.disclaim_key_flags()  # flags belong to the module that calls `define`


def define(kind: str, name: str, default: Any, help: str) -> None:
    """Define a flag, unless one with that name exists."""
    if name not in FLAGS:
        getattr(flags, f"DEFINE_{kind}")(name, default, help)


def run(main: Callable[[list[str]], Any]) -> None:
    """Parse the command line of this process, call a function with the remaining arguments, and exit."""
    logging.getLogger("aiocg").propagate = False  # absl would print our logs, which nobody asked for
    app.run(main)


_GROUPS = tomllib.loads(Path(__file__).with_name("flags.toml").read_text("utf-8"))
_COMPUTED = {"nproc": cpu_count()}  # defaults that depend on the machine


def define_shared(*names: str) -> None:
    """Define the flags of these modules of `compiler_gym.util.flags`, as importing them does."""
    for name in names:
        for flag, one in _GROUPS[name].items():
            define(one["kind"], flag, one.get("default", _COMPUTED.get(flag)), one["help"])


imported_as = define_shared  # called by the finder


def no_arguments(argv: Sequence[str]) -> None:
    """Refuse a command line with positional arguments."""
    if len(argv) != 1:
        raise app.UsageError(f"Unknown command line arguments: {argv[1:]}")


def benchmark_from_flags() -> Benchmark | str | None:
    """Return the value of `--benchmark`: a URI, a benchmark for a file, or None if the flag is not given."""
    given = FLAGS.benchmark
    if not given or not given.startswith("file:///"):
        return given or None
    path = Path(given.removeprefix("file:///"))
    if not path.is_file():
        path = Path("/", path)
    return Benchmark.from_file(uri=f"benchmark://user-v0/{path}", path=path)


def env_from_flags(benchmark: Any = None) -> Any:
    """Make the environment that the flags describe; `--ls_env` lists the ids and exits."""
    if FLAGS.ls_env:
        print("\n".join(sorted(COMPILER_GYM_ENVS)))
        sys.exit(0)
    if not FLAGS.env:
        raise app.UsageError("--env must be set")
    settings = ConnectionOpts(
        rpc_call_max_seconds=FLAGS.service_rpc_call_max_seconds,
        init_max_seconds=FLAGS.service_init_max_seconds,
        init_max_attempts=FLAGS.service_init_max_attempts,
        local_service_exit_max_seconds=FLAGS.local_service_exit_max_seconds,
    )
    options = {"benchmark": benchmark, "connection_settings": settings}
    if FLAGS.service or FLAGS.local_service_binary:
        options["service"] = FLAGS.service or Path(FLAGS.local_service_binary)
    env = make(FLAGS.env, **options)
    if FLAGS.observation:
        env.observation_space = FLAGS.observation
    if FLAGS.reward:
        env.reward_space = FLAGS.reward
    return env


@contextlib.contextmanager
def env_session_from_flags(benchmark: Any = None) -> Iterator[Any]:
    """Make the environment that the flags describe, and close it at the end of the block."""
    with env_from_flags(benchmark) as env:
        yield env
