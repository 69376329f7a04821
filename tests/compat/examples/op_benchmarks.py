"""As examples/op_benchmarks.py: how long operations take, in processes that an executor starts."""

import logging
from math import ceil
from pathlib import Path
from typing import Annotated

import compiler_gym
import numpy as np
import typer
from compiler_gym.datasets import BenchmarkInitError
from compiler_gym.envs.compiler_env import CompilerEnv
from compiler_gym.util.executor import Executor
from compiler_gym.util.logging import init_logging
from compiler_gym.util.runfiles_path import create_user_logs_dir
from compiler_gym.util.timer import Timer

logger = logging.getLogger(__name__)


def programs(env: CompilerEnv, count: int) -> list[str]:
    dataset = env.datasets["programs-v0"]
    generator, found = np.random.default_rng(0xCC), set()
    while len(found) < count:
        benchmark = dataset.random_benchmark(generator)
        try:
            env.reset(benchmark=benchmark)
        except (BenchmarkInitError, ValueError, TimeoutError):
            continue
        found.add(benchmark.uri)
    return sorted(str(one) for one in found)


def measure(benchmark: str, path: Path, count: int) -> int:
    times = []
    with Timer() as timer, compiler_gym.make("llvm-autophase-ic-v0") as env:
        env.reset(benchmark=benchmark)
    times.append(("init", timer.time))
    with compiler_gym.make("llvm-autophase-ic-v0") as env:
        env.reset(benchmark=benchmark)
        env.seed(1)
        for _ in range(count):
            with Timer() as timer:
                env.step(env.action_space.sample())
            times.append(("step", timer.time))
        with Timer() as timer:
            env.multistep([env.action_space.sample() for _ in range(count)])
        times.append(("batch", timer.time / count))
        for name in ("Ir", "InstCount", "Programl", "ObjectTextSizeBytes"):
            with Timer() as timer:
                env.observation[name]
            times.append((name, timer.time))
        if env.observation.IsRunnable():
            env.runtime_observation_count = 1
            env.runtime_warmup_runs_count = 0
            assert len(env.observation["Runtime"]) == 1
    path.write_text("".join(f"{name} {time:.8f}\n" for name, time in times))
    return len(times)


def main(n: int = 4, j: int = 2, outdir: Annotated[Path | None, typer.Option()] = None) -> None:
    init_logging()
    folder = Path(outdir or create_user_logs_dir("op_benchmarks"))
    folder.mkdir(exist_ok=True, parents=True)
    with compiler_gym.make("llvm-v0") as env:
        assert sorted(env.datasets)
        chosen = programs(env, 2)
    executor = Executor(type="local", cpus=j, block=True)
    with executor.get_executor(logs_dir=folder) as session:
        jobs = [
            session.submit(measure, benchmark=name, path=folder / f"shard-{number}.txt", count=ceil(n))
            for number, name in enumerate(chosen)
        ]
        print(sum(job.result() for job in jobs), "measurements of", *chosen)
    print(len([line for path in folder.glob("shard-*.txt") for line in path.read_text().splitlines()]), "lines")


if __name__ == "__main__":
    typer.run(main)
