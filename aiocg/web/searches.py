"""Routes of searches."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from aiocg.web.lookup import sessions_of
from aiocg.web.searching import LiveSearch
from aiocg.web.watchable import watchable

__all__ = ["router"]

router = APIRouter()


class NewSearch(BaseModel):
    """A search, and how long it may take."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("greedy", description="one of those that GET lists as `searches`")
    seconds: float = 10.0
    here: bool = Field(False, description="begin at the present node, not at the program as it came")


class MoreTime(BaseModel):
    """How long a search may go on."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = 10.0


@router.post("/sessions/{id}/search", status_code=202)
async def start_search(request: Request, id: str, body: NewSearch) -> dict[str, Any]:
    """Start a search; its candidates become nodes, and its end is at the best one."""
    return _search(sessions_of(request).start_search(id, body.name, body.seconds, here=body.here))


@router.get("/sessions/{id}/search")
async def show_search(request: Request, id: str) -> dict[str, Any]:
    """Say where the last search of a session stands, those before it, and which searches there are for it."""
    sessions = sessions_of(request)
    return {**_search(sessions.search_of(id)), "searches": list(watchable(sessions.find(id)))}


@router.delete("/sessions/{id}/search")
async def pause_search(request: Request, id: str) -> dict[str, Any]:
    """Pause the search, and go to the best state that it found."""
    search = sessions_of(request).search_of(id)
    await search.pause()
    return _search(search)


@router.post("/sessions/{id}/search/resume", status_code=202)
async def resume_search(request: Request, id: str, body: MoreTime) -> dict[str, Any]:
    """Let the last search go on where it was, whatever was done by hand meanwhile."""
    return _search(sessions_of(request).resume_search(id, body.seconds))


def _search(search: LiveSearch) -> dict[str, Any]:
    runs = [asdict(run) for run in search.runs]
    return {"search": runs[-1] if runs else None, "runs": runs, "resumable": search.resumable}
