"""`aiocg keys`: key pairs, the clients that a node lets in, and the nodes that a client trusts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from aiocg.cli.output import Json, fail, print_json, print_line
from aiocg.transport.errors import SecurityError
from aiocg.transport.keys import OWN, KeyFolder

__all__ = ["app", "told"]

app = typer.Typer(name="keys", help="Keys for nodes and their clients.", no_args_is_help=True)

Pair = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pair.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name for the client, of your choice.")]
Public = Annotated[str, typer.Argument(metavar="PUBLIC_KEY", help="What `aiocg keys show` prints on the other side.")]


@app.command("new")
def new(
    name: Pair = OWN,
    force: Annotated[bool, typer.Option("--force", help="Replace the pair that there is.")] = False,
    json: Json = False,
) -> None:
    """Make a key pair: one for the node, one for each user of it.

    The secret key stays in a file of this user; the public key is what others are told.

    Example: aiocg keys new
    """
    with told():
        folder = KeyFolder()
        pair = folder.create(name, replace=force)
    if json:
        print_json({"name": name, "public": pair.public, "path": str(folder.pair_path(name))})
        return
    print_line(f"public key  {pair.public}")
    print_line(f"in          {folder.pair_path(name)}, which nobody else may read")
    print_line(f"for a node  its operator runs: aiocg keys authorize YOUR_NAME {pair.public}")


@app.command("show")
def show(name: Pair = OWN, json: Json = False) -> None:
    """Print the public key of your pair, to be sent to a node's operator, or to those who are to use your node.

    Example: aiocg keys show
    """
    with told():
        public = KeyFolder().pair(name).public
    if json:
        print_json({"name": name, "public": public})
    else:
        print_line(public)


@app.command("authorize")
def authorize(
    name: Name,
    public: Public,
    force: Annotated[bool, typer.Option("--force", help="Replace the key that this client had.")] = False,
    json: Json = False,
) -> None:
    """On a node: let a client in. A node that runs takes note within seconds.

    Example: aiocg keys authorize alice PUBLIC_KEY
    """
    with told():
        folder = KeyFolder()
        folder.authorize(name, public, replace=force)
    if json:
        print_json({"name": name, "public": public})
    else:
        print_line(f"{name} is let in with the key {public}, by a node that runs within two seconds")


@app.command("revoke")
def revoke(name: Name, json: Json = False) -> None:
    """On a node: let a client in no more. On a node that runs, what it has there ends within seconds.

    Example: aiocg keys revoke alice
    """
    with told():
        public = KeyFolder().revoke(name)
    if json:
        print_json({"name": name, "public": public})
    else:
        print_line(f"{name} is not let in any more")


@app.command("trust")
def trust(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as tcp://HOST:PORT.")],
    public: Public,
    force: Annotated[bool, typer.Option("--force", help="Replace the key that is known for it.")] = False,
    json: Json = False,
) -> None:
    """On a client: remember a node's public key. Whatever else answers at that address is not talked to.

    Example: aiocg keys trust tcp://node.example:5757 PUBLIC_KEY
    """
    with told():
        KeyFolder().trust(address, public, replace=force)
    if json:
        print_json({"address": address, "public": public})
    else:
        print_line(f"{address} is trusted with the key {public}")


@app.command("list")
def list_keys(json: Json = False) -> None:
    """List your own pairs, the clients that are let in here, and the nodes that are known.

    Example: aiocg keys list
    """
    with told():
        folder = KeyFolder()
        own, authorized, nodes = folder.pairs(), folder.authorized(), folder.nodes()
    if json:
        print_json(
            {
                "folder": str(folder.path),
                "own": [{"name": name, "public": public} for name, public in own.items()],
                "authorized": [{"name": name, "public": public} for name, public in authorized.items()],
                "nodes": [{"address": address, "public": public} for address, public in nodes.items()],
            }
        )
        return
    width = max((len(name) for name in (*own, *authorized, *nodes)), default=0)
    for what, keys in (("own pair", own), ("client let in", authorized), ("node known", nodes)):
        for name, public in keys.items():
            print_line(f"{what:13}  {name:{width}}  {public}")  # no table, which would cut what is to be copied
    if not (own or authorized or nodes):
        print_line(f"there are no keys in {folder.path}; make a pair with: aiocg keys new")


@contextmanager
def told() -> Iterator[None]:
    """Exit with a message when keys cannot be read, kept or used."""
    try:
        yield
    except SecurityError as error:
        fail(str(error))
    except OSError as error:
        fail(
            f"the keys in {KeyFolder().path} cannot be read or kept: {error.strerror or error}; mend that, or let "
            "AIOCG_KEYS name another folder"
        )
