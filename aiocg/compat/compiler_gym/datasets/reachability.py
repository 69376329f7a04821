"""Whether a dataset could be fetched, found out once per process and address, in seconds rather than minutes."""

from typing import Any
from urllib.parse import urlsplit

from aiocg.datasets.site import is_offline, mirror

__all__ = ["forget", "unreachable"]

TIMEOUT = 3.0  # seconds for a server to answer at all

_answers: dict[str, str] = {}


def unreachable(dataset: Any) -> str:
    """Return why what a dataset needs cannot be fetched; empty if it perhaps can, or nothing is needed.

    Args:
        dataset: of aiocg, whose archive has addresses in `urls`.
    """
    urls = tuple(getattr(dataset, "urls", ()))
    if not urls:
        return ""
    if mirror():
        return ""  # the user's own, which is given the time it takes
    if is_offline():
        return "AIOCG_OFFLINE is set"
    reasons = [_ask(url) for url in urls]
    return reasons[0] if all(reasons) else ""


def forget() -> None:
    """Ask again where nothing answered."""
    _answers.clear()


def _ask(url: str) -> str:
    host = urlsplit(url).netloc
    if host not in _answers:  # without a lock, which a fork of the process could inherit: at worst two threads ask
        _answers[host] = _try(url, host)
    return _answers[host]


def _try(url: str, host: str) -> str:
    import requests

    try:
        with requests.head(url, timeout=TIMEOUT, allow_redirects=True) as response:
            status = response.status_code
    except requests.RequestException as error:
        return f"{host} does not answer ({type(error).__name__})"
    return f"{host} answers {status}" if status >= 400 and status not in (405, 429) else ""
