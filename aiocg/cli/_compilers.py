"""`aiocg llvm` and `aiocg gcc`: about the compilers in use."""

import typer

from aiocg.cli._options import command
from aiocg.cli.output import answer, fail, table, working

llvm = typer.Typer(help="About the LLVM that is in use.", no_args_is_help=True)


@command(llvm, "install")
def install(version: str, json: bool = False) -> None:
    """Install a release of LLVM with its clang from the package index, into the cache.

    Example: aiocg llvm install 19

    Then `AIOCG_LLVM=19`, `Runtime(llvm="19")` or `llvm-v0?llvm=19` use it.

    Args:
        version (VERSION): Such as 19, of which the newest is installed, or 19.1.7.
    """
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.llvm_releases import install

    try:
        with working("install", f"LLVM {version}", json=json):
            release = install(version)
    except DatasetError as error:
        fail(str(error))
    value = {"version": release.version, "library": str(release.library), "clang": str(release.clang)}
    answer(json, value, f"LLVM {release.version} is installed: AIOCG_LLVM={release.version.partition('.')[0]} uses it")


@command(llvm, "list")
def list_releases(available: bool = False, json: bool = False) -> None:
    """List the releases of LLVM that can be chosen by number.

    Example: aiocg llvm list --available

    Args:
        available: Those that the package index has, instead of those on this machine.
    """
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.llvm_releases import available as in_index
    from aiocg.datasets.llvm_releases import on_this_machine

    if available:
        try:
            versions = in_index()
        except DatasetError as error:
            fail(str(error))
        answer(json, {"available": versions}, *versions)
        return
    here = on_this_machine()
    rows = [(one.version, one.origin, str(one.library), str(one.clang)) for one in here]
    listed = [dict(zip(("version", "origin", "library", "clang"), row, strict=True)) for row in rows]
    hint = "none: `aiocg llvm install VERSION` installs one, `aiocg llvm list --available` lists them"
    shown = table("LLVM by number", ["Version", "From", "Library", "Clang"], rows) if rows else hint
    answer(json, {"releases": listed}, shown)


_GCC_HELP = (
    "Images with compilers for gcc-v0. And `aiocg gcc -- make` makes a build by GCC smaller: `aiocg shrink --gcc`."
)

gcc = typer.Typer(name="gcc", help=_GCC_HELP, no_args_is_help=True)


@gcc.callback(help=_GCC_HELP)
def _gcc_options() -> None:
    """Take no options of its own."""


@command(gcc, "pull")
def pull_image(
    image: str,
    if_missing: bool = False,
    json: bool = False,
) -> None:
    """Have Docker or Podman get an image with a GCC from its registry, for `gcc_bin=docker:IMAGE`.

    Example: aiocg gcc pull gcc:13

    Args:
        image (IMAGE): Its name, such as gcc:13.
        if_missing: Only if the engine does not have it.
    """
    from aiocg.errors import EnvironmentNotSupported
    from aiocg.gcc.compiler_spec import DOCKER
    from aiocg.gcc.compiler_spec import pull_image as pull

    image = image.removeprefix(DOCKER)
    try:
        identity = pull(image, if_missing=if_missing)
    except EnvironmentNotSupported as error:
        fail(str(error))
    answer(json, {"image": image, "id": identity}, f"{image} is {identity}")
