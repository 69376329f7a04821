"""As examples/tabular_q.py: a table of values of states, which are a few features of Autophase."""

import random

import compiler_gym.util.flags.episodes
import compiler_gym.util.flags.learning_rate  # noqa: F401, it defines a flag
from absl import app, flags
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.util.timer import Timer

flags.DEFINE_list("tabular_q_actions", ["-sroa", "-mem2reg", "-newgvn"], "The actions.")
flags.DEFINE_list("features_indices", [19, 22, 51], "Features of Autophase that make a state.")
flags.DEFINE_integer("episode_length", 3, "Steps of each episode.")
FLAGS = flags.FLAGS


def main(argv: list[str]) -> None:
    FLAGS.observation, FLAGS.reward, FLAGS.env = "Autophase", "IrInstructionCount", "llvm-v0"
    table: dict[tuple[tuple[int, ...], str], float] = {}

    def greedy(state: tuple[int, ...]) -> str:
        return max(FLAGS.tabular_q_actions, key=lambda action: table.get((state, action), 0))

    def state_of(observation) -> tuple[int, ...]:
        return tuple(observation[[int(index) for index in FLAGS.features_indices]])

    with Timer("learning") as timer, env_from_flags(benchmark_from_flags()) as env:
        for episode in range(FLAGS.episodes + 1):
            state, total = state_of(env.reset()), 0.0
            for _ in range(FLAGS.episode_length):
                explores = episode < FLAGS.episodes and random.random() < 0.2
                action = random.choice(FLAGS.tabular_q_actions) if explores else greedy(state)
                observation, reward, _, _ = env.step(env.action_space.flags.index(action))
                after = state_of(observation)
                target = reward + 0.99 * table.get((after, greedy(after)), 0)
                old = table.get((state, action), 0)
                table[state, action] = old + FLAGS.learning_rate * (target - old)
                state, total = after, total + reward
    print(f"{len(table)} values in {timer}; the last episode earned {total}")


if __name__ == "__main__":
    app.run(main)
