"""GCC's options under CompilerGym's names: an option is the list of words that it can be given as."""

from aiocg.transport.options import Option as Native

__all__ = [
    "GccFlagAlignOption",
    "GccFlagEnumOption",
    "GccFlagIntOption",
    "GccFlagOption",
    "GccOOption",
    "GccParamEnumOption",
    "GccParamIntOption",
    "Option",
    "option_of",
]


class Option:
    """An option: `len` is the number of its choices, `option[k]` the word of one, `str` its name.

    Attributes:
        native: the option of aiocg.
        name: without the hyphens before it.
    """

    def __init__(self, native: Native) -> None:
        self.native = native
        self.name = native.name.removeprefix("--param=").removeprefix("-f").removeprefix("-")

    def __len__(self) -> int:
        return len(self.native)

    def __getitem__(self, key: int) -> str:
        if not 0 <= key < len(self.native):
            raise IndexError(f"{self} has {len(self)} choices, no {key}")
        return self.native.word(key)

    def __str__(self) -> str:
        return self.native.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


class _Listed(Option):
    """An option with a list of values.

    Attributes:
        values: what stands behind the name.
    """

    def __init__(self, native: Native) -> None:
        super().__init__(native)
        self.values = [text.removeprefix(native.name).removeprefix("=") for text in native.texts]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, values=[{','.join(self.values)}]>"


class _Number(Option):
    """An option with a number.

    Attributes:
        min, max: its range.
    """

    def __init__(self, native: Native) -> None:
        super().__init__(native)
        self.min, self.max = native.low, native.high

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, min={self.min}, max={self.max}>"


class GccOOption(_Listed):
    """The levels, `-O0` to `-Os`."""

    def __repr__(self) -> str:
        return f"<GccOOption values=[{','.join(self.values)}]>"


class GccFlagOption(Option):
    """`-fname` and `-fno-name`.

    Attributes:
        no_fno: there is only the first.
    """

    def __init__(self, native: Native) -> None:
        super().__init__(native)
        self.no_fno = len(native) == 1


class GccFlagEnumOption(_Listed):
    """`-fname=value`."""


class GccFlagIntOption(_Number):
    """`-fname=number`."""


class GccFlagAlignOption(_Listed):
    """`-falign-name`."""


class GccParamEnumOption(_Listed):
    """`--param=name=value`."""


class GccParamIntOption(_Number):
    """`--param=name=number`."""


_CLASSES: dict[str, type[Option]] = {
    "level": GccOOption,
    "flag": GccFlagOption,
    "enum": GccFlagEnumOption,
    "integer": GccFlagIntOption,
    "alignment": GccFlagAlignOption,
}


def option_of(native: Native) -> Option:
    """Return an option of aiocg as CompilerGym's."""
    if native.kind == "param":
        return (GccParamIntOption if native.template else GccParamEnumOption)(native)
    return _CLASSES[native.kind](native)
