"""What a compiler that takes sources needs of a program: its files, which of them to compile, and with what flags."""

import dataclasses
from collections.abc import Mapping

__all__ = ["SourceTree"]

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class SourceTree:
    """The sources of a program, free of the machine that they lie on.

    A worker gets it as MessagePack of one map, with the names of the attributes as keys, and `version`, which is 1;
    `aiocg.workers.gcc.sources` reads it.

    Attributes:
        units: the translation units, paths in `files`, in the order in which they are compiled.
        files: the content of every file that the compiler may open, by relative path with forward slashes; but for the
            compiler's own headers and the libraries', which are where it runs.
        include: relative paths of the folders to look for headers in, as for `-I`.
        flags: for the compiler, such as `-DNDEBUG` or `-std=gnu17`; without paths, and none that optimise.
        language: "c", or "c++" if a unit is in C++.
        freestanding: nothing but the compiler's own headers is used beside `files`.
        units_in_c: those units of a program in C++ that are in C; a worker may be told of none.
    """

    units: tuple[str, ...]
    files: Mapping[str, bytes]
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    language: str = "c"
    freestanding: bool = False
    units_in_c: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Return it as a worker takes it."""
        import msgspec

        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if not self.units_in_c:
            del fields["units_in_c"]
        return msgspec.msgpack.encode({"version": VERSION, **fields, "files": dict(self.files)}, order="sorted")
