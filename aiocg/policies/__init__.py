"""Learned policies: what they see of a program, and the small files that they are. NumPy is all that they need."""

from aiocg.policies.episode import Episode
from aiocg.policies.features import Features
from aiocg.policies.policy import Policy, PolicyError, PolicyFacts, shipped_policies

__all__ = ["Episode", "Features", "Policy", "PolicyError", "PolicyFacts", "shipped_policies"]
