"""Learn to schedule products of matrices by REINFORCE: a policy looks at each loop, and only at steps that are legal.

Needs: pip install 'aiocg[loops]' torch
Run it: python examples/rl_loops.py --updates 20
"""

import argparse
import asyncio
import math
import re

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import aiocg
from aiocg.errors import ResetNeeded, ServiceError

SIZES, UNSEEN, STEPS, BATCH = (32, 48, 64, 96), (40, 80, 112), 6, 8
BENCHMARK = "generator://loops-v0/matmul?m={}&n={}&k={}"


class Net(nn.Module):
    """Scores each kind of step for each loop by the loop's features and the mean of all, and last, to stop."""

    def __init__(self, texts: list[str], features: int) -> None:
        super().__init__()
        parts = [re.fullmatch(r"(.*)loop=(\d+)(.*)", text).groups() for text in texts]  # split< 3 ;factor=8>
        names = sorted({(head, tail) for head, _, tail in parts})
        self.loops = torch.tensor([int(loop) for _, loop, _ in parts])
        self.kinds = torch.tensor([names.index((head, tail)) for head, _, tail in parts])
        self.steps = nn.Sequential(nn.Linear(2 * features, 64), nn.Tanh(), nn.Linear(64, len(names)))
        self.stop = nn.Linear(features, 1)

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> Categorical:
        """Return the distribution over the steps that a mask allows, and to stop."""
        mean = rows.sum(0) / rows[:, 0].sum()
        scores = self.steps(torch.cat([rows, mean.expand_as(rows)], 1))[self.loops, self.kinds]
        return Categorical(logits=torch.cat([scores.masked_fill(~mask, -1e9), self.stop(mean)]))


async def episode(env: aiocg.Env, uri: str, net: Net, texts: list[str]) -> tuple[torch.Tensor, float]:
    """Schedule a program; return the logarithms of the choices' probabilities, and of how many times faster it is."""
    await env.reset(benchmark=uri)
    before, chosen = await env.observe("flops"), list[torch.Tensor]()
    while len(chosen) < STEPS:
        rows, mask = await env.observe("features", "action_mask")
        choices = net(torch.tensor(rows / 8), torch.tensor(np.asarray(mask, bool)))
        action = choices.sample()
        chosen.append(choices.log_prob(action))
        if action == len(texts):
            break
        _, _, over, _, _ = await env.step_texts([texts[action]], observation_spaces=[])  # nothing is compiled yet
        if over:  # it would take too much code
            return torch.stack(chosen).sum(), -1.0
    try:
        return torch.stack(chosen).sum(), math.log(await env.observe("flops") / before)
    except (ServiceError, ResetNeeded):  # it would take too much code, or the compiler too long
        return torch.stack(chosen).sum(), -1.0


async def main(updates: int, seed: int) -> None:
    """Learn, and tell how many times faster unseen programs become, before and after."""
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    async with aiocg.Runtime(workers=1) as runtime, await runtime.make("loops-v0?threads=1") as env:
        env.action_space = "steps"
        await env.reset(benchmark=BENCHMARK.format(8, 8, 8))
        await env.send_parameter("seconds", "0.01")  # of a measurement
        texts = list(env.action_space)
        net = Net(texts, (await env.observe("features")).shape[1])
        optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
        for update in range(updates + 1):
            if update in (0, updates):
                gains = [(await episode(env, BENCHMARK.format(n, n, n), net, texts))[1] for n in UNSEEN * 4]
                print(f"after {update} updates unseen sizes are {math.exp(np.mean(gains)):.2f} times faster")
            played = [await episode(env, BENCHMARK.format(*draw.choice(SIZES, 3)), net, texts) for _ in range(BATCH)]
            chosen, gains = torch.stack([one for one, _ in played]), torch.tensor([gain for _, gain in played])
            optimiser.zero_grad()
            (-chosen * (gains - gains.mean()) / (gains.std() + 1e-6)).mean().backward()
            optimiser.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(main(**vars(parser.parse_args())))
