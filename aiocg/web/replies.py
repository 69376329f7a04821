"""Replies of the API, as OpenAPI describes them."""

from typing import Any, Self

from pydantic import BaseModel, Field

from aiocg.web.gain import Gain
from aiocg.web.searching import Run
from aiocg.web.session import ExplorerSession
from aiocg.web.tree import Node


class ErrorReply(BaseModel):
    """What was wrong."""

    class Error(BaseModel):
        """An error."""

        type: str = Field(description="name of the kind of error, such as UnknownName")
        message: str = Field(description="what was wrong, what was expected, and what to do")

    error: Error


class NodeReply(BaseModel):
    """A state in the tree of a session."""

    node: int = Field(description="its number; 0 is the program as it came")
    state: str = Field(description="fingerprint of the program, in hexadecimal digits")
    parent: int | None = Field(description="the node from which it was first reached")
    action: str = Field(description="by which it was first reached")
    depth: int = Field(description="number of actions that first led to it")
    costs: dict[str, float]
    edges: dict[str, int] = Field(description="where actions lead from here")

    @classmethod
    def of(cls, node: Node) -> Self:
        """Describe a node."""
        return cls(
            node=node.number,
            state=f"{node.state:016x}",
            parent=node.parent,
            action=node.action,
            depth=node.depth,
            costs=dict(node.costs),
            edges=node.edges,
        )


class SessionReply(BaseModel):
    """Where a session stands."""

    id: str
    env: str
    benchmark: str
    compiler: str
    costs: list[str] = Field(description="names of the costs of nodes, the main one first")
    lines: dict[str, float] = Field(description="the main cost after the compiler's own levels")
    nodes: int = Field(description="how many there are")
    present: NodeReply
    actions: list[str] = Field(description="which first led to the present node")
    trail: list[int] = Field(description="the nodes on the way that was taken")

    @classmethod
    def of(cls, id: str, session: ExplorerSession) -> Self:
        """Describe a session."""
        tree = session.tree
        return cls(
            id=id,
            env=session.env.spec.id,
            benchmark=str(session.env.benchmark.uri),
            compiler=session.env.compiler_version,
            costs=list(session.costs),
            lines=dict(session.lines),
            nodes=len(tree),
            present=NodeReply.of(tree.present),
            actions=list(tree.path(tree.present.number)),
            trail=list(tree.trail),
        )


class TreeReply(BaseModel):
    """Nodes of a tree."""

    nodes: list[NodeReply]
    next: int | None = Field(description="`start` of those that follow")


class StepReply(BaseModel):
    """What actions led to."""

    nodes: list[NodeReply] = Field(description="one for each action")
    present: NodeReply


class GainReply(BaseModel):
    """What an action would do."""

    action: str
    gain: float = Field(description="by how much it lowers the main cost")
    costs: dict[str, float]
    state: str | None = Field(description="fingerprint of the program afterwards")
    effect: bool = Field(description="whether that is another program")
    error: str | None

    @classmethod
    def of(cls, gain: Gain) -> Self:
        """Describe a gain."""
        return cls(
            action=gain.action,
            gain=gain.gain,
            costs=dict(gain.costs),
            state=f"{gain.state:016x}" if not gain.error else None,
            effect=gain.effect,
            error=gain.error or None,
        )


class GainsReply(BaseModel):
    """What actions would do, the best first."""

    gains: list[GainReply]


class ObservationReply(BaseModel):
    """An observation."""

    name: str
    value: Any = Field(description='as JSON; bytes are {"base64": …}')


class DiffReply(BaseModel):
    """A difference."""

    lines: list[str] = Field(description="in unified format")


class FeaturesReply(BaseModel):
    """Counts of what is in a program."""

    features: dict[str, int | float]
    deltas: dict[str, int | float]


class LinkReply(BaseModel):
    """A link."""

    link: str


class EnvironmentsReply(BaseModel):
    """Environments."""

    class Environment(BaseModel):
        """An environment."""

        id: str
        description: str

    envs: list[Environment]


class DatasetsReply(BaseModel):
    """Datasets or programs."""

    class Item(BaseModel):
        """A dataset, or a program, which has its name only."""

        name: str
        description: str = ""
        size: int = Field(default=0, description="number of programs; 0 for any number")

    items: list[Item]
    next: int | None = Field(description="`cursor` of those that follow")


class SearchReply(BaseModel):
    """The searches of a session."""

    search: Run | None = Field(description="the one that runs, or else the last one")
    runs: list[Run]
    resumable: bool = Field(description="whether the last one can go on")
    searches: list[str] = Field(description="which there are for the session")
