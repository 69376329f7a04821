"""As examples/getting-started.ipynb, cell by cell."""

from pathlib import Path

import compiler_gym
import gym

assert compiler_gym.__version__
assert "llvm-autophase-ic-v0" in compiler_gym.COMPILER_GYM_ENVS
env = gym.make("llvm-autophase-ic-v0")
assert env.step.__doc__
print(env.action_space.dtype, env.action_space.n)
print(env.observation_space.shape, env.observation_space_spec.space.dtype, env.reward_range)
print(env.reset(), env.benchmark)
env.reset(benchmark="benchmark://programs-v0/qsort")
env.render()
observation, reward, done, info = env.step(0)
print(observation, reward, done, info)
env.reset(benchmark="benchmark://programs-v0/qsort")
episode_reward = 0
for i in range(1, 101):
    observation, reward, done, info = env.step(env.action_space.sample())
    if done:
        break
    episode_reward += reward
    print(f"Step {i}, quality={episode_reward:.2%}")
print(env.commandline())
env.write_bitcode("program.bc")
assert Path("program.bc").stat().st_size
env.close()
