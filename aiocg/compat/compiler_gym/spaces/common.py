"""Which types of numbers go where."""

from typing import Any

import numpy as np

__all__ = ["issubdtype"]


def issubdtype(subtype: Any, supertype: Any) -> bool:
    """Can every number of one type be told in another, with nothing lost?

    Args:
        subtype, supertype: Python's or NumPy's types, or NumPy's names of them.
    """
    if isinstance(subtype, type) and isinstance(supertype, type) and issubclass(subtype, supertype):
        return True
    narrow, wide = np.dtype(subtype), np.dtype(supertype)
    if narrow == wide:
        return True
    if not np.issubdtype(np.result_type(narrow, wide), wide):
        return False
    if narrow.kind in "iu" and wide.kind == "f":  # NumPy takes an int64 in a float64 for safe, and it is not
        return bool(np.iinfo(narrow).max <= 2 ** (np.finfo(wide).nmant + 1))
    return True
