"""Routes of searches."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from aiocg.web.lookup import session_of, sessions_of
from aiocg.web.replies import SearchReply
from aiocg.web.watchable import watchable

__all__ = ["router"]

router = APIRouter()


class NewSearch(BaseModel):
    """A search, and how long it may take."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("greedy", description="one of those that GET lists as `searches`")
    seconds: float = Field(10.0, strict=True)
    here: bool = Field(False, description="begin at the present node, not at the program as it came")


class MoreTime(BaseModel):
    """How long a search may go on."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(10.0, strict=True)


@router.post("/sessions/{id}/search", status_code=202)
async def start_search(request: Request, id: str, body: NewSearch) -> SearchReply:
    """Start a search; its candidates become nodes, and its end is at the best one."""
    sessions_of(request).start_search(id, body.name, body.seconds, here=body.here)
    return _reply(request, id)


@router.get("/sessions/{id}/search")
async def show_search(request: Request, id: str) -> SearchReply:
    """Say where the last search of a session stands, those before it, and which searches there are for it."""
    return _reply(request, id)


@router.delete("/sessions/{id}/search")
async def pause_search(request: Request, id: str) -> SearchReply:
    """Pause the search, and go to the best state that it found."""
    await sessions_of(request).search_of(id).pause()
    return _reply(request, id)


@router.post("/sessions/{id}/search/resume", status_code=202)
async def resume_search(request: Request, id: str, body: MoreTime) -> SearchReply:
    """Let the last search go on where it was, whatever was done by hand meanwhile."""
    sessions_of(request).resume_search(id, body.seconds)
    return _reply(request, id)


def _reply(request: Request, id: str) -> SearchReply:
    search, known = sessions_of(request).search_of(id), watchable(session_of(request, id))
    return SearchReply(search=search.last, runs=search.runs, resumable=search.resumable, searches=list(known))
