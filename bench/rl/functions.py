"""Train the policy for single functions, and judge it by programs that it has not seen.

    python -m bench.rl.functions collect data.npz --programs 400
    python -m bench.rl.functions train data.npz functions.npz
    python -m bench.rl.functions measure functions.npz    # and keep what was found in the file

`collect` runs every sequence of `functionwise`'s core set, or of a file, on every function of training programs, at
each base: what each leads to is known, so nothing is explored. The policy is trained on the mean of what a choice by
its probabilities would cost, as a part of the program: the gradient of a contextual bandit, without its noise.
"""

import argparse
import asyncio
import math
import os
import random
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import aiocg
import aiocg.telemetry
from aiocg.datasets import default_datasets
from aiocg.errors import AiocgError
from aiocg.policies import Features, Policy, PolicyFacts
from aiocg.policies.features import COUNTED, FUNCTION
from aiocg.rl.ppo import pytorch
from aiocg.rl.programs import hash_of
from aiocg.search import _functionwise as functionwise
from aiocg.search._functionwise import core, costs_of, sequences_in
from aiocg.search._policy import COSTS, FunctionSearcher, Site, sites_of
from aiocg.search._population import Passes
from aiocg.search.lanes import spread
from aiocg.search.metrics import mean_of_ratios
from bench.core_set import LARGEST, SMALLEST, training_programs
from bench.processes import processor_seconds

PLANS = {  # what comes before the choices, and what comes after them
    functionwise.ARGUMENTS: ("default<Oz>", *functionwise.MERGING),
    (*functionwise.inlined(-10), *functionwise.oz(0)): ("default<Oz>", *functionwise.MERGING),
    functionwise.oz(-10): functionwise.MERGING,
    (*functionwise.inlined(100), *functionwise.oz(0)): functionwise.MERGING,
}
TESTED = range(1_000_000, 1_000_042)  # seeds of aiocg-v0 that the leaderboard has
CHUNK = 8  # proposals in one message
SOURCES = ("sdist-v0", "aiocg-v0")
STRONGER, SIZE, BYTES = "IrInstructionCountOzMinsize", "IrInstructionCount", "ObjectImageSizeMinsizeBytes"
CLANG_OZ = ("mark<minsize>", "clang<Oz>")
HIDDEN, EPOCHS, RATE, DECAY, ENTROPY, DROPPED = 64, 60, 2e-3, 1e-3, 0.002, 0.1
HELD_BACK = 8  # every eighth program judges the epochs
EVALUATIONS = (3, 6, 12)
FEW = 8  # evaluations for bytes
SEEN = (SIZE, COSTS)


# ------------------------------------------------------------------------------------------------- collect


async def collect(sequences: Sequence[Passes], count: int, seed: int, workers: int) -> dict[str, Any]:
    """Return what sequences make of the functions of training programs: a row for each function."""
    tested = {f"generator://aiocg-v0/{number}" for number in TESTED}
    waiting = iter([uri for uri in training_programs(seed) if uri not in tested])
    done: dict[str, list[tuple[Any, Any]]] = {}
    async with aiocg.Runtime(workers=workers) as runtime:
        compiler = (env := await runtime.make("llvm-v0")).compiler_version
        await env.close()

        async def work() -> None:
            env = await runtime.make("llvm-v0")
            for uri in waiting:
                if len(done) >= count:
                    return
                try:
                    await env.reset(benchmark=uri)
                    if SMALLEST <= await env.observe(SIZE) <= LARGEST:
                        done[uri] = [await outcomes(env, base, sequences) for base in PLANS]
                except AiocgError:
                    continue

        await spread([work] * (2 * workers))
    rows = [(number, *part) for number, uri in enumerate(done) for part in done[uri] if len(part[0])]
    return {
        "uris": np.array(list(done)),
        "compiler": np.array(compiler),
        "sequences": np.array([",".join(passes) for passes in sequences]),
        "program": np.concatenate([np.full(len(counts), number) for number, counts, _ in rows]),
        "counts": np.concatenate([counts for _, counts, _ in rows]).astype(np.float32),
        "costs": np.concatenate([costs for *_, costs in rows]).astype(np.float32),
    }


async def outcomes(env: aiocg.Env, base: Sequence[str], sequences: Sequence[Passes]) -> tuple[Any, Any]:
    """Return what IR2Vec counts in each function at a base, and its cost after each sequence and, last, as it is."""
    async with await env.fork() as child:
        await child.apply(base, observation_spaces=[])
        names, costs, counted = await child.observe("Functions", COSTS, COUNTED)
        columns = []
        for start in range(0, len(sequences), CHUNK):
            proposals = [dict.fromkeys(names, passes) for passes in sequences[start : start + CHUNK]]
            for found, _ in await costs_of(child, list(names), COSTS, proposals):
                columns.append([found.get(name, float(cost)) for name, cost in zip(names, costs, strict=True)])
    return counted["counts"], np.array([*columns, costs]).T


# --------------------------------------------------------------------------------------------------- train


def train(data: dict[str, Any], seed: int) -> Policy:
    """Return the policy that, of all epochs, costs least on the programs that are held back."""
    torch = pytorch()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    features = Features(data["costs"].shape[1] - 1, FUNCTION)
    program, costs = data["program"], torch.tensor(data["costs"])
    totals = torch.tensor(np.bincount(program, data["costs"][:, -1], len(data["uris"])), dtype=torch.float32)
    inputs, parts = torch.tensor(features.of_functions(data["counts"])), costs / totals[program].clamp(min=1)[:, None]
    lost = parts - parts.min(1, keepdim=True).values
    lost /= lost.max(1).values.mean()
    judges = torch.tensor(program % HELD_BACK == 0)
    learned = torch.nonzero(~judges)[:, 0]
    layers = [torch.nn.Linear(features.size, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)]
    middle = [part for layer in layers for part in (layer, torch.nn.ReLU(), torch.nn.Dropout(DROPPED))]
    network = torch.nn.Sequential(*middle, torch.nn.Linear(HIDDEN, costs.shape[1]))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    best, kept = math.inf, network.state_dict()
    for _ in range(EPOCHS):
        network.train()
        for batch in learned[torch.randperm(len(learned))].split(256):
            likely = network(inputs[batch]).softmax(1)
            entropy = -(likely * likely.clamp(min=1e-9).log()).sum(1).mean()
            loss = (likely * lost[batch]).sum(1).mean() - ENTROPY * entropy
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        network.eval()
        with torch.no_grad():
            found = lost[judges].gather(1, network(inputs[judges]).argmax(1, keepdim=True)).mean().item()
        if found < best:
            best, kept = found, {name: value.clone() for name, value in network.state_dict().items()}
    alike = lost[judges][:, lost[learned].mean(0).argmin()].mean().item()
    print(f"{len(costs)} functions; lost of what can be gained, on others: {best:.3f}, the same for all: {alike:.3f}")
    network.load_state_dict(kept)
    facts = PolicyFacts(
        compiler=str(data["compiler"]),
        actions=tuple(map(str, data["sequences"])),
        parts=FUNCTION,
        activation="relu",
        steps=1,
        bases=tuple(PLANS),
        endings=tuple(PLANS.values()),
        starts=("OzMinsize",),
        programs=len(data["uris"]),
        uris=tuple(sorted(map(str, data["uris"]))),
        programs_hash=hash_of(map(str, data["uris"])),
        sources=SOURCES,
        seed=seed,
        episodes=len(costs),
    )
    linear = [one for one in network if isinstance(one, torch.nn.Linear)]
    return Policy(facts, [(one.weight.detach().numpy().T, one.bias.detach().numpy()) for one in linear])


# ------------------------------------------------------------------------------------------------- measure


def suites() -> dict[str, list[str]]:
    """Return programs that nothing was trained on."""
    datasets = default_datasets()
    files = datasets["sdist-v0"].split(seed=0)["test"].shuffled(0)[:120]
    return {
        "programs-v0": [str(uri) for uri in datasets["programs-v0"].benchmark_uris()],
        "aiocg-v0": [f"generator://aiocg-v0/{4_000_000_000 + number}" for number in range(50)],
        "csmith-v0": [f"generator://csmith-v0/{number}" for number in range(50)],
        "sdist-v0": [str(uri) for uri in files.benchmark_uris()],
    }


async def measure(policy: Policy, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Print how many times smaller than after the stronger -Oz programs become, and return it."""
    scores: dict[str, dict[str, float]] = {}
    async with aiocg.Runtime(workers=1, options={"transition_cache_bytes": 0}) as runtime:
        env = await runtime.make("llvm-v0", reward_space=STRONGER)
        for name, uris in suites().items():
            if name not in names:
                continue
            rows, seconds = [], []
            for uri in uris:
                try:
                    await env.reset(benchmark=uri)
                    start, strong = await env.observe(SIZE, STRONGER)
                    if not SMALLEST <= start <= LARGEST or not strong:
                        continue
                    row, took = await judged(env, policy, strong, [os.getpid(), *runtime.worker_pids()])
                except AiocgError as error:
                    print(f"{uri}: {error}")
                    continue
                rows.append(row)
                seconds.append(took)
            print(
                f"{name}: {len(rows)} programs, {statistics.median(seconds):.3f} s of the processor (median)",
                flush=True,
            )
            found = scores[f"{len(rows)} of {name}"] = {}
            for what in rows[0]:
                ratio = mean_of_ratios([math.log(row[what]) for row in rows])
                found[what] = ratio.mean
                print(f"  {what:32} {ratio.mean:.4f} ({ratio.low:.4f} to {ratio.high:.4f})", flush=True)
    return scores


async def judged(env: aiocg.Env, policy: Policy, strong: float, pids: Sequence[int]) -> tuple[dict[str, float], float]:
    """Return how many times smaller a program becomes, in several ways, and the processor seconds of the first."""
    begun = processor_seconds(pids)
    sites = await sites_of(env, policy)
    row = {"what it prefers": strong / max(await _least(env, policy, sites, SIZE), 1)}
    took = processor_seconds(pids) - begun
    (clangs,) = await env.expand_texts([CLANG_OZ], observation_spaces=[BYTES], reward_spaces=[])
    row["what it prefers, bytes"] = float(clangs.observation[0]) / max(await _least(env, policy, sites, BYTES), 1)
    row |= await _for_bytes(env, policy, float(clangs.observation[0]))
    draw, numbers = random.Random(0), range(len(policy.facts.actions))
    ways = {
        "policy": [site.orders for site in sites],
        "the first of the core set": [((0,),) * len(site.names) for site in sites],
        "drawn": [tuple(tuple(draw.sample(numbers, len(numbers))) for _ in site.names) for site in sites],
    }
    for what, orders in ways.items():
        searcher = FunctionSearcher(
            [site._replace(orders=order) for site, order in zip(sites, orders, strict=True)], policy.facts.actions
        )
        best = strong
        for number in range(1, max(EVALUATIONS) + 1):
            for proposal in searcher.ask(1):
                (found,) = await env.expand_texts([proposal.actions], observation_spaces=SEEN, reward_spaces=[])
                if not found.error:
                    best = min(best, float(found.observation[0]))
                    searcher.tell(proposal, aiocg.search.Outcome(0.0, costs=tuple(map(float, found.observation[1]))))
            if number in EVALUATIONS:
                row[f"{what}, {number} evaluations"] = strong / max(best, 1)
    return row, took


async def _for_bytes(env: aiocg.Env, policy: Policy, strong: float) -> dict[str, float]:
    """Return how many times smaller the object becomes than after -Oz, and after the smallest level, by few runs."""
    counted, env.reward_space = env.reward_space, "ObjectImageSizeOzMinsize"
    try:
        budget = aiocg.search.Budget(evaluations=FEW)
        found = await aiocg.search.policy(env, policy=policy, budget=budget, run=False)
        await env.reset()
        tried = await env.expand_texts([(), found.actions], observation_spaces=[BYTES], reward_spaces=[])
        start, cost = (float(one.observation[0]) for one in tried)
    finally:
        env.reward_space = counted
        await env.reset()
    level = start - max(found.baselines.values()) * max(start - strong, 1)
    return {"for bytes, in bytes": strong / max(cost, 1), "for bytes, smallest level": level / max(cost, 1)}


async def _least(env: aiocg.Env, policy: Policy, sites: Sequence[Site], cost: str) -> float:
    """Return the least cost that the preferred sequences lead to, each kept whatever it does; that of -Oz if none."""
    lists = [one.actions for site in sites for one in FunctionSearcher([site], policy.facts.actions).ask(2)[:2]]
    found = await env.expand_texts(lists or [CLANG_OZ], observation_spaces=[cost], reward_spaces=[])
    return min(float(one.observation[0]) for one in found if not one.error)


def main() -> None:
    """Do what is asked for."""
    aiocg.telemetry.configure(level="error")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["collect", "train", "measure"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--programs", type=int, default=400)
    parser.add_argument("--sequences", type=Path, help="a file of bench.core_set; functionwise's core set by default")
    parser.add_argument("--suites", nargs="+", default=list(suites()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.command == "collect":
        sequences = core(COSTS) if options.sequences is None else sequences_in(options.sequences.read_text("utf-8"))
        found = asyncio.run(collect(sequences, options.programs, options.seed, options.workers))
        np.savez_compressed(options.files[0], **found)
    elif options.command == "train":
        with np.load(options.files[0], allow_pickle=False) as data:
            policy = train({name: data[name] for name in data.files}, options.seed)
        options.files[1].write_bytes(policy.to_bytes())
    else:
        policy = Policy.load(options.files[0])
        scores = {**policy.facts.scores, **asyncio.run(measure(policy, options.suites))}
        told = Policy(msgspec.structs.replace(policy.facts, scores=scores), policy.layers)
        options.files[0].write_bytes(told.to_bytes())


if __name__ == "__main__":
    main()
