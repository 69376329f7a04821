"""Gym's errors, those that CompilerGym's scripts can meet."""

__all__ = [
    "DeprecatedEnv",
    "Error",
    "InvalidAction",
    "InvalidSpace",
    "NameNotFound",
    "NamespaceNotFound",
    "ResetNeeded",
    "UnregisteredEnv",
    "VersionNotFound",
]


class Error(Exception):
    """Base of Gym's errors."""


class UnregisteredEnv(Error):
    """There is no environment of that id."""


class NamespaceNotFound(UnregisteredEnv):
    """There is no such namespace of environments."""


class NameNotFound(UnregisteredEnv):
    """There is no environment of that name."""


class VersionNotFound(UnregisteredEnv):
    """There is no such version of the environment."""


class DeprecatedEnv(Error):
    """The environment has been replaced by another version."""


class InvalidAction(Error):
    """The action is not in the action space."""


class ResetNeeded(Error):
    """`reset` must be called first."""


class InvalidSpace(Error):
    """Something is not a space that can be used here."""
