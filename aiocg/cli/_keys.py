"""`aiocg keys`: key pairs, authorised clients of a node, and trusted nodes of a client.

Args:
    name (NAME): Name of the pair.
    public (PUBLIC_KEY): What `aiocg keys show` prints on the other side.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli._options import command
from aiocg.cli.output import answer, fail

if TYPE_CHECKING:
    from aiocg.transport.keys import KeyFolder

OWN = "own"  # the pair that `aiocg.transport.keys` uses where none is named

app = typer.Typer(name="keys", help="Keys for nodes and their clients.", no_args_is_help=True)


@command(app, "new")
def _new(
    name: Annotated[str, typer.Argument()] = OWN,
    force: bool = False,
    json: bool = False,
) -> None:
    """Make a key pair: one for the node, one for each user of it.

    The secret key stays in a file of this user; the public key is what others are told.

    Example: aiocg keys new

    Args:
        force: Replace the pair that there is.
    """
    with told():
        folder = key_folder()
        pair = folder.create(name, replace=force)
    answer(
        json,
        {"name": name, "public": pair.public, "path": str(folder.pair_path(name))},
        f"public key  {pair.public}",
        f"in          {folder.pair_path(name)}, which nobody else may read",
        f"for a node  its operator runs: aiocg keys authorize YOUR_NAME {pair.public}",
    )


@command(app, "show")
def _show(name: Annotated[str, typer.Argument()] = OWN, json: bool = False) -> None:
    """Print the public key of your pair, to be sent to a node's operator, or to those who are to use your node.

    Example: aiocg keys show
    """
    with told():
        public = key_folder().pair(name).public
    answer(json, {"name": name, "public": public}, public)


@command(app, "authorize")
def _authorize(
    name: str,
    public: str,
    force: bool = False,
    json: bool = False,
) -> None:
    """On a node: let a client in. A node that runs takes note within seconds.

    Example: aiocg keys authorize alice PUBLIC_KEY

    Args:
        name (NAME): Name for the client, of your choice.
        force: Replace the key that this client had.
    """
    with told():
        folder = key_folder()
        folder.authorize(name, public, replace=force)
    told_so = f"{name} is let in with the key {public}, by a node that runs within two seconds"
    answer(json, {"name": name, "public": public}, told_so)


@command(app, "revoke")
def _revoke(
    name: str,
    json: bool = False,
) -> None:
    """On a node: let a client in no more. On a node that runs, what it has there ends within seconds.

    Example: aiocg keys revoke alice

    Args:
        name (NAME): The client, as `aiocg keys list` has it.
    """
    with told():
        public = key_folder().revoke(name)
    answer(json, {"name": name, "public": public}, f"{name} is not admitted any more")


@command(app, "trust")
def _trust(
    address: str,
    public: str,
    force: bool = False,
    json: bool = False,
) -> None:
    """On a client: remember a node's public key. Whatever else answers at that address is not talked to.

    Example: aiocg keys trust tcp://node.example:5757 PUBLIC_KEY

    Args:
        address (ADDRESS): The node, as tcp://HOST:PORT.
        force: Replace the key that is known for it.
    """
    with told():
        key_folder().trust(address, public, replace=force)
    answer(json, {"address": address, "public": public}, f"{address} is trusted with the key {public}")


@command(app, "list")
def _list_keys(json: bool = False) -> None:
    """List your own pairs, the clients that are let in here, and the nodes that are known.

    Example: aiocg keys list
    """
    with told():
        folder = key_folder()
        own, authorized, nodes = folder.pairs(), folder.authorized(), folder.nodes()
    value = {
        "folder": str(folder.path),
        "own": [{"name": name, "public": public} for name, public in own.items()],
        "authorized": [{"name": name, "public": public} for name, public in authorized.items()],
        "nodes": [{"address": address, "public": public} for address, public in nodes.items()],
    }
    width = max((len(name) for name in (*own, *authorized, *nodes)), default=0)
    lines = [
        f"{what:13}  {name:{width}}  {public}"  # a table would cut the keys
        for what, keys in (("own pair", own), ("client let in", authorized), ("node known", nodes))
        for name, public in keys.items()
    ]
    answer(json, value, *(lines or [f"there are no keys in {folder.path}; make a pair with: aiocg keys new"]))


def key_folder() -> "KeyFolder":
    """Return this user's folder of keys."""
    from aiocg.transport.keys import KeyFolder

    return KeyFolder()


@contextmanager
def told() -> Iterator[None]:
    """Exit with a message on errors with keys."""
    from aiocg.transport.errors import SecurityError

    try:
        yield
    except SecurityError as error:
        fail(str(error))
    except OSError as error:
        fail(
            f"the keys in {key_folder().path} cannot be read or kept: {error.strerror or error}; mend that, or let "
            "AIOCG_KEYS name another folder"
        )
