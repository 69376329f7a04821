"""Observations as JSON, cut where they are long. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from aiocg.agents.limits import Refused

__all__ = ["plain", "sayable", "shown"]


def sayable(text: str) -> str:
    """Return a text that UTF-8 can say: what is no character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def plain(value: Any) -> Any:
    """Return a value as JSON can say it; numbers that are not finite are null.

    Raises:
        Refused: when it is none of the kinds that can be said, such as a graph.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return sayable(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise Refused(f"this observation is {type(value).__name__}, which JSON cannot say: take one of text or numbers")


def shown(value: Any, most: int, offset: int = 0) -> dict[str, Any]:
    """Return an observation: a short one as `value`, of text and what is long a part, with how much there is.

    Args:
        value: of the observation.
        most: characters of the part.
        offset: characters before it.

    Raises:
        Refused: when it cannot be said, or the part would begin behind its end.
    """
    said = plain(value)
    text = said if isinstance(said, str) else json.dumps(said)
    if text is not said and len(text) <= most and not offset:
        return {"value": said}
    if not 0 <= offset <= len(text):
        raise Refused(f"the text has {len(text)} characters, so its parts begin at 0 to {len(text)}, not at {offset}")
    end = min(offset + most, len(text))
    part: dict[str, Any] = {"text": text[offset:end], "characters": len(text), "cut": end < len(text)}
    return part | ({"next_offset": end} if part["cut"] else {})
