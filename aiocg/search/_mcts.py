"""Monte Carlo tree search."""

import functools
import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.policies import Policy
from aiocg.search._driver import Alphabet, Options, tune
from aiocg.search.budget import Budget
from aiocg.search.priors import Path, Prior, prior_for
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal

DEFAULT_BUDGET = Budget(evaluations=10_000)
EXPLORATION = 0.03  # the weight of what was followed seldom
DEEPEST = 40  # actions of a list
TRUST = 0.75  # in the prior; the rest is shared by all actions
TRIES = 2  # at each proposal, to find a way that is not closed or under way


async def mcts(
    env: Env, *, seed: int = 0, prior: Prior | Policy | Path | None = None, **options: Unpack[Options]
) -> SearchResult:
    """Grow a tree of states by PUCT, as AlphaZero does (Silver et al., 2018).

    An action is worth the best reward that it has led to. States that are reached twice are one node, and actions
    without effect are not tried again. What is under way counts as a visit, so that evaluations side by side differ.

    Args:
        env: with a reward space.
        seed: of all random choices, which are the order in which a state's actions are tried.
        prior: a prior, a policy, the file of one, or the name of a policy that comes along. It says how likely actions
            are before they are tried; without it, all are equally likely.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`; also if the prior cannot be used.
    """
    known = None if prior is None else await prior_for(env, prior)
    make = functools.partial(TreeSearcher, seed=seed, prior=known)
    features = () if known is None else known.observations
    return await tune(env, make, name="mcts", default=DEFAULT_BUDGET, features=features, **options)


class _Node:
    """A state, with what its actions were worth.

    Attributes:
        texts: its actions, in the order in which they are tried.
        state: the state.
        visits: of each action, as float64, shape (actions,).
        values: the best reward that each has led to, as float64, shape (actions,); the node's own before it is known,
            and minus infinity where it leads nowhere.
        children: the nodes that actions lead to, by index; None while that is not known.
        total: visits of all actions.
        open: how many of them may lead somewhere.
        lift: how many times as likely each action is as if all were equally, shape (actions,); None before it matters.
    """

    def __init__(self, texts: Sequence[str], reward: float, state: Outcome) -> None:
        self.texts = texts
        self.state = state
        self.lift: Any = None
        self.visits = np.zeros(len(texts))
        self.values = np.full(len(texts), reward)
        self.children: dict[int, _Node | None] = {}
        self.total = 1
        self.open = len(texts)

    def close(self, index: int) -> None:
        """Take note that an action leads nowhere."""
        self.open -= self.values[index] != -math.inf
        self.values[index] = -math.inf


class TreeSearcher:
    """Proposes one action after a list that leads to a leaf of the tree."""

    def __init__(self, alphabet: Alphabet, seed: int, prior: Prior | None = None) -> None:
        self._prior = prior
        self._alphabet = alphabet
        self._rng = np.random.default_rng(seed)
        self._nodes: dict[int, _Node] = {}
        self._root: _Node | None = None
        self._low = self._high = 0.0  # the rewards of the start and of the best
        self._asked = False

    def ask(self, count: int) -> list[Proposal]:
        """Return the empty list first, and then lists to leaves."""
        if not self._asked:
            self._asked = True
            return [Proposal((), [])]
        found: list[Proposal] = []
        for _ in range(TRIES * count if self._root is not None else 0):
            proposal = self._descend()
            if proposal is not None:
                found.append(proposal)
                if len(found) == count:
                    break
        return found

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Add the state that was reached, and tell all actions that led there what it is worth."""
        path: list[tuple[_Node, int]] = proposal.tag
        if not path:
            self._low = self._high = outcome.reward
            self._root = None if outcome.failed else self._node(outcome)
            return
        parent, action = path[-1]
        child = None if outcome.failed else self._node(outcome)
        if child is None or any(child is node for node, _ in path):
            parent.close(action)  # it fails, does nothing, or goes round in a circle
            return
        parent.children[action] = child
        self._high = max(self._high, outcome.reward)
        best = max(float(child.values.max(initial=-math.inf)), self._low)
        parent.values[action] = best
        for node, index in path[:-1]:
            if node.values[index] != -math.inf:
                node.values[index] = max(node.values[index], best)

    def _node(self, outcome: Outcome) -> _Node:
        node = self._nodes.get(outcome.state)
        if node is None:
            texts = list(self._alphabet.texts(outcome))
            self._rng.shuffle(texts)
            node = self._nodes[outcome.state] = _Node(texts, max(outcome.reward, self._low), outcome)
        return node

    def _descend(self) -> Proposal | None:
        """Follow the most promising actions to one that leads to a state not known; None when the way is closed."""
        node, path, passed = self._root, list[tuple[_Node, int]](), set[_Node]()
        while node is not None:
            if not node.open or node in passed or len(path) == DEEPEST:
                if path:
                    path[-1][0].close(path[-1][1])  # there is nothing new behind it
                return None
            index = self._choose(node)
            passed.add(node)
            path.append((node, index))
            node.visits[index] += 1
            node.total += 1
            if index not in node.children:
                node.children[index] = None
                return Proposal(tuple([one.texts[action] for one, action in path]), path)
            node = node.children[index]
        return None  # this is under way already

    def _choose(self, node: _Node) -> int:
        scale = max(self._high - self._low, 1e-12)
        rare = EXPLORATION * math.sqrt(node.total) / len(node.visits) * scale
        if node.lift is None:
            node.lift = self._lift(node)
        return int(np.argmax(node.values + rare * node.lift / (1 + node.visits)))

    def _lift(self, node: _Node) -> Any:
        if self._prior is None:
            return np.float64(1)
        return TRUST * self._prior.weights(node.state, node.texts) * len(node.texts) + 1 - TRUST
