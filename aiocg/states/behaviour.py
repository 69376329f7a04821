"""Five outcomes of comparing a program's behaviour."""

import enum


class Behaviour(enum.StrEnum):
    """How an optimised program behaves beside the program as it came; only `SAME` is a proof.

    The reference is what the program does as it came and at the compiler's own levels for small and for fast code.

    Attributes:
        SAME: it was run, and does what the reference does: output, files, exit status, and ending at all.
        DIFFERS: the reference agrees with itself, and this program does something else: it was miscompiled.
        FAILS: the program fails by itself, whatever is done to it: it crashes, or breaks its benchmark's promises.
        VARIES: the reference varies from run to run or from level to level, so its behaviour is chance or undefined.
        NOT_RUN: nothing was compared.
    """

    SAME = "same"
    DIFFERS = "differs"
    FAILS = "fails"
    VARIES = "varies"
    NOT_RUN = "not run"

    def sentence(self, reason: str) -> str:
        """Return the outcome in words.

        Args:
            reason: what was seen, or why nothing was.
        """
        return f"{_WORDS[self]} {reason}".strip()


_WORDS = {
    Behaviour.SAME: "same:",
    Behaviour.DIFFERS: "differs: miscompiled:",
    Behaviour.FAILS: "your program fails by itself:",
    Behaviour.VARIES: "varies or undefined:",
    Behaviour.NOT_RUN: "not run, because",
}
