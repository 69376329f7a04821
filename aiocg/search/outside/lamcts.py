"""Latent action Monte Carlo tree search over lists of actions, and over whole command lines.

Linnan Wang, Rodrigo Fonseca and Yuandong Tian: Learning Search Space Partition for Black-box Optimization using Monte
Carlo Tree Search. NeurIPS 2020. CompilerGym's paper (CGO 2022) has it in its Table IV. This is our own implementation.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import Options
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.vectors import LENGTH, Encoding, Finite, Vector, needed, search_vectors

__all__ = ["LaMcts", "lamcts"]

BUDGET = Budget(evaluations=10_000)
STARTS = 40  # vectors that are drawn before there is a tree
LEAF = 20  # vectors in a region that is not split any more
MOST = 1000  # vectors that a tree is grown from: the best
GROWTH = 1.1  # how many times more vectors there are when a tree is grown again
WEIGHT = 1.0  # of a cost among the places, when a region is split
EXPLORING = 0.3  # the weight of what is known little, in standard deviations of the cost
ELITES = 5  # vectors of a leaf that are changed
TRIES = 16  # changes, of which one in the leaf's region is taken


async def lamcts(env: Env, *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]) -> SearchResult:
    """Learn to tell good regions from bad ones, and choose an action, or none, for each place of a list, in a good one.

    Where an action is a whole command line, it makes a choice for each option.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when scikit-learn is not installed; `pip install 'aiocg[lamcts]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    tuner = functools.partial(LaMcts, seed=seed)
    return await search_vectors(env, tuner, "lamcts", length, BUDGET, **options)


class _Region(NamedTuple):
    """A part of the space.

    Attributes:
        members: indices of the vectors in it.
        boundary: tells the halves, the good one from the bad one; None of a leaf.
        halves: the good one, labelled 0, and the bad one, labelled 1.
    """

    members: Any
    boundary: Any = None
    halves: tuple["_Region", ...] = ()


class LaMcts:
    """A tree of regions: vectors are split by k-means into good and bad, and a support vector machine learns where."""

    def __init__(self, encoding: Encoding, seed: int) -> None:
        self._cluster, self._svm = needed("sklearn.cluster", "lamcts"), needed("sklearn.svm", "lamcts")
        self._sparse, self._threads = needed("scipy.sparse", "lamcts"), needed("threadpoolctl", "lamcts")
        self._offsets = np.cumsum([0, *encoding.sizes])
        self._encoding = encoding
        self._rng = np.random.default_rng(seed)
        self._asked: set[Vector] = set()
        self._known: list[tuple[float, Vector]] = []
        self._grown = 0  # how many were known when the tree was grown
        self._finite = Finite()

    def ask(self) -> tuple[Sequence[int], Any]:
        """Return a vector of the leaf that promises most."""
        if len(self._known) < STARTS:
            vector = self._encoding.draw(self._rng)
        else:
            if len(self._known) >= GROWTH * self._grown:
                self._grow()
            vector = self._sample()
        self._asked.add(vector)
        return vector, vector

    def tell(self, tag: Any, cost: float) -> None:
        """Take note of a cost."""
        self._known.append((self._finite(cost), tag))

    def _grow(self) -> None:
        """Grow a tree from the best vectors."""
        self._grown = len(self._known)
        best = sorted(self._known)[:MOST]
        self._vectors = [vector for _, vector in best]
        costs = np.array([cost for cost, _ in best])
        self._worth = (costs.mean() - costs) / max(costs.std(), 1e-12)
        self._places = self._one_hot(self._vectors)
        with self._threads.threadpool_limits(1):
            self._root = self._split(np.arange(len(best)))

    def _one_hot(self, vectors: Sequence[Vector]) -> Any:
        """Return a sparse matrix with a row for each vector and a column for each value of each element."""
        columns = (np.array(vectors) + self._offsets[:-1]).ravel()
        ends = np.arange(len(vectors) + 1) * len(self._encoding.sizes)
        return self._sparse.csr_matrix((np.ones(len(columns)), columns, ends), (len(vectors), self._offsets[-1]))

    def _split(self, members: Any) -> _Region:
        """Split a region, unless it is small or one half would be empty."""
        if len(members) < 2 * LEAF:
            return _Region(members)
        places, worth = self._places[members], self._worth[members]
        weighed = self._sparse.hstack([places, WEIGHT * np.sqrt(len(self._encoding.sizes)) * worth[:, None]], "csr")
        labels = self._cluster.KMeans(2, n_init=1, random_state=0).fit_predict(weighed)
        if len(set(labels)) < 2:
            return _Region(members)
        if worth[labels == 0].mean() < worth[labels == 1].mean():
            labels = 1 - labels
        boundary = self._svm.SVC(random_state=0).fit(places, labels)
        found = boundary.predict(places)
        halves = [members[found == half] for half in (0, 1)]
        if min(map(len, halves)) == 0:
            return _Region(members)
        return _Region(members, boundary, tuple([self._split(half) for half in halves]))

    def _sample(self) -> Vector:
        """Descend to a leaf by upper confidence bounds, and change one of its best vectors within the region."""
        region, path = self._root, []
        while region.halves:
            total = np.log(len(region.members))
            bounds = [
                self._worth[half.members].mean() + EXPLORING * np.sqrt(2 * total / len(half.members))
                for half in region.halves
            ]
            chosen = int(np.argmax(bounds))
            path.append((region.boundary, chosen))
            region = region.halves[chosen]
        parents = [self._vectors[index] for index in region.members[:ELITES]]  # which are sorted
        tries = [self._encoding.change(parents[int(self._rng.integers(len(parents)))], self._rng) for _ in range(TRIES)]
        new = [vector for vector in tries if vector not in self._asked] or tries
        inside, places = np.ones(len(new), dtype=bool), self._one_hot(new)
        for boundary, half in path:
            inside &= boundary.predict(places) == half
        return new[int(np.argmax(inside))]  # the first inside, or else the first
