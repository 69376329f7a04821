"""As examples/random_walk.py: a walk, its rewards, and which of its actions changed anything."""

import hashlib
import random

import humanize
from absl import app, flags
from compiler_gym.envs import CompilerEnv
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.util.shell_format import emph
from compiler_gym.util.timer import Timer

flags.DEFINE_integer("step_min", 12, "At least so many steps.")
flags.DEFINE_integer("step_max", 256, "At most so many steps.")
FLAGS = flags.FLAGS


def walk(env: CompilerEnv, steps: int) -> None:
    def state() -> str:
        return hashlib.sha1(env.ir.encode()).hexdigest()

    rewards, effective = [], []
    with Timer() as whole:
        env.reset()
        before = state()
        for number in range(1, steps + 1):
            action = env.action_space.sample()
            with Timer() as timer:
                observation, reward, done, info = env.step(action)
            name = env.action_space.names[action]
            print(f"{humanize.intcomma(number)}. {name}: {reward}, {timer}, {not info.get('action_had_no_effect')}")
            if env.observation_space:
                print(observation)
            rewards.append(reward)
            if (after := state()) != before:
                effective.append(name)
            before = after
            if done:
                break
    env.close()
    print(f"{emph(humanize.intcomma(len(rewards)))} steps in {whole}, {len(rewards) / whole.time:.1f} a second")
    print(f"sum {sum(rewards)}, most {max(rewards)} at {rewards.index(max(rewards)) + 1}: {', '.join(effective)}")


def main(argv: list[str]) -> None:
    assert len(argv) == 1
    env = env_from_flags(benchmark_from_flags())
    walk(env, random.randint(FLAGS.step_min, FLAGS.step_max))


if __name__ == "__main__":
    app.run(main)
