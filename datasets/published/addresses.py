"""Where published files are to be had: several addresses for each, where there are any.

Nobody can promise that they still answer. What CompilerGym published itself is at one place only. GitHub packs the
archive of a commit when it is asked for; the checksums hold as long as it packs them the way it did.
"""

__all__ = ["STORE", "github_archive", "github_file", "stored"]

STORE = "https://dl.fbaipublicfiles.com/compiler_gym/"
"""Where CompilerGym published its own files."""


def stored(name: str) -> tuple[str, ...]:
    """Return the addresses of a file that CompilerGym published for LLVM 10."""
    return (f"{STORE}llvm_bitcodes-10.0.0-{name}",)


def github_archive(repository: str, commit: str) -> tuple[str, ...]:
    """Return the addresses of the archive of a commit."""
    return (
        f"https://github.com/{repository}/archive/{commit}.tar.gz",
        f"https://codeload.github.com/{repository}/tar.gz/{commit}",
    )


def github_file(repository: str, revision: str, path: str) -> tuple[str, ...]:
    """Return the addresses of one file at a commit or branch."""
    return (
        f"https://github.com/{repository}/raw/{revision}/{path}",
        f"https://raw.githubusercontent.com/{repository}/{revision}/{path}",
        f"https://media.githubusercontent.com/media/{repository}/{revision}/{path}",  # of files too large for git
    )
