"""As examples/loop_tool_sweep.py: FLOPS of a loop nest with inner loops of several sizes."""

import compiler_gym
from compiler_gym.util.runfiles_path import create_user_logs_dir


def step(env, action):
    done = True
    while done:
        observation, reward, done, info = env.step(action)
        if done:
            print("failed:", info["error_details"])
            env.reset()
    return observation, reward, done, info


def flops_after(env, steps: int) -> float:
    step(env, [1] * (steps - 1))
    env.observation_space = "flops"
    observation, _, _, _ = step(env, 1)
    env.observation_space = None
    return observation


log = create_user_logs_dir("loop_tool_sweep") / "sweep.txt"
with compiler_gym.make("loop_tool-v0") as env, open(log, "w") as file:
    env.reset(benchmark=env.datasets.benchmark(uri="benchmark://loop_tool-cpu-v0/4096"), action_space="simple")
    for action in (3, 0, 1, 3, 0):
        step(env, action)
    inner = 1
    for steps in (7, 8, 16):
        flops = flops_after(env, steps)
        inner += steps
        print("cpu", 4096, inner, flops, sep=",")
        print("cpu", 4096, inner, flops, sep=",", file=file)
        assert flops > 0
