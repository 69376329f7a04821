"""Apply the best actions that a random search has found.

python -m aiocg.compat -m compiler_gym.bin.random_replay --env=<id> --output_dir=<folder of the search>
"""

from pathlib import Path

import aiocg.compat.compiler_gym.util.flags.output_dir  # noqa: F401  its flag
from aiocg.compat.command_flags import FLAGS, UsageError, run
from aiocg.compat.compiler_gym.random_search import METADATA, replay_actions_from_logs
from aiocg.compat.compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from aiocg.compat.compiler_gym.util.flags.env_from_flags import env_from_flags

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Do what a command line says."""
    argv = FLAGS(argv)
    if len(argv) != 1:
        raise UsageError(f"Unknown command line arguments: {argv[1:]}")
    if not FLAGS.output_dir:
        raise UsageError("--output_dir must be set")
    folder = Path(FLAGS.output_dir).expanduser().resolve()
    if not (folder / METADATA).is_file():
        raise UsageError(f"Invalid --output_dir: {folder} has no {METADATA}")
    with env_from_flags() as env:
        replay_actions_from_logs(env, folder, benchmark=benchmark_from_flags())


if __name__ == "__main__":
    run(main)
