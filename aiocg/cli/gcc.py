"""`aiocg gcc`: what GCC's environments need beside a compiler."""

from typing import Annotated

import typer

from aiocg.cli.output import Json, answer, fail

HELP = "Images with compilers for gcc-v0. And `aiocg gcc -- make` makes a build by GCC smaller: `aiocg shrink --gcc`."

app = typer.Typer(name="gcc", help=HELP, no_args_is_help=True)


@app.callback(help=HELP)
def group() -> None:
    """Take no options of its own."""


@app.command("pull")
def pull(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Its name, such as gcc:13.", show_default=False)],
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Only if the engine does not have it.")] = False,
    json: Json = False,
) -> None:
    """Have Docker or Podman get an image with a GCC from its registry, for `gcc_bin=docker:IMAGE`.

    Example: aiocg gcc pull gcc:13
    """
    from aiocg.errors import EnvironmentNotSupported
    from aiocg.gcc.compiler_spec import DOCKER, pull_image

    image = image.removeprefix(DOCKER)
    try:
        identity = pull_image(image, if_missing=if_missing)
    except EnvironmentNotSupported as error:
        fail(str(error))
    answer(json, {"image": image, "id": identity}, f"{image} is {identity}")
