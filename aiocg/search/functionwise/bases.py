"""Starting points of the search, and module passes to try after the functions are combined."""

Actions = tuple[str, ...]
MARK = "mark<minsize>"

_RAW: Actions = (
    "always-inline", "inferattrs", "ipsccp", "globalopt", "sroa", "early-cse", "simplifycfg", "function-attrs",
    "globaldce", "deadargelim",
)  # fmt: skip
_ARGUMENTS: Actions = (*_RAW, "argpromotion", "ipsccp<func-spec>", "globaldce", "deadargelim")


def _oz(threshold: int) -> Actions:
    return (f"{{inliner-threshold={threshold}}}default<Oz>",)


def _inlined(threshold: int) -> Actions:
    return (*_ARGUMENTS, f"{{inliner-threshold={threshold}}}scc-oz-module-inliner", "globaldce", "deadargelim")


def marked(actions: Actions, cost: str) -> Actions:
    """Return actions that mark functions, where an observation of a cost assumes that they are marked."""
    return actions if cost == "IrInstructionCount" or MARK in actions else (*actions, MARK)


BASES: tuple[Actions, ...] = (
    _ARGUMENTS, _oz(0), _oz(25), _RAW, (MARK, "clang<Oz>"), _oz(5), _inlined(0), _inlined(25),
    _inlined(100),
)  # fmt: skip
"""The most promising first."""

CLEANUPS: tuple[Actions, ...] = (
    ("globaldce",),
    ("mergefunc", "globaldce"),
    ("constmerge", "globaldce"),
    ("globalopt", "globaldce", "deadargelim"),
    ("ipsccp", "globalopt", "globaldce", "deadargelim"),
    ("function-attrs", "rpo-function-attrs", "early-cse", "globaldce"),
    ("argpromotion", "globaldce", "deadargelim"),
    ("{inliner-threshold=0}scc-oz-module-inliner", "globaldce"),
    ("{inliner-threshold=25}scc-oz-module-inliner", "globaldce"),
    ("iroutliner", "globaldce"),
    ("mergefunc", "iroutliner", "mergefunc", "globaldce"),
    ("partial-inliner", "globaldce"),
    ("hotcoldsplit", "globaldce"),
    ("called-value-propagation", "globalopt", "globaldce"),
    ("default<Oz>",),
    ("default<Os>",),
)
