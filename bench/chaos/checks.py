"""What must have been so: functions of the ledgers and of what was seen from outside, and of nothing else.

Each returns the violations it found. A violation says which rule was broken, by whom, and how.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.chaos.faults import MISDEEDS, SENT
from bench.chaos.ledger import Key, Ledger, Trespass, microseconds
from bench.chaos.remains import Remains
from bench.chaos.witness import Sample, Sighting
from bench.chaos.world import Form, Turn, Walk, value_after

DESCRIPTORS = 8  # by which the client's may differ while all is at rest
MEMORY = 24 << 20  # bytes by which the client may grow in the second half of a run
DELAY = 10.0  # seconds after the last fault that met its worker slot in which a request must be answered
ZOMBIE_SECONDS = 5.0  # that a child of the client may wait to be waited for


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken.

    Attributes:
        rule: in a few words.
        who: an environment and its request, or what else it is about.
        details: what was found and what was expected.
    """

    rule: str
    who: str
    details: str


def nobody_else_ended(ledger: Ledger) -> list[Violation]:
    """No episode may end but by a misdeed of its own."""
    return [Violation("ended without fault", _who(key), words) for key, words in ledger.ends]


def everybody_arrived(ledger: Ledger, walks: Sequence[Walk]) -> list[Violation]:
    """Each environment walks to its end."""
    missing = [walk for walk in walks if walk.index not in ledger.finals]
    return [Violation("did not arrive", f"environment {walk.index}", f"{walk.environment}") for walk in missing]


def states_are_the_same(reference: Ledger, disturbed: Ledger) -> list[Violation]:
    """Each request, and each walk as a whole, leads to the states it leads to undisturbed."""
    found = []
    for key, answers in reference.answers.items():
        for answer in disturbed.answers.get(key, ()):
            if answer.states != answers[0].states:
                found.append(Violation("another state", _who(key), _states(answer.states, answers[0].states)))
    for environment, state in reference.finals.items():
        other = disturbed.finals.get(environment, state)
        if other != state:
            found.append(Violation("another final state", f"environment {environment}", _states([other], [state])))
    return found


def nothing_was_lost(reference: Ledger, disturbed: Ledger) -> list[Violation]:
    """Each request of the undisturbed run was made, by those that did not stop half-way, and answered once."""
    missing = [key for key in reference.asked if key not in disturbed.asked and key[0] in disturbed.finals]
    found = [Violation("not asked", _who(key), "") for key in missing]
    found += [Violation("asked twice", _who(key), "") for key in disturbed.repeated]
    ended = {key for key, _ in disturbed.ends}
    for key in disturbed.asked:
        count = len(disturbed.answers.get(key, ()))
        if count > 1:
            found.append(Violation("answered twice", _who(key), f"{count} answers"))
        elif not count and not any(_part_of(key, end) for end in ended):
            found.append(Violation("lost", _who(key), "no answer"))
    return found


def everything_happened_once(ledger: Ledger, walks: Sequence[Walk]) -> list[Violation]:
    """Environments have taken the actions that were acknowledged; numbers tell how often each was done.

    This compares with what the walks say, not with another run: a scripted environment's number is computed here.
    """
    found = []
    ended = {key[0] for key, _ in ledger.ends}
    for walk in walks:
        if walk.index in ended:
            continue  # which is a violation of its own; after it this one cannot be judged
        for episode in walk.episodes:
            taken: list[str] = []
            start = int(episode.benchmark.rpartition("/")[2]) if walk.scripted else 0
            for turn in episode.turns:
                before = list(taken)
                taken += turn.kept
                for key, length, actions in _requests(walk.index, turn, before):
                    for answer in ledger.answers.get(key, ()):
                        if answer.taken != length:
                            text = f"{answer.taken} actions were taken, {length} were acknowledged"
                            found.append(Violation("done twice or never", _who(key), text))
                        if walk.scripted:
                            expected = tuple(value_after(start, [*before, *done]) for done in actions)
                            if answer.states != expected:
                                text = _states(answer.states, expected)
                                found.append(Violation("done twice or never", _who(key), text))
    return found


def _requests(
    environment: int, turn: Turn, before: Sequence[str]
) -> list[tuple[tuple[int, str], int, list[tuple[str, ...]]]]:
    """Return the requests of a turn: key, number of actions taken after it, and what leads to each of its states."""
    name, actions, length = f"{turn.form} {turn.number}", turn.actions, len(before)
    match turn.form:
        case Form.STEP:
            return [((environment, name), length + len(actions), [actions])]
        case Form.FORK:
            return [((environment, name), length, [actions])]
        case Form.EXPAND:
            return [((environment, name), length, [(action,) for action in actions])]
        case Form.BURST:
            counts = range(1, len(actions) + 1)
            return [((environment, f"{name}.{n - 1}"), length + n, [actions[:n]]) for n in counts]


def misdeeds_became_errors(ledger: Ledger, sightings: dict[int, Sighting], grace: float) -> list[Violation]:
    """Each misdeed got the kind of error that it should, in time.

    A deadline counts from when a worker last began, and leaves some seconds of grace. What dies before its deadline may
    be executed several times until the guilty one is found, so that only the delay after the last time is judged. Where
    nobody saw a worker begin, there is nothing to go by.
    """
    found = []
    kinds = {one.name: one for one in MISDEEDS}
    for key, trespass in ledger.trespasses.items():
        who = f"environment {trespass.environment}, {trespass.name} {trespass.turn}"
        if trespass.told is None:
            found.append(Violation("no error", who, "no answer at all"))
            continue
        if trespass.error not in kinds[trespass.name].errors:
            found.append(Violation("wrong error", who, f"{trespass.error or 'none'} came of it: {trespass.words}"))
        if not trespass.harmless:
            text = f"more than the guilty one failed: {trespass.error or 'no error'}, {trespass.words}"
            found.append(Violation("harmed others", who, text))
        sighting = sightings.get(key)
        if sighting is not None and trespass.told > _latest(trespass, sighting, grace):
            text = f"{trespass.error} {trespass.told - sighting.started:.2f} s after its last execution had begun"
            found.append(Violation("late error", who, f"{text}, its deadline was {trespass.timeout:.2f} s"))
    return found


def _latest(trespass: Trespass, sighting: Sighting, grace: float) -> float:
    """Return when there must be an error at the latest."""
    if trespass.error == "DeadlineExceeded":
        return sighting.started + trespass.timeout + grace
    return max(sighting.started + trespass.timeout + grace, sighting.seen + DELAY)


def waits(ledger: Ledger) -> dict[Key, float]:
    """Return for each request how many seconds it took after it was made, or after the last fault that met its slot.

    A fault is over with the death of the worker, or with the end of the misdeed. A session may have moved meanwhile.
    Resets are left out: they compile programs in the client.
    """
    found = {}
    for key, (answer, *_) in ledger.answers.items():
        if key in ledger.slots and not key[1].startswith("reset"):
            faults = [over for slot in (ledger.slots[key], answer.slot) for over in ledger.overs.get(slot, ())]
            found[key] = answer.when - max([ledger.asked[key], *(over for over in faults if over <= answer.when)])
    return found


def answers_were_in_time(ledger: Ledger) -> list[Violation]:
    """Nobody waits for long once the last fault that meets its worker slot is over."""
    late = {key: seconds for key, seconds in waits(ledger).items() if seconds > DELAY}
    return [
        Violation("late answer", _who(key), f"{each:.1f} s after the last fault, on {ledger.answers[key][0].slot}")
        for key, each in late.items()
    ]


def judged(ledger: Ledger, sightings: dict[int, Sighting]) -> int:
    """Count the misdeeds whose delay could be told."""
    return sum(1 for key, one in ledger.trespasses.items() if one.told is not None and key in sightings)


def overrun(ledger: Ledger, sightings: dict[int, Sighting]) -> float:
    """Return by how many seconds the latest error came after its deadline; deaths come before it."""
    late = [
        one.told - sightings[microseconds(one.timeout)].started - one.timeout
        for one in ledger.trespasses.values()
        if one.told is not None and microseconds(one.timeout) in sightings
    ]
    return max([0.0, *late])


def use_is_flat(
    samples: Sequence[Sample], marks: dict[str, float], zombies: dict[int, tuple[float, float]]
) -> list[Violation]:
    """File descriptors are at the end what they were at the start, and memory has not grown in the second half."""
    if not {"walking", "finished", "rested"} <= marks.keys():
        return []
    found = []
    start, end = first_and_rest(samples, marks)
    if start is not None and end is not None and end.descriptors > start.descriptors + DESCRIPTORS:
        text = f"{end.descriptors} while at rest, {start.descriptors} at the start"
        found.append(Violation("descriptors leak", "the client", text))
    middle = (marks["walking"] + marks["finished"]) / 2
    half = [sample.memory for sample in samples if marks["walking"] <= sample.when <= middle]
    if half and end is not None and end.memory > max(half) + MEMORY:
        text = f"{end.memory >> 20} MiB at the end, {max(half) >> 20} MiB in the first half"
        found.append(Violation("memory grows", "the client", text))
    for pid, (first, last) in zombies.items():
        if last - first > ZOMBIE_SECONDS:
            found.append(Violation("zombie", f"process {pid}", f"for {last - first:.1f} s below the client"))
    return found


def first_and_rest(samples: Sequence[Sample], marks: dict[str, float]) -> tuple[Sample | None, Sample | None]:
    """Return what was used when the walks began, and when all was at rest after them."""
    start = [sample for sample in samples if sample.when <= marks.get("walking", 0.0)]
    rest = [sample for sample in samples if marks.get("rested", 1e99) <= sample.when <= marks.get("busy", 1e99)]
    return start[-1] if start else None, rest[-1] if rest else None


def nothing_remains(left: Remains, after: str) -> list[Violation]:
    """No process, zombie, socket, shared memory or temporary file is left."""
    kinds = ("processes", "zombies", "sockets", "memory", "files")
    return [Violation(f"{kind} remain", after, one) for kind in kinds for one in getattr(left, kind)]


def workers_came_back(expected: int, found: int | None) -> list[Violation]:
    """All workers are up again, once the faults have ended."""
    if found is None or found == expected:
        return []
    return [Violation("workers gone", "the client", f"{found} of {expected} workers were up at the end")]


def sent_signals_did_nothing(ledger: Ledger) -> list[Violation]:
    """No worker died of a crash signal that was sent to it, as the first that is sent comes from nothing else."""
    cause = f"signal {SENT[0].name}"
    return [Violation("died of what was sent", "a worker", cause) for _ in range(ledger.causes[cause])]


def _part_of(key: tuple[int, str], end: tuple[int, str]) -> bool:
    """Is a request the one that ended, or one of several that were made together?"""
    return key[0] == end[0] and key[1].partition(".")[0] == end[1]


def _who(key: tuple[int, str]) -> str:
    return f"environment {key[0]}, {key[1]}"


def _states(found: Sequence[int], expected: Sequence[int]) -> str:
    def text(states: Sequence[int]) -> str:
        return " ".join(f"{state:016x}" for state in states)

    return f"{text(found)} instead of {text(expected)}"
