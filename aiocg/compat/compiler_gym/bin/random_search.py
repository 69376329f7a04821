"""Search at random for good actions.

python -m aiocg.compat -m compiler_gym.bin.random_search --env=<id> --benchmark=<name> [--runtime=<seconds>]
"""

import sys
from pathlib import Path

import aiocg.compat.compiler_gym.util.flags.nproc
import aiocg.compat.compiler_gym.util.flags.output_dir  # noqa: F401  its flag
from aiocg.compat.command_flags import FLAGS, UsageError, define, run
from aiocg.compat.compiler_gym.random_search import random_search
from aiocg.compat.compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from aiocg.compat.compiler_gym.util.flags.env_from_flags import env_from_flags

__all__ = ["main"]

define("boolean", "ls_reward", False, "List the reward spaces, and exit.")
define(
    "integer",
    "patience",
    0,
    "Steps without a better return before an episode is given up; as many as there are actions if 0.",
)
define("float", "runtime", None, "Seconds that the search takes; it goes on until Ctrl-C if this is not given.")
define("boolean", "skip_done", False, "Keep the results that there are.")
define("float", "fail_threshold", None, "Exit with status 1 if the return is less than this.")


def main(argv: list[str]) -> None:
    """Do what a command line says."""
    argv = FLAGS(argv)
    if len(argv) != 1:
        raise UsageError(f"Unknown command line arguments: {argv[1:]}")
    if FLAGS.ls_reward:
        with env_from_flags() as env:
            print("\n".join(sorted(env.reward.spaces)))
        return
    assert FLAGS.patience >= 0, "--patience must be >= 0"
    with env_from_flags() as env:  # what is wrong shows here, once, and not in each thread
        env.reset(benchmark=benchmark_from_flags())
    env = random_search(
        make_env=lambda: env_from_flags(benchmark=benchmark_from_flags()),
        outdir=Path(FLAGS.output_dir) if FLAGS.output_dir else None,
        patience=FLAGS.patience,
        total_runtime=FLAGS.runtime,
        nproc=FLAGS.nproc,
        skip_done=FLAGS.skip_done,
    )
    with env:
        reached = env.episode_reward
    if FLAGS.fail_threshold is not None and reached < FLAGS.fail_threshold:
        print(f"Best reward {reached:.3f} below threshold of {FLAGS.fail_threshold}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run(main)
