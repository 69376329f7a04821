"""Errors of downloads."""

__all__ = ["DownloadFailed", "TooManyRequests"]


class DownloadFailed(IOError):
    """A file cannot be fetched."""


class TooManyRequests(DownloadFailed):
    """The server asks for fewer requests (HTTP 429)."""
