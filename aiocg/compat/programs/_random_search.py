"""Search at random for good actions.

python -m aiocg.compat -m compiler_gym.bin.random_search --env=<id> --benchmark=<name> [--runtime=<seconds>]
"""

import sys
from pathlib import Path

from absl.flags import FLAGS

from aiocg.compat.programs._flags import benchmark_from_flags, define, define_shared, env_from_flags, no_arguments, run
from aiocg.compat.programs._search import random_search

define_shared("benchmark_from_flags", "env_from_flags", "nproc", "output_dir")

define("boolean", "ls_reward", False, "List the reward spaces and exit.")
define("integer", "patience", 0, "End an episode after this many steps without improvement; 0: the number of actions.")
define("float", "runtime", None, "Duration of the search in seconds; by default until Ctrl-C.")
define("boolean", "skip_done", False, "Keep existing results.")
define("float", "fail_threshold", None, "Exit with status 1 if the best return is lower than this.")


def main(argv: list[str]) -> None:
    """Run the program."""
    no_arguments(FLAGS(argv))
    if FLAGS.ls_reward:
        with env_from_flags() as env:
            print("\n".join(sorted(env.reward.spaces)))
        return
    assert FLAGS.patience >= 0, "--patience must be >= 0"
    with env_from_flags() as env:  # to report a problem once, and not in each thread
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
