"""Try actions interactively in aiocg's shell, which has the commands of CompilerGym's.

python -m aiocg.compat -m compiler_gym.bin.manual_env --env=<id> [--benchmark=<name>] [--observation=<name>]
    [--reward=<name>]
"""

import sys

from absl.app import UsageError
from absl.flags import FLAGS

from aiocg.compat.datasets._dataset import Datasets
from aiocg.compat.programs._flags import benchmark_from_flags, define, define_shared, env_from_flags, no_arguments, run

define_shared("benchmark_from_flags", "env_from_flags")

define("string", "action_space", None, "The action space; by default CompilerGym's flags.")


def main(argv: list[str]) -> None:
    """Run the program."""
    no_arguments(FLAGS(argv))
    if FLAGS.ls_env:
        env_from_flags()
    if not FLAGS.env:
        raise UsageError("--env must be set")
    sys.exit(_shell())


def _shell() -> int:
    from aiocg.cli.output import run as run_on_loop
    from aiocg.cli.shell.start import run_shell
    from aiocg.compat.datasets._published import get_llvm_datasets
    from aiocg.compat.datasets._stand_ins import default_benchmark

    named = benchmark_from_flags()
    benchmark: str | None = FLAGS.benchmark
    if isinstance(named, str):
        benchmark = str(Datasets(get_llvm_datasets()).benchmark(named).uri)
    elif benchmark is None and FLAGS.env.startswith("llvm-"):
        benchmark = default_benchmark()
    shell = run_shell(
        FLAGS.env,
        benchmark=benchmark,
        observation_space=FLAGS.observation,
        reward_space=FLAGS.reward,
        action_space=FLAGS.action_space or ("PassesLegacy124" if FLAGS.env.startswith("llvm-") else None),
    )
    return run_on_loop(shell)


if __name__ == "__main__":
    run(main)
