"""Apply the best actions that a random search found.

python -m aiocg.compat -m compiler_gym.bin.random_replay --env=<id> --output_dir=<folder of the search>
"""

from pathlib import Path

from absl.app import UsageError
from absl.flags import FLAGS

from aiocg.compat.programs._flags import benchmark_from_flags, define_shared, env_from_flags, no_arguments, run
from aiocg.compat.programs._search import METADATA, replay_actions_from_logs

define_shared("benchmark_from_flags", "env_from_flags", "output_dir")


def main(argv: list[str]) -> None:
    """Run the program."""
    no_arguments(FLAGS(argv))
    if not FLAGS.output_dir:
        raise UsageError("--output_dir must be set")
    folder = Path(FLAGS.output_dir).expanduser().resolve()
    if not (folder / METADATA).is_file():
        raise UsageError(f"Invalid --output_dir: {folder} has no {METADATA}")
    with env_from_flags() as env:
        replay_actions_from_logs(env, folder, benchmark=benchmark_from_flags())


if __name__ == "__main__":
    run(main)
