"""The client's half: what the environment is called, its reward, and a program to try it on."""

from aiocg import Benchmark, CostReward
from aiocg.registry import EnvironmentSpec, register

PROGRAM = "push 2\ndup\nmul\npush 0\nadd\npush 3\npush 4\nadd\npush 1\nmul\nmul\nprint\npush 9\npop\n"
BENCHMARK = Benchmark.from_file_contents("benchmark://peephole-v0/example", PROGRAM.encode())

register(
    EnvironmentSpec(
        id="peephole-v0",
        worker="peephole",
        description="peephole rules for a stack machine",
        benchmark=BENCHMARK,
        observation_space="Program",
        reward_space="Length",
        rewards=lambda: [CostReward("Length", "Length", description="decrease of the number of instructions")],
    )
)
