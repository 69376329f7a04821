"""Translation of CompilerGym's command lines for the present compiler."""

import msgspec


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line of CompilerGym is for the compiler at hand.

    Attributes:
        commandline: as it was written.
        actions: what can be done today, as texts of actions.
        flags: how many flags of LLVM 10's `opt` it has; 0 for one that was written for today's `opt`.
        gone: the flags that nothing today does the job of, with how often they occur. They are left out.
        reasons: why, for each of them.
        renamed: the flags whose pass has another name or form today, with that.
        compiler: the compiler at hand.
    """

    commandline: str
    actions: tuple[str, ...] = ()
    flags: int = 0
    gone: dict[str, int] = {}
    reasons: dict[str, str] = {}
    renamed: dict[str, str] = {}
    compiler: str = ""

    @property
    def another_compiler(self) -> bool:
        """Was the command line made for another compiler than the one at hand, so that other rewards are no errors?"""
        return self.flags > 0

    def __str__(self) -> str:
        left_out = sum(self.gone.values())
        if not self.flags:
            return f"{len(self.actions)} actions for {self.compiler}"
        names = ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in self.gone.items())
        text = f"{self.flags - left_out} of {self.flags} flags of LLVM 10 have a pass in {self.compiler}"
        return f"{text}; left out: {names}" if self.gone else text
