"""Search by a learned policy: greedy first, then sampled."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import InvalidAction, UnknownName
from aiocg.policies import Episode, Policy, PolicyError
from aiocg.policies.features import COUNTS, FUNCTION, OBSERVED
from aiocg.search.baselines import AS_IT_IS, baselines
from aiocg.search.budget import Budget
from aiocg.search.driver import Options, Pace, tune
from aiocg.search.function_policy import function_policy
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal

__all__ = ["PolicyPrior", "PolicySearcher", "policy", "policy_prior"]

DEFAULT_BUDGET = Budget(evaluations=2_000)
DEFAULT = "instructions"  # the policy that comes along
WALKS = 8  # episodes at a time
BRANCHES = 2  # actions tried in a state: the one that is chosen, and the next, in case the first does nothing
PACE = Pace(batch=WALKS * BRANCHES, ahead=2)
TEMPERATURE = 0.5  # of the choices: below 1, what is preferred is chosen more often
STRONGER = "OzMinsize"  # the baseline that a policy compares programs with


async def policy(
    env: Env, *, seed: int = 0, policy: str | PathLike[str] | Policy = DEFAULT, **options: Unpack[Options]
) -> SearchResult:
    """Let a learned policy choose the passes: first those it prefers from each start, then by their probability.

    A policy for single functions chooses a sequence of passes for each function: first the one that it prefers, then
    the next. A sequence that makes a function larger is not kept for it.

    A policy is trained for the number of instructions; other rewards of size mostly follow. Actions that the LLVM at
    hand does not know are left out.

    Args:
        env: an LLVM environment with a reward space.
        seed: of all random choices.
        policy: a policy, its file, or the name of one that comes along; `aiocg rl train` makes them.
        **options: see `aiocg.search.Options`; the budget is 2,000 evaluations if there is none.

    Raises:
        ValueError: when the environment is none of LLVM's, and as `aiocg.search.tune` does.
        PolicyError: when the file is damaged, or the LLVM at hand knows none of the actions.
        ServiceError: see `aiocg.search.tune`.
    """
    if env.spec.worker != "llvm":
        raise ValueError(f"policies choose passes of LLVM, which {env.spec.id} does not have")
    chosen = policy if isinstance(policy, Policy) else Policy.load(policy)
    usable = await usable_actions(env, chosen.facts.actions)
    if any(usable) and chosen.facts.parts == FUNCTION:
        return await function_policy(env, chosen, usable, **options)
    if not any(usable):
        raise PolicyError(f"this LLVM knows none of the actions of a policy for {chosen.facts.compiler}")
    starts = {name: actions for name, actions in baselines(env).items() if name in (*chosen.facts.starts, STRONGER)}
    return await tune(
        env,
        lambda _: PolicySearcher(chosen, starts, usable, seed),
        name="policy",
        pace=PACE,
        default=DEFAULT_BUDGET,
        features=OBSERVED,
        **options,
    )


async def usable_actions(env: Env, texts: Sequence[str]) -> list[bool]:
    """Return which texts are actions of the compiler at hand."""
    try:
        await env.check_actions(texts)
        return [True] * len(texts)
    except (UnknownName, InvalidAction):
        if len(texts) == 1:
            return [False]
    half = len(texts) // 2
    return await usable_actions(env, texts[:half]) + await usable_actions(env, texts[half:])


class _Walk:
    """An episode under way.

    Attributes:
        episode: what is known of it.
        rng: for the choice of actions; None to take those that are preferred.
        actions: the texts that lead to the present state.
        left: outcomes that are not known yet.
        branches: the actions that are being tried, and what became of them, the chosen one first.
    """

    def __init__(self, episode: Episode, rng: np.random.Generator | None, actions: tuple[str, ...]) -> None:
        self.episode, self.rng, self.actions = episode, rng, actions
        self.left = 0
        self.branches: dict[int, Outcome | None] = {}


class PolicySearcher:
    """Proposes the states of several episodes: of each start the preferred one, then sampled ones without end.

    Args:
        policy: chooses actions.
        starts: the actions that episodes may begin with, by name.
        usable: which actions of the policy there are.
        seed: of all random choices.
    """

    def __init__(
        self, policy: Policy, starts: Mapping[str, tuple[str, ...]], usable: Sequence[bool], seed: int
    ) -> None:
        self._policy, self._seed = policy, seed
        self._usable = np.array([*usable, True])
        self._starts = {AS_IT_IS: (), **starts}
        self._asking: list[Proposal] = [Proposal(actions, name) for name, actions in self._starts.items()]
        self._waiting = len(self._asking)
        self._begun: dict[str, Outcome] = {}
        self._walks: list[_Walk] = []
        self._count = 0

    def ask(self, count: int) -> list[Proposal]:
        """Return the starts first, and then the next actions of episodes whose last outcomes are known."""
        if self._waiting:
            asked, self._asking = self._asking[:count], self._asking[count:]
            return asked
        if AS_IT_IS not in self._begun:
            return []
        found: list[Proposal] = []
        while len(self._walks) < WALKS:
            self._walks.append(self._walk())
        for place, walk in enumerate(self._walks):
            if walk.left or len(found) + BRANCHES > count:
                continue
            for _ in range(WALKS):  # an episode may be over before it has begun, never so many in a row in practice
                if self._choose(walk):
                    break
                walk = self._walks[place] = self._walk()
            for action in walk.branches:
                found.append(Proposal((*walk.actions, self._policy.facts.actions[action]), (walk, action)))
            walk.left = len(walk.branches)
        return found

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of a start, or go on with an episode when all is known of its branches."""
        if isinstance(proposal.tag, str):
            self._waiting -= 1
            if not outcome.failed:
                self._begun[proposal.tag] = outcome
            return
        walk, action = proposal.tag
        walk.branches[action] = outcome
        walk.left -= 1
        if walk.left:
            return
        episode, before = walk.episode, walk.episode.state
        for number, result in walk.branches.items():
            if result.failed:
                episode.fail(number)
            else:
                idle = result.state == before
                episode.advance(number, _counts(result), result.state, no_effect=idle)
                if not idle:
                    walk.actions = result.actions
                    break
        walk.branches = {}

    def _walk(self) -> _Walk:
        """Begin an episode: from each start in turn."""
        names = [name for name in self._policy.facts.starts if name in self._begun] or [AS_IT_IS]
        number, self._count = self._count, self._count + 1
        start = self._begun[names[number % len(names)]]
        rng = None if number < len(names) else np.random.default_rng((self._seed, number))
        facts = self._policy.facts
        plain, stronger = _counts(self._begun[AS_IT_IS]), _counts(self._begun.get(STRONGER, self._begun[AS_IT_IS]))
        episode = Episode(
            len(facts.actions), facts.steps, float(plain[0]), float(stronger[0]), _counts(start), start.state
        )
        return _Walk(episode, rng, start.actions)

    def _choose(self, walk: _Walk) -> bool:
        """Choose what to try next in an episode; return False when it is over."""
        episode = walk.episode
        if episode.over:
            return False
        values = self._policy.logits(self._policy.features([episode]))[0]
        values = np.where(episode.mask & self._usable, values, -np.inf)
        if walk.rng is not None:
            values = values / TEMPERATURE + walk.rng.gumbel(size=len(values))
        stop = len(values) - 1
        if int(np.argmax(values)) == stop:
            return False
        values[stop] = -np.inf
        order = np.argsort(-values, kind="stable")[:BRANCHES]
        walk.branches = {int(action): None for action in order if values[action] != -np.inf}
        return bool(walk.branches)


def _counts(outcome: Outcome) -> Any:
    return np.array(outcome.costs[:COUNTS], np.int64)


class PolicyPrior:
    """A policy as the prior of `mcts` or `beam`: how likely it would take each action; see `policy_prior`.

    Actions that it does not know are as likely as the mean of the others.

    Args:
        policy: the policy.
        unoptimised, baseline: instructions of the program as it came, and after -Oz of the program marked `minsize`.
    """

    def __init__(self, policy: Policy, unoptimised: float, baseline: float) -> None:
        self._policy, self._unoptimised, self._baseline = policy, unoptimised, baseline
        self._places = {text: place for place, text in enumerate(policy.facts.actions)}

    @property
    def observations(self) -> Sequence[str]:
        """Return the observation spaces that it looks at."""
        return OBSERVED

    def weights(self, state: Outcome, texts: Sequence[str]) -> Any:
        """Return probabilities of actions, float64, shape (texts,), whose sum is 1."""
        facts = self._policy.facts
        episode = Episode(
            len(facts.actions), facts.steps, self._unoptimised, self._baseline, _counts(state), state.state
        )
        for text in state.actions[: facts.steps]:
            if text in self._places:
                episode.taken.append(self._places[text])
                episode.histogram[self._places[text]] += 1
        logits = self._policy.logits(self._policy.features([episode]))[0, :-1]
        likely = np.exp(logits.astype(float) - float(logits.max()))
        mean = float(likely.mean())
        found = np.array([likely[self._places[text]] if text in self._places else mean for text in texts]) + 1e-12
        return found / found.sum()


async def policy_prior(env: Env, policy: str | PathLike[str] | Policy = DEFAULT) -> PolicyPrior:
    """Return a policy as a prior for the program of an environment, as in `mcts(env, prior=await policy_prior(env))`.

    Args:
        env: an LLVM environment; it is reset.
        policy: a policy, its file, or the name of one that comes along.

    Raises:
        PolicyError: when the file is damaged.
        ServiceError: when the program cannot be observed.
    """
    chosen = policy if isinstance(policy, Policy) else Policy.load(policy)
    if chosen.facts.parts == FUNCTION:
        raise PolicyError("a policy for single functions says nothing of whole programs, so it is no prior")
    await env.reset()
    unoptimised, baseline = await env.observe("IrInstructionCountO0", "IrInstructionCountOzMinsize")
    return PolicyPrior(chosen, float(unoptimised), float(baseline))
