"""Options for all files of a build, for single ones, and for its links."""

from collections.abc import Iterator, Mapping, Sequence

Words = tuple[str, ...]
Choice = Mapping[str, Words]
"""Options by scope: ALL_FILES, LINK, or the name of a source, relative to the folder of the build."""

ALL_FILES, LINK = "", "<link>"


def words_of(choice: Choice, source: str) -> Words:
    """Return the options of a source: those for all files, then its own."""
    return (*choice.get(ALL_FILES, ()), *choice.get(source, ()))


def with_words(choice: Choice, scope: str, words: Words) -> dict[str, Words]:
    """Return a choice with other options for a scope."""
    changed = {**choice, scope: words}
    return {name: changed[name] for name in sorted(changed) if changed[name]}


def with_option(words: Words, option: Words) -> Words:
    """Return options with another one behind them, which takes the place of what it outdoes: `-fx` that of `-fno-x`."""
    names = {name_of(word) for word in option}
    return (*(word for word in words if name_of(word) not in names), *option)


def name_of(word: str) -> str:
    """Return what an option is about: the same for `-fx` and `-fno-x`, and for all levels."""
    if word.startswith("-O"):
        return "-O"
    if "=" in word:
        return word.rpartition("=")[0]
    return f"-f{word[5:]}" if word.startswith("-fno-") else word


def joined(words: Sequence[str]) -> Iterator[str]:
    """Yield options with `--param x=1` as one word."""
    rest = iter(words)
    for word in rest:
        yield f"--param={next(rest, '')}" if word == "--param" else word
