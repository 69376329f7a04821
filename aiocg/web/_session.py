"""A session: an environment, and the tree of the states that were seen in it."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiocg.env.env import Env
from aiocg.env.episode import Snapshot
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import AiocgError, ResetNeeded, SessionLost
from aiocg.host.threads import in_thread
from aiocg.llvm.difference import difference
from aiocg.runtime import Runtime
from aiocg.spaces.rewards import CostReward
from aiocg.web.limits import Limits, Refusal
from aiocg.web.tree import Node, Tree

QUEUED = 256  # events that a slow reader may be behind before it loses the oldest

Event = Mapping[str, Any]


LEVELS = ("O3", "Oz", "Os")
TIME = "runtime"  # of a program or kernel, in seconds, where there is nothing else to compare


def _costs_of(env: Env) -> tuple[str, ...]:
    """Return the costs of nodes: that of the environment's reward, else of the first reward with one, else the time.

    Raises:
        Refusal: when there is none.
    """
    own = [env.reward_spaces[env.reward_space]] if env.reward_space is not None else []
    for reward in [*own, *sorted(env.reward_spaces.values(), key=lambda one: one.platform_dependent)]:
        if isinstance(reward, CostReward):
            return (reward.cost,)
    if TIME in env.observation_spaces:
        return (TIME,)
    raise Refusal(400, f"{env.spec.id} has no reward that is the decrease of a cost: take another, such as llvm-ic-v0")


def _levels_of(env: Env, cost: str) -> dict[str, str]:
    """Return the observations of what a cost is after the compiler's levels, by the levels' options."""
    names = {f"-{level}": (cost.removesuffix("Bytes") + level, f"{cost}_{level}") for level in LEVELS}
    known = {option: [name for name in tried if name in env.observation_spaces] for option, tried in names.items()}
    return {option: found[0] for option, found in known.items() if found}


def _numbers(names: Sequence[str], values: Sequence[Any]) -> dict[str, float]:
    """Return values by their names."""
    return {name: float(value) for name, value in zip(names, values, strict=False)}


@dataclass(frozen=True, slots=True)
class Gain:
    """What an action would do.

    Attributes:
        action: its text.
        costs: of the state that it leads to; empty after an error.
        gain: by how much it lowers the first cost.
        state: fingerprint of that state, None after an error.
        effect: whether that is another state.
        error: why there is no such state.
    """

    action: str
    costs: Mapping[str, float]
    gain: float
    state: int | None
    effect: bool
    error: str | None = None

    def rank(self) -> tuple[bool, bool, float, str]:
        """Return what gains are sorted by, the best first."""
        return bool(self.error), not self.effect, -self.gain, self.action


Wanted = Callable[[Sequence[Gain]], bool]
"""Is told what is known, and says whether more is wanted."""

Order = Callable[[str], Any]
"""Sorts actions."""


TEXTS = {"Ir": "IR", "asm": "assembly", "Assembly": "assembly", "rtl": "RTL", "loop_tree": "loops"}
"""The observations that are the program as text, and what they are called; each compiler has some of them."""

FEATURES = ("InstCountDict", "AutophaseDict", "instruction_counts")  # counts by name; each compiler has some of them
MASK = "action_mask"
KEPT = 24  # observations of nodes that are remembered, and nodes whose gains are
AT_ONCE = 8  # candidates of one request, behind which a step may have to wait


class ExplorerSession:
    """An environment that is moved about in a tree of states. Its methods take turns, whoever calls them.

    Few states are kept on the worker; others are reached from the nearest that is, by the actions between. A worker
    that dies takes nothing with it.

    Attributes:
        env: the environment.
        tree: the states.
        costs: names of the costs that nodes have, the main one first.
        lines: what the main cost is after the compiler's own levels, by their names.
        limits: what the session may have.
    """

    def __init__(
        self, env: Env, tree: Tree, costs: tuple[str, ...], lines: Mapping[str, float], limits: Limits
    ) -> None:
        self._readers: set[asyncio.Queue[Event]] = set()
        self.env = env
        self.tree = tree
        self.costs = costs
        self.lines = lines
        self.limits = limits
        self._lock = asyncio.Lock()
        self._astray = False
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._gains: OrderedDict[int, dict[str, Gain]] = OrderedDict()
        self._seen: OrderedDict[tuple[int, str], Any] = OrderedDict()

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        environment: str,
        *,
        benchmark: BenchmarkLike | None = None,
        reward_space: str | None = None,
        action_space: str | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Make an environment and reset it.

        Raises:
            AiocgError, DatasetError: when that is not possible.
        """
        limits = limits or Limits()
        env = await runtime.make(environment, benchmark=benchmark, reward_space=reward_space, action_space=action_space)
        try:
            env.timeout, env.observation_space = limits.seconds, None
            costs = _costs_of(env)
            await env.reset(timeout=limits.seconds)
            values = await env.observe(*costs, *(found := _levels_of(env, costs[0])).values())
            values = values if isinstance(values, list) else [values]
            tree = Tree(env.state_hash, _numbers(costs, values), limits.nodes)
            session = cls(env, tree, costs, _numbers(tuple(found), values[len(costs) :]), limits)
            await session._keep(0)
        except BaseException:
            await env.close()
            raise
        return session

    # ------------------------------------------------------------------------------------------------- events

    @contextlib.contextmanager
    def events(self) -> Iterator[asyncio.Queue[Event]]:
        """Give a queue of what happens from now on; a slow reader loses the oldest."""
        queue: asyncio.Queue[Event] = asyncio.Queue(QUEUED)
        self._readers.add(queue)
        try:
            yield queue
        finally:
            self._readers.discard(queue)

    @property
    def watched(self) -> bool:
        """Whether anybody reads the events."""
        return bool(self._readers)

    def tell(self, event: str, **facts: Any) -> None:
        """Tell all readers of an event."""
        for queue in self._readers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait({"event": event, **facts})

    # ------------------------------------------------------------------------------------------------- moving

    async def step(self, actions: Sequence[str]) -> list[Node]:
        """Apply actions, given by their texts, and return the node after each.

        Raises:
            UnknownName, InvalidAction: when one is none; nothing was done.
            ServiceError: when one fails; the session is where those before it led.
            TreeError: when the tree is full.
        """
        if len(actions) > self.limits.actions:
            raise Refusal(413, f"a step takes up to {self.limits.actions} actions, not {len(actions)}: send fewer")
        async with self._turn():
            await self.env.check_actions(actions)
            return [await self._act(action) for action in actions]

    async def _act(self, action: str) -> Node:
        self._astray = True
        values, _, _, _, info = await self.env.step_texts(
            [action], observation_spaces=list(self.costs), reward_spaces=[]
        )
        if "error" in info:
            self.tell("failed", action=action, error=info["error_type"], message=info["error_details"])
            await self._return()
            raise info["error"]
        before = len(self.tree)
        node = self.tree.step(action, self.env.state_hash, _numbers(self.costs, values))
        self._astray = False
        await self._keep(node.number)
        self.tell("moved", node=node.number, action=action, new=len(self.tree) > before)
        return node

    async def undo(self) -> Node:
        """Go back the way that was taken; raise TreeError at the first node."""
        async with self._turn():
            if len(self.tree.trail) > 1:
                await self._go(self.tree.trail[-2])
            return self._moved(self.tree.undo())

    async def goto(self, number: int) -> Node:
        """Go to a node; raise TreeError when there is none of this number."""
        async with self._turn():
            await self._go(self.tree[number].number)
            return self._moved(self.tree.goto(number))

    def _moved(self, node: Node) -> Node:
        self.tell("moved", node=node.number, action=None, new=False)
        return node

    async def fork(self) -> "ExplorerSession":
        """Return a session of its own at the same node, with all that this one has seen."""
        async with self._turn():
            other = ExplorerSession(await self.env.fork(), self.tree.copy(), self.costs, self.lines, self.limits)
            await other._keep(other.tree.present.number)
            return other

    # ------------------------------------------------------------------------------------------------ looking

    async def expand(
        self,
        actions: Sequence[str] | None = None,
        *,
        wanted: Wanted = lambda known: True,
        order: Order = lambda action: 0,
    ) -> list[Gain]:
        """Return what actions would do from here, the best first; nothing is changed, and steps need not wait for it.

        What is known of a node is not tried again.

        Args:
            actions: their texts; all of the action space if None.
            wanted: told what is known, now and then; when it says no, that is returned.
            order: sorts actions by which are tried first; it may answer otherwise each time.

        Raises:
            UnknownName, InvalidAction: when one is none.
        """
        if actions is not None:
            if len(actions) > self.limits.candidates:
                raise Refusal(413, f"an expand takes up to {self.limits.candidates} actions, not {len(actions)}")
            await self.env.check_actions(actions)
        texts = list(dict.fromkeys(await self.possible() if actions is None else actions))
        async with self._turn():
            node = self.tree.present
            child = await self.env.fork()
        known = self._gains.get(node.number, {})
        _put(self._gains, node.number, known)
        left = [text for text in texts if text not in known]
        async with child:
            while left and wanted(list(known.values())):
                left.sort(key=order)
                known |= {gain.action: gain for gain in await self._gains_of(child, node, left[:AT_ONCE])}
                del left[:AT_ONCE]
        return sorted((known[text] for text in texts if text in known), key=Gain.rank)

    async def possible(self) -> list[str]:
        """Return the actions to try here: those of the action space that the compiler does not say are impossible."""
        texts = [self.env.action_space.text(one) for one in self.env.action_space.candidates()]
        mask = await self.observe(MASK) if MASK in self.env.observation_spaces else ()
        if len(mask) == len(texts):
            texts = [text for text, may in zip(texts, mask, strict=True) if may]
        return texts[: self.limits.candidates]

    async def try_all(self, actions: Sequence[str], before: Sequence[str] = ()) -> list[Gain]:
        """Return what actions would make of the program as it came, or after others; nothing is changed."""
        async with self.beginning() as child:
            await child.step_texts(before)
            return await self._gains_of(child, self.tree[0], actions)

    async def grow(self, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
        """Make nodes of the states that lists of actions lead to from the program as it came.

        Args:
            paths: the lists; each without its last action comes before it, or is left out with it.

        Returns:
            Which became nodes; others failed, or the tree was full.
        """
        nodes: dict[tuple[str, ...], int] = {(): 0}
        async with self.beginning() as child:
            for start in range(0, len(paths), AT_ONCE):
                chunk = paths[start : start + AT_ONCE]
                found = await child.expand_texts(chunk, observation_spaces=list(self.costs), reward_spaces=[])
                for path, one in zip(chunk, found, strict=True):
                    if one.error is None and path[:-1] in nodes and len(self.tree) < self.limits.nodes:
                        costs = _numbers(self.costs, one.observation)
                        nodes[path] = self.tree.add(nodes[path[:-1]], path[-1], one.state, costs).number
        return nodes

    @contextlib.asynccontextmanager
    async def beginning(self) -> AsyncIterator[Env]:
        """Give an environment of its own at the program as it came."""
        async with self._turn():
            child = await self.env.fork()
        async with child:
            snapshot = self._snapshots.get(0)
            if snapshot is None or snapshot.closed or snapshot.session.error is not None:
                await child.reset(timeout=self.limits.seconds)
            else:
                await child.restore(snapshot)
            yield child

    async def _gains_of(self, env: Env, node: Node, texts: Sequence[str]) -> list[Gain]:
        found = await env.expand_texts(
            [[text] for text in texts], observation_spaces=list(self.costs), reward_spaces=[]
        )
        gains = []
        for text, candidate in zip(texts, found, strict=True):
            if candidate.error is not None:
                gains.append(Gain(text, {}, 0.0, None, False, f"{type(candidate.error).__name__}: {candidate.error}"))
                continue
            costs = _numbers(self.costs, candidate.observation)
            gain = node.costs[self.costs[0]] - costs[self.costs[0]]
            gains.append(Gain(text, costs, gain, candidate.state, candidate.state != node.state))
        return gains

    async def observe(self, name: str) -> Any:
        """Return an observation of the present state.

        Raises:
            UnknownName: when there is none of this name.
            ServiceError: when it cannot be computed.
        """
        async with self._turn():
            return await self.env.observe(name)

    @property
    def texts(self) -> dict[str, str]:
        """What the program is shown as, the usual first: observations by what they are called."""
        return {called: name for name, called in TEXTS.items() if name in self.env.observation_spaces}

    async def text(self, number: int, name: str = "") -> str:
        """Return the program at a node as text.

        Args:
            number: of the node.
            name: of the observation; "" for the usual one, such as IR.

        Raises:
            Refusal: when there is none, or it is too long.
        """
        shown = list(self.texts.values())
        if not shown or (name and name not in shown):
            there = f": take {', '.join(shown)}" if shown else ": take an LLVM environment"
            raise Refusal(404, f"{self.env.spec.id} cannot show its program as {name or 'text'}{there}")
        return str(await self._see(number, name or shown[0]))

    @property
    def counted(self) -> bool:
        """Whether there are `features`."""
        return not self.env.observation_spaces.keys().isdisjoint(FEATURES)

    async def features(self, number: int) -> dict[str, float]:
        """Return counts of what is in the program at a node, by their names."""
        found: dict[str, float] = {}
        for name in FEATURES:
            if name in self.env.observation_spaces:
                found |= await self._see(number, name)
        return found

    async def difference(self, before: int, after: int, name: str = "") -> list[str]:
        """Return how the text of the program differs between two nodes, in unified format; see `text`."""
        old, new = await self.text(before, name), await self.text(after, name)
        return await in_thread(lambda: difference(old, new, f"node {before}", f"node {after}"))

    async def _see(self, number: int, name: str) -> Any:
        """Return an observation of a node, and remember it."""
        if (number, name) not in self._seen:
            async with self._turn():
                value = await self._look(self.tree[number].number, name)
            if isinstance(value, str) and len(value) > (most := self.limits.shown_bytes):
                raise Refusal(413, f"the text has {len(value)} characters, more than {most}: save it")
            _put(self._seen, (number, name), value)
        return self._seen[number, name]

    async def _look(self, number: int, name: str) -> Any:
        if number == self.tree.present.number:
            return await self.env.observe(name)
        present = self.tree.present.number
        await self._go(number)
        try:
            return await self.env.observe(name)
        finally:
            await self._go(present)

    async def close(self) -> None:
        """Free everything on the worker, and tell the readers."""
        for snapshot in self._snapshots.values():
            snapshot.close()
        self._snapshots.clear()
        await self.env.close()
        self.tell("closed")

    # ---------------------------------------------------------------------------------------- where the env is

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Have the environment for oneself, at the present node."""
        async with self._lock:
            if self._astray or not self.env.in_episode or self.env.state_hash != self.tree.present.state:
                await self._go(self.tree.present.number)
            yield

    async def _return(self) -> None:
        with contextlib.suppress(AiocgError):  # the next turn tries again, and tells
            await self._go(self.tree.present.number)

    async def _go(self, number: int) -> None:
        """Bring the environment to a node's state: restore the nearest snapshot before it, apply the actions behind.

        Raises:
            SessionLost: when its actions lead elsewhere now.
        """
        self._astray = True
        line = self.tree.line(number)
        rest = line[1:]
        for place in range(len(line) - 1, -1, -1):
            if (snapshot := self._snapshots.get(line[place].number)) is None:
                continue
            try:
                await self.env.restore(snapshot)
                rest = line[place + 1 :]
                break
            except ResetNeeded:  # its worker died, and it could not be rebuilt
                del self._snapshots[line[place].number]
        else:
            await self.env.reset(timeout=self.limits.seconds)
        if rest:
            await self.env.apply([node.action for node in rest], observation_spaces=[], reward_spaces=[])
        if self.env.state_hash != self.tree[number].state:
            raise SessionLost(self.tree[number].state, self.env.state_hash)
        self._astray = False
        await self._keep(number)

    async def _keep(self, number: int) -> None:
        """Keep the present state on the worker, and drop the one that was longest of no use, if there are too many."""
        if number not in self._snapshots:
            self._snapshots[number] = await self.env.snapshot()
        self._snapshots.move_to_end(number)
        while len(self._snapshots) > self.limits.snapshots:
            oldest = next(one for one in self._snapshots if one or self.limits.snapshots < 1)  # 0 is of most use
            self._snapshots.pop(oldest).close()


def _put(table: "OrderedDict[Any, Any]", key: Any, value: Any) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > KEPT:
        table.popitem(last=False)
