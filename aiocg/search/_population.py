"""The best pass sequences found for each function of a program, and which to try next."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

NAME = re.compile(r'@(?:[^" ;>]+|"[^"]*")')  # of a function, as LLVM writes it

Inlined = frozenset[str]
"""The functions that a function inlines."""
NOTHING: Inlined = frozenset()


class _Inlining(Protocol):
    """A function, for `CallGraph.alive`.

    Attributes:
        chosen: the functions that it inlines.
    """

    @property
    def chosen(self) -> Inlined: ...


class CallGraph:
    """The direct calls between functions.

    Attributes:
        order: all functions, callers before callees except in recursion.
        removable: functions that are dead once no call to them is left.

    Args:
        names: the names of all functions.
        calls: pairs of caller and callee.
        removable: functions that are dead once no call to them is left.
    """

    def __init__(self, names: Sequence[str], calls: Iterable[tuple[str, str]], removable: Iterable[str]) -> None:
        self.removable = frozenset(removable)
        self._callees: dict[str, list[str]] = {name: [] for name in names}
        self._callers: dict[str, list[str]] = {name: [] for name in names}
        for caller, callee in calls:
            self._callees[caller].append(callee)
            self._callers[callee].append(caller)
        self._roots = [name for name in names if name not in self.removable]
        self.order = self._top_down([*self._roots, *names])
        self._places = {name: place for place, name in enumerate(self.order)}

    def below(self, name: str) -> tuple[str, ...]:
        """Return the callees of a function that come after it in `order`."""
        return tuple([callee for callee in self._callees[name] if self._places[callee] > self._places[name]])

    def is_removable_with(self, caller: str, callee: str) -> bool:
        """Return whether `callee` is dead once `caller` has inlined it."""
        return callee in self.removable and self._callers[callee] == [caller]

    def callers(self, name: str) -> Sequence[str]:
        """Return the functions that call a function."""
        return self._callers[name]

    def alive(self, functions: Mapping[str, _Inlining]) -> set[str]:
        """Return the functions that are alive after each has inlined what it chose; calls in inlined code stay."""
        found, left = set(self._roots), list(self._roots)
        while left:
            name = left.pop()
            inlined = functions[name].chosen
            called = [callee for callee in self._callees[name] if callee not in inlined]
            for copied in inlined:
                called += self._callees[copied]
            for callee in called:
                if callee not in found:
                    found.add(callee)
                    left.append(callee)
        return found

    def _top_down(self, names: Iterable[str]) -> list[str]:
        """Return the functions in reverse postorder."""
        postorder: list[str] = []
        seen: set[str] = set()
        for root in names:
            stack = [] if root in seen else [(root, iter(self._callees[root]))]
            seen.add(root)
            while stack:
                name, callees = stack[-1]
                callee = next((one for one in callees if one not in seen), None)
                if callee is None:
                    postorder.append(name)
                    stack.pop()
                else:
                    seen.add(callee)
                    stack.append((callee, iter(self._callees[callee])))
        return postorder[::-1]


Passes = tuple[str, ...]
"""Texts of function passes, in order; the first may be an `inline<...>`, the last one of `MARKS`."""

_INLINE = "inline<"
MARKS = (
    "mark<minsize;frame-pointer>",
    "mark<optsize>",
    "mark<speed>",
    "mark<optsize;frame-pointer>",
    "mark<minsize>",
)
"""For the code generator, the most promising first. Frame pointers make unwind tables smaller, and addresses on the
stack; by `optsize` instructions are longer, but no arguments are pushed, which takes bytes of unwind tables."""

ELITES = 5  # sequences kept per function
LONGEST = 30  # passes in a sequence
ATTEMPTS = 20  # to find a sequence that was not tried
AGAIN = 0.6  # probability of another mutation; a single one mostly gives a known sequence
FRESH = 12  # failures in a row after which a function is tried less often
INLINE = 0.2  # probability of changing what a function inlines, if it has callees
PER_MARKING = 8  # sequences of the core set after which functions are marked with what is their best then
SMALL_COPY = 12  # instructions or bytes; a function this small is about as large as a call of it
SMALL = 4  # instructions or bytes; a function this small cannot get smaller

# Function passes that can make a program smaller or help other passes to; in the spelling that workers use.
PASSES: Passes = (
    "adce", "aggressive-instcombine", "bdce", "callsite-splitting", "constraint-elimination", "correlated-propagation",
    "dfa-jump-threading", "div-rem-pairs", "dse", "early-cse", "early-cse<memssa>", "flatten-cfg", "float2int", "gvn",
    "gvn-hoist", "gvn<no-load-pre>", "gvn<no-pre>", "loop(indvars)", "instcombine<no-verify-fixpoint>", "instsimplify",
    "jump-threading", "lcssa", "libcalls-shrinkwrap", "loop-mssa(licm)", "loop-mssa(licm<no-allowspeculation>)",
    "load-store-vectorizer", "loop(loop-deletion)", "loop(loop-flatten)", "loop(loop-idiom)", "loop(loop-instsimplify)",
    "loop-load-elim", "loop(loop-reduce)", "loop(loop-rotate)", "loop(loop-rotate<no-header-duplication>)",
    "loop-simplify", "loop(loop-simplifycfg)", "loop-sink", "loop(loop-unroll-full)", "lower-switch", "mem2reg",
    "memcpyopt", "mergeicmps", "mergereturn", "mldst-motion", "nary-reassociate", "reassociate", "sccp",
    "separate-const-offset-from-gep", "loop(simple-loop-unswitch<nontrivial>)", "simplifycfg",
    "simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-arithmetic;switch-to-lookup;no-keep-loops;hoist-common-insts;sink-common-insts>",
    "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-common-insts;sink-common-insts>", "sink",
    "slp-vectorizer", "slsr", "speculative-execution", "sroa<modify-cfg>", "tailcallelim", "vector-combine",
)  # fmt: skip


@dataclass(slots=True)
class Function:
    """What is known of a function. Its variants differ in what it inlines.

    Attributes:
        callees: functions that it calls and may inline.
        variants: for each variant its best sequences as (cost, passes), cheapest first; only the shortest known
            sequence for each cost.
        first: variants to try first, in reverse order.
        chosen: the variant that makes the program cheapest.
        tried: sequences that were evaluated.
        idle: number of evaluations since the cost of a variant last fell.
    """

    callees: tuple[str, ...]
    variants: dict[Inlined, list[tuple[float, Passes]]]
    first: list[Inlined]
    chosen: Inlined = NOTHING
    tried: set[Passes] = field(default_factory=lambda: {()})
    idle: int = 0

    @property
    def elites(self) -> list[tuple[float, Passes]]:
        """The best sequences of the chosen variant, as (cost, passes)."""
        return self.variants[self.chosen]

    @property
    def cost(self) -> float:
        """The lowest cost of the chosen variant."""
        return self.elites[0][0]

    @property
    def best(self) -> Passes:
        """The passes with the lowest cost."""
        return self.elites[0][1]

    def learn(self, passes: Passes, cost: float) -> bool:
        """Record the cost after a sequence; return whether its variant has become cheaper."""
        elites = self.variants.setdefault(inlined_by(passes), [])
        better = not elites or cost < elites[0][0]
        self.idle = 0 if better else self.idle + 1
        known = dict(elites)
        known[cost] = min(known.get(cost, passes), passes, key=lambda elite: (len(elite), elite))
        elites[:] = sorted(known.items())[:ELITES]
        return better


class Population:
    """The functions of one program, with their own random stream.

    Inlining copies the original body of a function, so the cost of a variant does not depend on the other functions.
    Its benefit does: a function is dead only when all its callers have inlined it.

    Attributes:
        functions: all functions, by name.
        start: the sum of their original costs.

    Args:
        costs: the original cost of each function.
        seed: the seed of the random stream.
        core: sequences to try first, on all functions.
        passes: the passes to choose from.
        marks: those of `MARKS` that functions may be given.
        calls: pairs of caller and callee.
        removable: functions that are dead once no call to them is left.
    """

    def __init__(
        self,
        costs: Mapping[str, float],
        seed: Sequence[int],
        core: Iterable[Passes] = (),
        passes: Passes = PASSES,
        marks: Passes = (),
        calls: Sequence[tuple[str, str]] = (),
        removable: Iterable[str] = (),
    ) -> None:
        self._calls = CallGraph(list(costs), calls, removable)
        self.functions = {name: self._function(name, costs) for name in costs}
        self.start = sum(costs.values())
        self._random = random.Random(str(seed))
        self._core = list(core)[::-1]
        self._passes, self._marks = passes, marks
        self._alive = self._calls.alive(self.functions)

    def _function(self, name: str, costs: Mapping[str, float]) -> Function:
        callees = self._calls.below(name)
        small = frozenset([callee for callee in callees if costs[callee] <= SMALL_COPY])
        alone = frozenset([callee for callee in callees if self._calls.is_removable_with(name, callee)])
        first = [one for one in dict.fromkeys((frozenset(callees), alone | small, alone, small)) if one]
        return Function(callees, {NOTHING: [(costs[name], ())]}, first)

    @property
    def cost(self) -> float:
        """The sum of the costs of all live functions, each with its best passes."""
        return sum(self.functions[name].cost for name in self._alive)

    @property
    def best(self) -> dict[str, Passes]:
        """The best passes of each live function that passes improve, callers before callees."""
        return {
            name: self.functions[name].best
            for name in self._calls.order
            if name in self._alive and self.functions[name].best
        }

    @property
    def some_dead(self) -> bool:
        """Whether functions are dead once each has its best passes."""
        return len(self._alive) < len(self.functions)

    def propose(self) -> dict[str, Passes]:
        """Return a sequence to try for each of some functions, callers before callees."""
        chosen = self._functions_to_improve()
        marked = {name: self._marked(self.functions[name]) for name in chosen}
        if self._core and not len(self._core) % PER_MARKING and any(marked.values()):
            proposal = marked
        elif self._core:
            proposal = dict.fromkeys(chosen, self._core.pop())
        else:
            proposal = {name: self._child(self.functions[name]) for name in chosen}
        for name, passes in proposal.items():
            self.functions[name].tried.add(passes)
        return {name: passes for name, passes in proposal.items() if passes}

    def learn(self, proposal: Mapping[str, Passes], costs: Mapping[str, float]) -> None:
        """Record the costs after a proposal."""
        for name, passes in proposal.items():
            if self.functions[name].learn(passes, costs[name]) and len(self.functions[name].variants) > 1:
                self._choose(name)

    def _choose(self, name: str) -> None:
        """Choose the variant of a function again, alone or together with other callers of what it inlines."""
        moves = [{name: variant} for variant in self.functions[name].variants]
        for callee in self._calls.removable.intersection(self.functions[name].callees):
            callers = [caller for caller in self._calls.callers(callee) if caller in self._alive]
            moves.append({caller: self._best_variant(caller, callee) for caller in callers})
        before = {name: function.chosen for name, function in self.functions.items()}
        best, least = {}, self.cost
        for move in moves:
            cost = self._choose_all(move)
            if cost < least:
                best, least = move, cost
            self._choose_all({caller: before[caller] for caller in move})
        self._choose_all(best)

    def _best_variant(self, caller: str, callee: str) -> Inlined:
        """Return the cheapest variant of `caller` that inlines `callee`, or the chosen one if there is none."""
        function = self.functions[caller]
        known = [(elites[0][0], sorted(variant)) for variant, elites in function.variants.items() if callee in variant]
        return frozenset(min(known)[1]) if known else function.chosen

    def _choose_all(self, variants: Mapping[str, Inlined]) -> float:
        """Choose variants, and return the cost of the program with them."""
        for name, variant in variants.items():
            self.functions[name].chosen = variant
        self._alive = self._calls.alive(self.functions)
        return self.cost

    def _functions_to_improve(self) -> list[str]:
        return [
            name
            for name in self._calls.order
            if name in self._alive
            and (function := self.functions[name]).cost > SMALL
            and (function.idle < FRESH or self._random.random() < FRESH / function.idle)
        ] or self._calls.order

    def _marked(self, function: Function) -> Passes:
        """Return the best sequence with another mark that was not tried with it, or an empty one."""
        passes, _ = _split_mark(function.best)
        return next((one for mark in self._marks if (one := (*passes, mark)) not in function.tried), ())

    def _child(self, function: Function) -> Passes:
        """Return a sequence that was not tried on a function, or an empty one if none is found."""
        while function.first:
            child = (*_head(function.first.pop()), *function.best[bool(function.chosen) :])
            if child not in function.tried:
                return child
        if child := self._marked(function):
            return child
        for _ in range(ATTEMPTS):
            child, mark = self._mutate(function)
            while self._random.random() < AGAIN:
                child = self._mutate_passes(list(child))
            inlined = function.chosen
            if function.callees and self._random.random() < INLINE:
                inlined ^= {self._random.choice(function.callees)}
                if inlined not in function.variants:
                    child, mark = _split_mark(function.best[bool(function.chosen) :])
            child = (*_head(inlined), *child, *mark)
            if child not in function.tried:
                return child
        return ()

    def _mutate(self, function: Function) -> tuple[Passes, Passes]:
        """Return changed passes of one of a function's elites, and its mark, if it has one."""
        parent, mark = self._pick(function)
        if self._random.random() < 0.16:
            other, _ = self._pick(self._random.choice(list(self.functions.values())))
            return self._cross(parent, other), mark
        return self._mutate_passes(list(parent)), mark

    def _pick(self, function: Function) -> tuple[Passes, Passes]:
        """Return the passes of one of a function's elites, more often of a better one, and its mark, if it has one."""
        elites = function.elites
        place = min(int(self._random.expovariate(1.0)), len(elites) - 1)
        return _split_mark(elites[place][1][bool(function.chosen) :])

    def _cross(self, one: Sequence[str], other: Sequence[str]) -> Passes:
        return (*one[: self._random.randint(0, len(one))], *other[self._random.randint(0, len(other)) :])[:LONGEST]

    def _mutate_passes(self, passes: list[str]) -> Passes:
        chance, place = self._random.random(), self._random.randint(0, len(passes))
        if chance < 0.5 or not passes:
            passes.insert(place, self._random.choice(self._passes))
        elif chance < 0.72:
            del passes[place % len(passes)]
        elif chance < 0.9:
            passes[place % len(passes)] = self._random.choice(self._passes)
        else:
            passes.insert(self._random.randint(0, len(passes) - 1), passes.pop(place % len(passes)))
        return tuple(passes[:LONGEST])


def text_of(proposal: Mapping[str, Passes]) -> str:
    """Return the action that runs each function's passes."""
    return "".join(f"{name}({','.join(passes)})" for name, passes in proposal.items())


def _split_mark(passes: Passes) -> tuple[Passes, Passes]:
    return (passes[:-1], passes[-1:]) if passes and passes[-1] in MARKS else (passes, ())


def inlined_by(passes: Passes) -> Inlined:
    """Return the functions that a sequence inlines."""
    head = passes[0] if passes else ""
    return frozenset(NAME.findall(head)) if head.startswith(_INLINE) else NOTHING


def _head(inlined: Inlined) -> Passes:
    return (f"{_INLINE}{';'.join(sorted(inlined))}>",) if inlined else ()
