"""As examples/actor_critic.py, with a table of preferences in place of its network."""

import random

import compiler_gym
import compiler_gym.util.flags.episodes
import compiler_gym.util.flags.learning_rate
import compiler_gym.util.flags.seed  # noqa: F401, it defines a flag
import gym
import numpy as np
from absl import app, flags
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.wrappers import ConstrainedCommandline, TimeLimit

flags.DEFINE_list("flags", ["-gvn", "-instcombine", "-mem2reg", "-reg2mem", "-simplifycfg", "-sroa"], "The actions.")
flags.DEFINE_integer("episode_len", 3, "Steps of an episode.")
FLAGS = flags.FLAGS


class HistoryObservation(gym.ObservationWrapper):
    """Observes the actions so far, one-hot."""

    def __init__(self, env) -> None:
        super().__init__(env=env)
        shape = (FLAGS.episode_len, len(FLAGS.flags))
        self.observation_space = gym.spaces.Box(low=np.zeros(shape, np.float32), high=np.ones(shape, np.float32))

    def reset(self, *args, **kwargs):
        self.taken = 0
        self.history = np.zeros((FLAGS.episode_len, self.action_space.n), np.float32)
        return super().reset(*args, **kwargs)

    def step(self, action: int):
        self.history[self.taken, action] = 1
        self.taken += 1
        return super().step(action)

    def observation(self, observation):
        return self.history


def main(argv: list[str]) -> None:
    FLAGS.env = "llvm-v0"
    FLAGS.reward = FLAGS.reward or "IrInstructionCountOz"
    random.seed(FLAGS.seed)
    env = env_from_flags(benchmark=benchmark_from_flags())
    env = HistoryObservation(TimeLimit(ConstrainedCommandline(env, flags=FLAGS.flags), FLAGS.episode_len))
    with env:
        preferences = np.zeros((FLAGS.episode_len, env.action_space.n))
        for episode in range(FLAGS.episodes):
            observation, done, actions, total = env.reset(), False, [], 0.0
            while not done:
                assert env.observation_space.contains(observation)
                weights = np.exp(preferences[len(actions)])
                actions.append(random.choices(range(env.action_space.n), weights)[0])
                observation, reward, done, _ = env.step(actions[-1])
                total += reward
            for place, action in enumerate(actions):
                preferences[place, action] += FLAGS.learning_rate * total
            print(f"Episode {episode + 1}: {total:.3f} by {env.action_space.to_string(actions)}")
        print(f"Benchmark: {FLAGS.benchmark}, action space: {env.action_space}")


if __name__ == "__main__":
    app.run(main)
