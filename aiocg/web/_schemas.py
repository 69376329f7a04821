"""What requests to the Explorer's API and its replies have in them."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field

from aiocg.web._searching import Run
from aiocg.web._session import ExplorerSession

Fingerprint = Annotated[str, BeforeValidator(lambda state: f"{state:016x}")]


class ErrorReply(BaseModel):
    """What was wrong."""

    class Error(BaseModel):
        """An error."""

        type: str = Field(description="name of the kind of error, such as UnknownName")
        message: str = Field(description="what was wrong, what was expected, and what to do")

    error: Error


class NodeReply(BaseModel, from_attributes=True):
    """A state in the tree of a session."""

    node: int = Field(validation_alias="number", description="its number; 0 is the program as it came")
    state: Fingerprint = Field(description="fingerprint of the program, in hexadecimal digits")
    parent: int | None = Field(description="the node from which it was first reached")
    action: str = Field(description="by which it was first reached")
    depth: int = Field(description="number of actions that first led to it")
    costs: dict[str, float]
    edges: dict[str, int] = Field(description="where actions lead from here")


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
            present=NodeReply.model_validate(tree.present),
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
    state: Fingerprint | None = Field(description="fingerprint of the program afterwards")
    effect: bool = Field(description="whether that is another program")
    error: str | None


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


class NewSession(BaseModel, extra="forbid"):
    """What a session is of: a program of a dataset, or one that is sent."""

    env: str = Field("llvm-ic-v0", description="id of an environment; see /envs")
    benchmark: str | None = Field(None, description="a program of a dataset, such as programs-v0/qsort")
    source: str | None = Field(None, description="a program: C, C++, textual IR, or bitcode in base64")
    language: str = Field("c", description="of the source: c, c++, ir, bitcode, or expression for loops")
    state: str | None = Field(None, description="a saved state as JSON or CSV, in place of all others")
    reward_space: str | None = None
    action_space: str | None = None


class Actions(BaseModel, extra="forbid"):
    """A list of actions, by their texts."""

    actions: list[str]


class MoreTime(BaseModel, extra="forbid"):
    """How long a search may go on."""

    seconds: float = Field(10.0, strict=True)


class NewSearch(MoreTime):
    """A search, and how long it may take."""

    name: str = Field("greedy", description="one of those that GET lists as `searches`")
    here: bool = Field(False, description="begin at the present node, not at the program as it came")
