"""Try actions by hand: aiocg's shell, which has the commands of CompilerGym's.

python -m aiocg.compat -m compiler_gym.bin.manual_env --env=<id> [--benchmark=<name>] [--observation=<name>]
    [--reward=<name>]
"""

import sys

from aiocg.compat.command_flags import FLAGS, UsageError, define, run
from aiocg.compat.compiler_gym.datasets import Datasets
from aiocg.compat.compiler_gym.util.flags import benchmark_from_flags, env_from_flags

__all__ = ["main"]

define("string", "action_space", None, "The action space, in place of CompilerGym's flags.")


def main(argv: list[str]) -> None:
    """Do what a command line says."""
    argv = FLAGS(argv)
    if len(argv) != 1:
        raise UsageError(f"Unknown command line arguments: {argv[1:]}")
    if FLAGS.ls_env:
        env_from_flags.env_from_flags()
    if not FLAGS.env:
        raise UsageError("--env must be set")
    sys.exit(_shell())


def _shell() -> int:
    from aiocg.cli.loop import run as run_on_loop
    from aiocg.compat.compiler_gym.datasets.llvm import llvm_datasets
    from aiocg.compat.compiler_gym.datasets.stand_ins import default_benchmark
    from aiocg.shell import ShellOptions, run_shell

    named = benchmark_from_flags.benchmark_from_flags()
    benchmark: str | None = FLAGS.benchmark
    if isinstance(named, str):
        benchmark = str(Datasets(llvm_datasets()).benchmark(named).uri)
    elif benchmark is None and FLAGS.env.startswith("llvm-"):
        benchmark = default_benchmark()
    options = ShellOptions(
        environment=FLAGS.env,
        benchmark=benchmark,
        observation_space=FLAGS.observation,
        reward_space=FLAGS.reward,
        action_space=FLAGS.action_space or ("PassesLegacy124" if FLAGS.env.startswith("llvm-") else None),
    )
    return run_on_loop(run_shell(options))


if __name__ == "__main__":
    run(main)
