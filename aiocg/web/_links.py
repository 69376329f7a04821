"""Links that are a state: they have the program, its source where it has no name elsewhere, and the actions."""

import base64
import re
import urllib.parse
import zlib
from dataclasses import dataclass, replace

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.uri import USER
from aiocg.web._programs import named, sent
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Limits, Refusal
from aiocg.web.saved import Opening

LONGEST = 16_000  # characters; more is refused on the way by some
LANGUAGES = {"c": "c", "cc": "c++", "cpp": "c++", "cxx": "c++", "ll": "ir", "bc": "bitcode"}  # by the suffix of a file
LOCAL = re.compile(rb'^\s*#\s*include\s*"', re.MULTILINE)  # headers beside the file


@dataclass(frozen=True, slots=True)
class Link:
    """What a link says.

    Attributes:
        environment, benchmark, actions: of the state; the benchmark is "" if there is a source.
        source, language: of a program that somebody sent, as `sent` takes them.
        reward_space: whose cost nodes have; None for the environment's.
    """

    environment: str
    benchmark: str
    actions: tuple[str, ...]
    source: str = ""
    language: str = ""
    reward_space: str | None = None

    def opening(self, limits: Limits) -> Opening:
        """Return what a session begins with.

        A link may come from anybody, so its C is compiled in a box, even where the user's own needs none.

        Raises:
            Refusal: when its program is a file of this machine, too large, or cannot be compiled here.
        """
        if not self.source:
            return Opening(self.environment, named(self.benchmark), self.actions, self.reward_space)
        program = sent(self.source, self.language, replace(limits, boxed_sources=True))
        return Opening(self.environment, program, self.actions, self.reward_space)


def link_to(session: ExplorerSession) -> str:
    """Return the address of the present state, relative to that of the page.

    Raises:
        Refusal: when the program is too long for a link, or its name says too little.
    """
    benchmark, actions = session.env.benchmark, session.tree.path(session.tree.present.number)
    spec, reward = session.env.spec, session.env.reward_space
    fields = [("env", spec.id)]
    if reward is not None and reward != spec.reward_space:
        fields.append(("reward", reward))
    if benchmark.uri.dataset != USER and benchmark.uri.scheme != "file":
        fields.append(("benchmark", str(benchmark.uri).removeprefix("benchmark://")))
    else:
        data, language = _source(benchmark, spec.worker)
        packed = base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")
        fields += [("language", language), ("source", packed)]
    link = "/?" + urllib.parse.urlencode([*fields, *(("action", one) for one in actions)], safe="/,<>;:()")
    if len(link) > LONGEST:
        raise Refusal(413, f"a link would have {len(link):,} characters, more than {LONGEST:,}: send the program")
    return link


def _source(benchmark: Benchmark, worker: str) -> tuple[bytes, str]:
    """Return a program that is whole in itself: its source or, where that needs other files or options, its bitcode."""
    if worker == "loops":
        return benchmark.content, "expression"
    sources = benchmark.sources
    language = LANGUAGES.get(sources[0].filename.rpartition(".")[2]) if len(sources) == 1 else None
    local = benchmark.uri.scheme == "file" and (benchmark.uri.params or LOCAL.search(sources[0].contents))
    if language is not None and not local:
        return sources[0].contents, language
    if worker == "llvm":
        return benchmark.content, "bitcode"
    raise Refusal(
        409, f"{benchmark.uri} needs other files or options, which a link cannot have: send the program and its headers"
    )


def read_link(query: str, limits: Limits) -> Link | None:
    """Read the query of an address, None if it is no link to a state.

    Raises:
        Refusal: when the source cannot be read, or is too large.
    """
    fields = urllib.parse.parse_qs(query)
    benchmark, packed = (fields.get(name, [""])[0] for name in ("benchmark", "source"))
    if not benchmark and not packed:
        return None
    source = language = ""
    if packed:
        language = fields.get("language", ["c"])[0]
        reader = zlib.decompressobj()
        try:
            data = reader.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), limits.source_bytes)
            whole = reader.eof
            source = base64.b64encode(data).decode() if language == "bitcode" else data.decode()
        except (zlib.error, ValueError):
            whole = False
        if not whole:
            raise Refusal(422, "the program in this link cannot be read: copy the whole link")
    environment, reward = fields.get("env", ["llvm-ic-v0"])[0], fields.get("reward", [None])[0]
    return Link(environment, benchmark, tuple(fields.get("action", ())), source, language, reward)
