"""Faults planted in the runtime, each with the seed of a schedule that finds it: what the simulation is worth.

python -m bench.simulation --mutants            # search for seeds anew; 10,000 schedules each at most
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Mutant:
    """A fault to plant.

    Attributes:
        name: what is wrong.
        module: the module that gets it.
        old, new: a text that occurs once in the module's source, and what replaces it.
        seed: of a schedule that finds it, None if none is known.
    """

    name: str
    module: str
    old: str
    new: str
    seed: int | None = None


_SLOT, _BLAME, _SUSPICION = "aiocg.fleet.slot", "aiocg.fleet.blame", "aiocg.fleet._suspicion"
_WITHDRAWAL, _REQUESTS, _POLICY = "aiocg.fleet._withdrawal", "aiocg.fleet.requests", "aiocg.fleet.restart_policy"
_SUPERVISOR, _REBUILDABLE, _SESSION = "aiocg.fleet.supervisor", "aiocg.fleet.rebuildable", "aiocg.fleet.session"
_RUN_TIME = "aiocg.host.run_time"
_LEASES, _ATTACHMENT, _LINK = "aiocg.node.leases", "aiocg.node.attachment", "aiocg.transport.link"
_MEMBERSHIP, _CLUSTER = "aiocg.cluster._membership", "aiocg.cluster.machine"

MUTANTS = (
    Mutant("a resent request goes to the end", _SLOT, "[*resent, *self._backlog]", "[*self._backlog, *resent]", 30),
    Mutant("sessions are not rebuilt", _SLOT, "        self.bound.clear()\n", "        pass\n", 0),
    Mutant("benchmarks are not loaded again", _SLOT, "        self.loads.forget()\n", "        pass\n", 0),
    Mutant(
        "a child counts as bound after a failed parent",
        _SLOT,
        "self._bound.discard(pending.child.number)",
        "pass",
        1581,
    ),
    Mutant("an ended session goes on", _SLOT, "if session.ended and isinstance", "if False and isinstance", 607),
    Mutant("the unwanted are sent again", _SLOT, "self.queue.refill(wanted)", "pass", 2),
    Mutant("an heir does not adopt", _SLOT, "heir.residents.adopt(session)", "pass", 620),
    Mutant(
        "moved requests are dropped", _SLOT, "        for pending in moved:\n            heir.send(pending)\n", "", 0
    ),
    Mutant("the moved keep their old slot", _SLOT, "            session.worker = heir\n", "            pass\n", 0),
    Mutant(
        "closed sessions stay on the process",
        _SLOT,
        "self._released += self.bound",
        "self._released += set() and self.bound",
        33,
    ),
    Mutant(
        "a reset forgets that an action failed before",
        _SLOT,
        "pending.replaces = session.number in self.bound",
        "pending.replaces = True",
        165,
    ),
    Mutant("interrupted requests go on", _SLOT, "self._flowing = self._flowing and not was_busy", "pass"),
    Mutant(
        "the first who crashes is convicted",
        _BLAME,
        "elif suspicion.accused is request and suspicion.is_alone(request):",
        "elif True:",
        25,
    ),
    Mutant("nobody is ever convicted", _BLAME, "if witnessing is controlled:", "if witnessing is not controlled:", 0),
    Mutant("kills from outside convict at once", _BLAME, "return MAX_ATTEMPTS if death.outside else 1", "return 1", 13),
    Mutant("a stall convicts at once", _BLAME, "        return MAX_STALLS\n", "        return 1\n", 661),
    Mutant(
        "an overrun deadline is forgiven",
        _BLAME,
        "return MAX_ATTEMPTS if death.outside else 1",
        "return MAX_ATTEMPTS",
        19,
    ),
    Mutant(
        "a sentence spares the session",
        _BLAME,
        "            judgement.lost.append((request.session, error))\n\n    def _blame_recovery",
        "            pass\n\n    def _blame_recovery",
        665,
    ),
    Mutant(
        "earlier requests fail with the guilty one",
        _BLAME,
        "        if following:\n            held",
        "        if False:\n            held",
        9,
    ),
    Mutant(
        "a rebuild that dies ends its session",
        _BLAME,
        "session.crashes >= MAX_CRASHES if known else again",
        "True",
        279,
    ),
    Mutant(
        "a load that never succeeds is repeated for ever",
        _BLAME,
        "session.crashes >= MAX_CRASHES if known else again",
        "False",
        15,
    ),
    Mutant(
        "others go before the accused",
        _SUSPICION,
        "return earlier[::-1] + rest[::-1]",
        "return rest[::-1] + earlier[::-1]",
        0,
    ),
    Mutant("the accused is forgotten on a new process", _SUSPICION, "if self.accused not in requests:", "if True:", 0),
    Mutant("what is abandoned is needed by nobody", _WITHDRAWAL, "        needed.add(request.session)\n", "", 8),
    Mutant("what is lost loses nothing behind it", _WITHDRAWAL, "            lost.update(request.changes())\n", "", 92),
    Mutant(
        "a reset depends on what was cancelled",
        _WITHDRAWAL,
        "isinstance(request, PendingOpen) or request.independent",
        "request.independent",
    ),
    Mutant("harmful sessions move, too", _WITHDRAWAL, "and group.isdisjoint(harmful)", ""),
    Mutant(
        "acknowledged actions are not recorded",
        _REQUESTS,
        "session.trajectory = session.trajectory.extended(self.actions, reply.state)\n        self._deliver",
        "self._deliver",
        0,
    ),
    Mutant(
        "a fork has its parent's past only",
        _REQUESTS,
        "        self.child.trajectory = self.session.trajectory\n        self.child.ended = False\n",
        "        self.child.ended = False\n",
        1,
    ),
    Mutant("a rebuilt state is not checked", _REQUESTS, "if reply.state != self.trajectory.state:", "if False:", 0),
    Mutant(
        "rejected requests still count as pending",
        _REQUESTS,
        "            session.pending -= 1\n",
        "            session.pending -= not isinstance(outcome, Exception)\n",
        2,
    ),
    Mutant(
        "refused parameters stay",
        _REBUILDABLE,
        "self.value, self.is_answered = None, True",
        "self.is_answered = True",
        2,
    ),
    Mutant("forks share what comes after", _REBUILDABLE, "if len(segment.actions) != self._end:", "if False:", 9),
    Mutant("a stall is not noticed", _POLICY, "stalled=watched > self.policy.stall_timeout", "stalled=False", 60),
    Mutant("silent starts are waited for", _POLICY, "elif watched > self.policy.start_timeout:", "elif False:", 0),
    Mutant(
        "cancelled work goes on",
        _POLICY,
        "if seen.unwanted_until is not None and now >= seen.unwanted_until:",
        "if False:",
        39,
    ),
    Mutant("drained workers live on", _POLICY, "if drained:", "if False:", 46),
    Mutant(
        "kills from outside are evidence",
        _POLICY,
        "return return_code < 0 and -return_code in OUTSIDE_SIGNALS",
        "return False",
        64,
    ),
    Mutant(
        "a slot that was given up never returns", _POLICY, "if self.state is not SlotState.FAILED or", "if True or", 201
    ),
    Mutant("pauses count as work", _RUN_TIME, "self._paused += passed", "self._paused += 0 * passed", 945),
    Mutant("a busy client sees stalls", _RUN_TIME, "min(now - self._looked, GRAIN)", "now - self._looked", 521),
    Mutant(
        "nobody is relieved of a missing worker",
        _SUPERVISOR,
        "                self._relieve(index, missing=True)\n",
        "                pass\n",
    ),
    Mutant("no successor takes over", _SUPERVISOR, "self._successors.pop(index, None) or await", "await", 107),
    Mutant(
        "an overrun is blamed on what came after",
        _SUPERVISOR,
        "outside = execution is None or not execution.is_same(condemned)",
        "outside = False",
    ),
    Mutant("what follows the cancelled is blamed", _SUPERVISOR, "execution = execution if cancelled else None", "pass"),
    Mutant("a fork ahead waits for nothing", _SESSION, "if self.pending or child.pending", "if child.pending", 1),
    Mutant(
        "a request behind a cancelled one depends on it",
        _SESSION,
        "            pending.independent = True\n",
        "            pass\n",
        205,
    ),
    Mutant("the clocks of two machines are one", _LEASES, "execution.deadline - now,", "execution.deadline,", 23),
    Mutant("what a node says of time is taken for ours", _ATTACHMENT, "now + stated.left", "stated.left", 47),
    Mutant(
        "an overrun is assumed while nothing is heard",
        _ATTACHMENT,
        "if execution is not None and remote.seen <= execution.deadline <= now:",
        "if False:",
        5663,
    ),
    Mutant(
        "a worker is asked for again and started again",
        _LEASES,
        "if holder is not None:  # a rep",
        "if False:  # a rep",
        23,
    ),
    Mutant("a spawn is sent once", _ATTACHMENT, "            self._fresh = list(self.remotes)\n", "", 5447),
    Mutant(
        "workers that a node has lost are waited for",
        _ATTACHMENT,
        "return [Ended(number, KILLED, Look(lost=True)) for number in lost]",
        "return []",
        359,
    ),
    Mutant(
        "a killed worker's end is waited for",
        _ATTACHMENT,
        "if not self.is_silent(now):\n            return []",
        "if True:\n            return []",
    ),
    Mutant(
        "silent nodes are never lost",
        _MEMBERSHIP,
        "if self._missed[node] > self._patience",
        "if self._missed[node] > math.inf",
        287,
    ),
    Mutant(
        "a batch that came twice counts twice", _LINK, "if number != self._taken + 1:", "if number > self._taken + 1:"
    ),
    Mutant(
        "a batch that came too early is taken",
        _LINK,
        "if number != self._taken + 1:",
        "if number <= self._taken:",
        2207,
    ),
    Mutant(
        "what was lost is not sent again",
        _LINK,
        "        if head.kind == Kind.AGAIN:\n            self._send_again()\n",
        "        pass\n",
        3479,
    ),
    Mutant("gaps are not noticed", _LINK, "if head.sent > self._taken and", "if False and", 3479),
    Mutant(
        "who is unknown waits for ever",
        _LINK,
        '            self._lose("it does not know this client, or has forgotten it")\n',
        "",
        359,
    ),
    Mutant("a link that is silent is not asked", _LINK, "if now - self._since >= self._patience:", "if False:", 2711),
    Mutant(
        "a lost node keeps its workers",
        _CLUSTER,
        "                    members[node].fall()\n",
        "                    pass\n",
        1535,
    ),
)


class _Planter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a fault."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to import the module, None for all others."""
        if fullname != self._mutant.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None and found.origin is not None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the changed source."""
        assert module.__file__ is not None
        with open(module.__file__, encoding="utf-8") as file:
            source = file.read()
        if source.count(self._mutant.old) != 1:
            raise ValueError(f"{self._mutant.old!r} occurs {source.count(self._mutant.old)} times in {module.__name__}")
        exec(compile(source.replace(self._mutant.old, self._mutant.new), module.__file__, "exec"), module.__dict__)


def plant(name: str) -> Mutant:
    """Plant a fault into modules that are yet to be imported; return it."""
    (mutant,) = [one for one in MUTANTS if one.name == name]
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} was imported before")
    sys.meta_path.insert(0, _Planter(mutant))
    return mutant
