"""Says what was done, what came of it, and which rules were broken, for people and as JSON."""

import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.chaos import checks
from bench.chaos.checks import Violation
from bench.chaos.faults import EARLY, EARLY_HOW, FAULTS, MISDEEDS, NAMES
from bench.chaos.run import Outcome
from bench.chaos.world import Settings, walks

SHOWN = 20  # violations; the JSON has them all


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an outcome is worth: the counts, by name, and the violations."""

    counts: dict[str, int | float]
    violations: tuple[Violation, ...]


def judge(outcome: Outcome) -> Verdict:
    """Apply all checks."""
    settings, reference, disturbed = outcome.settings, outcome.reference, outcome.disturbed
    sightings, samples = outcome.witness.sightings, outcome.witness.samples
    paths = walks(settings)
    found: list[Violation] = []
    if outcome.gave_up:
        found.append(Violation("not brought to its end", "the run", f"{outcome.gave_up}\n{outcome.last_words}"))
    found += [*checks.nobody_else_ended(reference), *checks.everything_happened_once(reference, paths)]
    found += checks.nothing_remains(outcome.reference_remains, "the client that ended by itself")
    if "walking" in disturbed.marks:
        found += checks.nobody_else_ended(disturbed)
        found += checks.everybody_arrived(disturbed, paths)
        found += checks.states_are_the_same(reference, disturbed)
        found += checks.nothing_was_lost(reference, disturbed)
        found += checks.everything_happened_once(disturbed, paths)
        found += checks.misdeeds_became_errors(disturbed, sightings, settings.grace)
        found += checks.answers_were_in_time(disturbed)
        found += checks.sent_signals_did_nothing(disturbed)
        found += checks.use_is_flat(samples, disturbed.marks, outcome.witness.zombies)
        kinds = len({walk.environment for walk in paths})
        found += checks.workers_came_back(settings.workers * kinds, disturbed.facts.get("workers"))
    found += checks.nothing_remains(outcome.remains, "the client that was killed")
    for seconds, left in outcome.early:
        found += checks.nothing_remains(left, f"a client that was killed {seconds:.2f} s after its start")
    return Verdict(_counts(outcome), tuple(found))


def _counts(outcome: Outcome) -> dict[str, int | float]:
    disturbed, witness = outcome.disturbed, outcome.witness
    start, rest = checks.first_and_rest(witness.samples, disturbed.marks)
    delays = [
        answers[0].when - disturbed.asked[key] for key, answers in disturbed.answers.items() if key in disturbed.asked
    ]
    return {
        "environments": outcome.settings.environments,
        "environments that arrived": len(disturbed.finals),
        "requests of the undisturbed run": len(outcome.reference.asked),
        "requests made": len(disturbed.asked),
        "requests acknowledged": disturbed.acknowledged,
        "episodes that ended without fault": len(disturbed.ends),
        "resets tried again": len(disturbed.retries),
        "faults from outside": len(outcome.injector.struck),
        "misdeeds": len(disturbed.trespasses),
        "misdeeds whose delay was seen": checks.judged(disturbed, witness.sightings),
        "worst error after its deadline, s": round(checks.overrun(disturbed, witness.sightings), 3),
        "worst delay of a request, s": round(max(delays, default=0.0), 3),
        "worst delay after the last fault of its slot, s": round(max(checks.waits(disturbed).values(), default=0.0), 3),
        "worker processes used": len(witness.known),
        "client's descriptors at the start": start.descriptors if start else 0,
        "client's descriptors at rest": rest.descriptors if rest else 0,
        "client's memory at the start, MiB": start.memory >> 20 if start else 0,
        "client's memory at rest, MiB": rest.memory >> 20 if rest else 0,
        "left by the killed client": len(checks.nothing_remains(outcome.remains, "")),
        "left by those killed early": sum(len(checks.nothing_remains(left, "")) for _, left in outcome.early),
        "until nothing was left, s": round(outcome.remains.seconds, 3),
        "seconds in all": round(outcome.seconds, 1),
    }


def reproduction(settings: Settings) -> str:
    """Return the command that does all this again."""
    words = ["python", "-m", "bench.chaos", "--seed", str(settings.seed)]
    words += ["--environments", str(settings.environments), "--workers", str(settings.workers)]
    words += ["--seconds", f"{settings.seconds:g}", "--pause", f"{settings.pause:g}", "--gap", f"{settings.gap:g}"]
    without = [name for name in NAMES if name not in settings.faults]
    option, names = ("--without", without) if len(without) < len(settings.faults) else ("--fault", settings.faults)
    for name in names:
        words += [option, name]
    return shlex.join(words)


def show(console: Console, outcome: Outcome, verdict: Verdict) -> None:
    """Print tables of faults and counts, and the violations."""
    console.print(_faults(outcome))
    counts = Table(title="counts", title_justify="left", title_style="bold", show_header=False)
    counts.add_column("what")
    counts.add_column("count", justify="right")
    for name, count in verdict.counts.items():
        counts.add_row(name, f"{count:,}")
    console.print(counts)
    if not verdict.violations:
        console.print("[green]no violation[/]")
        return
    by_rule = Counter(violation.rule for violation in verdict.violations)
    console.print(f"[red]{len(verdict.violations)} violations[/]: " + ", ".join(f"{n} {r}" for r, n in by_rule.items()))
    for violation in verdict.violations[:SHOWN]:
        console.print(f"  {violation.rule}: {violation.who}: {violation.details}", markup=False)
    if len(verdict.violations) > SHOWN:
        console.print(f"  and {len(verdict.violations) - SHOWN} more; --json has them all")
    console.print(f"seed {outcome.settings.seed}; again:\n  {reproduction(outcome.settings)}", markup=False)


def _faults(outcome: Outcome) -> Table:
    table = Table(title="faults", title_justify="left", title_style="bold")
    for column in ("fault", "how", "times", "what came of it"):
        table.add_column(column)
    struck = Counter(one.name for one in outcome.injector.struck)
    skipped: dict[str, list[str]] = {}
    for (name, why), count in outcome.injector.skipped.items():
        skipped.setdefault(name, []).append(f"skipped {count} times: {why}")
    for fault in FAULTS:
        if fault.name in outcome.settings.faults:
            table.add_row(fault.name, fault.how, str(struck[fault.name]), "; ".join(skipped.get(fault.name, [])))
    errors = outcome.disturbed.errors_by_misdeed()
    for one in MISDEEDS:
        if one.name in outcome.settings.faults:
            came = errors.get(one.name, Counter())
            text = ", ".join(f"{count} {error}" for error, count in came.items())
            table.add_row(one.name, one.how, str(came.total()), text)
    if EARLY in outcome.settings.faults:
        table.add_row(EARLY, EARLY_HOW, str(len(outcome.early)), "")
    killed = "1" if "busy" in outcome.disturbed.marks else "0"
    table.add_row("kill-client", "SIGKILL to the client, at the end", killed, "")
    return table


def as_json(outcome: Outcome, verdict: Verdict) -> dict[str, Any]:
    """Return everything as JSON can say it."""
    return {
        "settings": outcome.settings.to_dict(),
        "reproduction": reproduction(outcome.settings),
        "counts": verdict.counts,
        "faults": [{"when": one.when, "name": one.name, "what": one.what} for one in outcome.injector.struck],
        "skipped": [{"name": n, "why": why, "count": c} for (n, why), c in outcome.injector.skipped.items()],
        "misdeeds": [asdict(one) for one in outcome.disturbed.trespasses.values()],
        "statistics": outcome.disturbed.facts.get("statistics", []),
        "violations": [asdict(violation) for violation in verdict.violations],
    }


def show_names(console: Console) -> None:
    """Print all faults."""
    for name, how in [*((one.name, one.how) for one in (*FAULTS, *MISDEEDS)), (EARLY, EARLY_HOW)]:
        console.print(f"{name:12} {how}", markup=False)
