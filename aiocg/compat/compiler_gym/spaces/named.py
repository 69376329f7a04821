"""Spaces that have a name, and are equal only to spaces of that name."""

__all__ = ["Named"]


class Named:
    """In front of the bases of a space, makes its name count in comparisons.

    Attributes:
        name: of the space.
    """

    name: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Named) or not isinstance(self, type(other)) or self.name != other.name:
            return False
        return bool(super().__eq__(other))

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.name))
