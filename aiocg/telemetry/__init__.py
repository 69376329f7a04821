"""Structured logs, and metrics for Prometheus.

Nothing is written or served unless somebody asks for it.
"""

from aiocg.telemetry.logs import configure

__all__ = ["configure"]
