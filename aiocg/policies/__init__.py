"""Learned policies: their features and small files. Needs only NumPy."""

from aiocg.policies.features import Episode, Features
from aiocg.policies.policy import Policy, PolicyError, PolicyFacts, shipped_policies

__all__ = ["Episode", "Features", "Policy", "PolicyError", "PolicyFacts", "shipped_policies"]
