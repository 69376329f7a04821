"""Results of auditing LLVM's passes, with the passes to blame. Pure."""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec


class Kind(enum.StrEnum):
    """The ways in which passes misbehave."""

    CRASH = "crash"
    HANG = "hang"
    BROKEN_IR = "broken IR"
    NONDETERMINISM = "nondeterminism"
    MISCOMPILE = "miscompile"
    NO_CODE = "no machine code"


class Finding(msgspec.Struct, kw_only=True):
    """One misbehaviour.

    Attributes:
        actions: texts of the fewest actions that show it; the list that was tried when `minimal` is False.
        minimal: the list could be shrunk: it shows the same again.
        seen: how many trajectories showed it: lists with these actions in this order, on this program.
    """

    kind: Kind
    program: str
    actions: tuple[str, ...]
    tried: int
    evidence: str
    minimal: bool = True
    seen: int = 1

    def covers(self, kind: Kind, program: str, actions: Sequence[str]) -> bool:
        """Say whether a failure is probably this one again."""
        rest = iter(actions)
        return (kind, program) == (self.kind, self.program) and all(action in rest for action in self.actions)


class Blame(msgspec.Struct, kw_only=True):
    """A pass, and one kind of misbehaviour of which it is the probable cause; the shortest finding comes first."""

    action: str
    kind: Kind
    findings: list[Finding]
    uses: int


class Report(msgspec.Struct, kw_only=True):
    """An audit, as far as it has come.

    Attributes:
        suspects: passes of which each trajectory has at least one.
        trajectories: action lists that were tried, each in two processes.
        uses: how often each action was applied.
    """

    compiler_version: str = ""
    seed: int = 0
    suspects: tuple[str, ...] = ()
    programs: int = 0
    trajectories: int = 0
    uses: dict[str, int] = msgspec.field(default_factory=dict)
    findings: list[Finding] = msgspec.field(default_factory=list)
    walltime: float = 0.0

    def add(self, finding: Finding) -> None:
        """Take in a finding; one that is known is counted."""
        for known in self.findings:
            if (known.kind, known.program, known.actions) == (finding.kind, finding.program, finding.actions):
                known.seen += finding.seen
                return
        self.findings.append(finding)

    def blames(self) -> list[Blame]:
        """Return the passes to blame, most findings first.

        A list of several actions does not say which of them is wrong. So of each kind of misbehaviour the fewest
        passes are blamed that account for all lists: the one that is in most of them, then the one that is in most of
        the rest, and so on; a suspect before others, and the later in a list before the earlier.
        """
        blames = []
        for kind in Kind:
            rest = [finding for finding in self.findings if finding.kind == kind]
            while rest:
                action = self._most_common(rest)
                own = [finding for finding in rest if action in finding.actions]
                rest = [finding for finding in rest if action not in finding.actions]
                own.sort(key=lambda finding: (not finding.minimal, len(finding.actions), finding.actions))
                blames.append(Blame(action=action, kind=kind, findings=own, uses=self.uses.get(action, 0)))
        return sorted(blames, key=lambda blame: (-len(blame.findings), blame.action))

    def _most_common(self, findings: Sequence[Finding]) -> str:
        counts = Counter(action for finding in findings for action in set(finding.actions))
        places = {action: index for finding in findings for index, action in enumerate(finding.actions)}
        return max(counts, key=lambda action: (counts[action], action in self.suspects, places[action], action))

    def to_json(self) -> dict[str, Any]:
        """Return the report, with the blames, as a JSON object."""
        return {**msgspec.to_builtins(self), "blames": msgspec.to_builtins(self.blames())}

    def to_markdown(self) -> str:
        """Return the report as a table in Markdown."""
        total = sum(self.uses.values())
        lines = [
            f"{self.compiler_version}: {self.trajectories} random lists with {total} passes in all, on {self.programs} "
            f"programs, seed {self.seed}, in {self.walltime:.0f} s.",
            "",
            "| pass | misbehaviour | findings | programs | uses | shortest list | on | evidence |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for blame in self.blames():
            first = blame.findings[0]
            cells = (
                f"`{blame.action}`",
                str(blame.kind),
                sum(finding.seen for finding in blame.findings),
                len({finding.program for finding in blame.findings}),
                blame.uses,
                f"`{','.join(first.actions)}`" + ("" if first.minimal else " (not shown again)"),
                first.program.removeprefix("benchmark://"),
                first.evidence.replace("|", "\\|"),
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        if not self.findings:
            lines.append("| none | | | | | | | |")
        return "\n".join(lines) + "\n"
