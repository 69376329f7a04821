"""What is in the assembly that GCC writes."""

import re
from collections import Counter

__all__ = ["instruction_counts"]

# Words that stand before an instruction of x86 and change it.
_PREFIXES = frozenset({"lock", "rep", "repe", "repz", "repne", "repnz", "notrack", "bnd", "xacquire", "xrelease"})

_COMMENT = re.compile(rb"/\*.*?\*/|(?://|[#@]\s|^\s*[#@!|]).*", re.DOTALL)
_STATEMENT = re.compile(
    rb"""\s* (?:[\w.$]+: \s*)*                  # labels
    (?P<name>[A-Za-z][\w.]*) (?![\w.:]) (?!\s*=)  # an instruction, or a prefix; directives begin with a dot
    (?:\s+ (?P<next>[A-Za-z][\w.]*))?""",
    re.VERBOSE,
)


def instruction_counts(assembly: bytes) -> dict[str, int]:
    """Return how often each instruction is in some assembly, by its name, most frequent first.

    A name is as it stands there: `movl` is not `mov`. A prefix belongs to it, as in `rep stosq`. Labels, directives and
    comments are no instructions.
    """
    counts: Counter[str] = Counter()
    for line in assembly.splitlines():
        if not line or line.lstrip()[:1] in (b".", b"#", b""):  # most of what is no instruction, at little cost
            continue
        for statement in _COMMENT.sub(b"", line).split(b";"):
            found = _STATEMENT.match(statement)
            if found is None:
                continue
            name, following = found["name"].decode(), found["next"]
            counts[f"{name} {following.decode()}" if name in _PREFIXES and following else name] += 1
    return dict(counts.most_common())
