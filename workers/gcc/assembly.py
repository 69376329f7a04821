"""Counting the instructions in the assembly that GCC writes."""

import re
from collections import Counter

# Prefixes that modify an x86 instruction.
_PREFIXES = frozenset({"lock", "rep", "repe", "repz", "repne", "repnz", "notrack", "bnd", "xacquire", "xrelease"})

_COMMENT = re.compile(rb"/\*.*?\*/|(?://|[#@]\s|^\s*[#@!|]).*", re.DOTALL)
_STATEMENT = re.compile(
    rb"""\s* (?:[\w.$]+: \s*)*                  # labels
    (?P<name>[A-Za-z][\w.]*) (?![\w.:]) (?!\s*=)  # an instruction, or a prefix; directives begin with a dot
    (?:\s+ (?P<next>[A-Za-z][\w.]*))?""",
    re.VERBOSE,
)


def instruction_counts(assembly: bytes) -> dict[str, int]:
    """Count the instructions in assembly by name, most frequent first.

    Names are as written: `movl` is not `mov`. A prefix is part of the name, as in `rep stosq`. Labels, directives and
    comments do not count.
    """
    counts: Counter[str] = Counter()
    for line in assembly.splitlines():
        if not line or line.lstrip()[:1] in (b".", b"#", b""):  # cheaply skips most lines without an instruction
            continue
        for statement in _COMMENT.sub(b"", line).split(b";"):
            found = _STATEMENT.match(statement)
            if found is None:
                continue
            name, following = found["name"].decode(), found["next"]
            counts[f"{name} {following.decode()}" if name in _PREFIXES and following else name] += 1
    return dict(counts.most_common())
