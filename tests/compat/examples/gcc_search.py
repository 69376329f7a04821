"""As examples/gcc_search.py and gcc_autotuning: options at random, by climbing, and by processes of an executor."""

import random
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import compiler_gym
import compiler_gym.util.flags.nproc
import compiler_gym.util.flags.output_dir
import compiler_gym.util.flags.seed
from absl import app, flags
from compiler_gym.envs import CompilerEnv
from compiler_gym.envs.gcc import DEFAULT_GCC, GccEnv
from compiler_gym.service import ServiceError
from compiler_gym.util.executor import Executor
from compiler_gym.util.runfiles_path import create_user_logs_dir
from compiler_gym.util.statistics import geometric_mean

flags.DEFINE_string("gcc_bin", DEFAULT_GCC, "The compiler.")
flags.DEFINE_integer("budget", 3, "Compilations of each search.", lower_bound=1)
flags.DEFINE_enum("objective", "obj_size", ["asm_size", "obj_size"], "What is to be small.")
FLAGS = flags.FLAGS
BENCHMARK = "programs-v0/gcd"


class Found(NamedTuple):
    search: str
    best: int
    baseline: int


def objective(env: CompilerEnv, name: str) -> int:
    for _ in range(3):
        try:
            return env.observation[name]
        except ServiceError as error:  # options that do not go together
            print("failed:", str(error)[:100])
            env.reset()
    return env.observation[name]


def at_random(env: GccEnv, budget: int, name: str) -> int:
    sizes = []
    for _ in range(budget):
        env.reset()
        choices = [-1] * len(env.gcc_spec.options)
        for place in random.sample(range(len(choices)), 5):
            choices[place] = random.randint(-1, min(256, len(env.gcc_spec.options[place]) - 1))
        env.choices = choices
        sizes.append(objective(env, name))
    return min(sizes)


def climb(env: GccEnv, budget: int, name: str) -> int:
    best = objective(env, name)
    for _ in range(budget):
        with env.fork() as fork:
            choices = list(env.choices)
            place = random.randrange(len(choices))
            choices[place] = min(len(env.gcc_spec.options[place]) - 1, choices[place] + 1)
            fork.choices = choices
            if (size := objective(fork, name)) < best:
                best = size
                env.choices = fork.choices
    return best


def walk(env: GccEnv, budget: int, name: str) -> int:
    for _ in range(budget):
        env.step(env.action_space.sample())
    return objective(env, name)


SEARCHES = {"random": at_random, "hillclimb": climb, "walk": walk}


def run(search: str, gcc: str, budget: int, name: str, seed: int) -> Found:
    random.seed(seed)
    with compiler_gym.make("gcc-v0", gcc_bin=gcc) as env:
        env.timeout = 60
        env.reset(benchmark=BENCHMARK)
        env.step(env.action_space.names.index("-Os"))
        env.step(env.action_space["-Os"])
        baseline = objective(env, name)
        env.reset(benchmark=BENCHMARK)
        return Found(search, SEARCHES[search](env, budget, name), baseline)


def main(argv: list[str]) -> None:
    with compiler_gym.make("gcc-v0", gcc_bin=FLAGS.gcc_bin) as env:
        env.reset(benchmark=BENCHMARK)
        assert all(dataset.name for dataset in env.datasets)
        print(*islice(env.datasets["programs-v0"].benchmark_uris(), 3))
        print(len(env.gcc_spec.options), "options")
    folder = Path(FLAGS.output_dir) if FLAGS.output_dir else create_user_logs_dir("gcc_autotuning")
    folder.mkdir(exist_ok=True, parents=True)
    executor = Executor(type="local", timeout_hours=12, cpus=FLAGS.nproc, block=True)
    with executor.get_executor(logs_dir=folder) as session:
        jobs = [
            session.submit(
                run,
                search=search,
                gcc=FLAGS.gcc_bin,
                budget=FLAGS.budget,
                name=FLAGS.objective,
                seed=FLAGS.seed + number,
            )
            for number, search in enumerate(SEARCHES)
        ]
        found = [job.result() for job in jobs]
    for one in found:
        print(one)
    print("geomean", geometric_mean([one.baseline / one.best for one in found]))


if __name__ == "__main__":
    app.run(main)
