"""Sessions over HTTP and WebSockets, as an ASGI application of its own::

    app = aiocg.web.api.create_app(workers=2)  # then: uvicorn module:app

It listens nowhere by itself; `Guard` lets in those who call it by a name of the loopback interface, or have the token.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiocg.errors import AiocgError

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
except ImportError:
    raise AiocgError("the Explorer needs FastAPI: pip install 'aiocg[web]'") from None

from aiocg import __version__
from aiocg.datasets.errors import DatasetError
from aiocg.errors import (
    ActionFailed,
    InvalidAction,
    ObservationFailed,
    RuntimeClosed,
    UnknownName,
    WorkerCrashed,
    WorkerStartError,
)
from aiocg.runtime import Runtime
from aiocg.states.state import InvalidState
from aiocg.web._routes import ErrorReply, router
from aiocg.web.guard import LOOPBACK, Guard, check_hosts
from aiocg.web.limits import Limits, Refusal
from aiocg.web.sessions import Sessions
from aiocg.web.tree import TreeError

__all__ = ["create_app", "routes"]

OVERHEAD = 1 << 18  # bytes of a request beside the program in it

_UNPROCESSABLE = (
    UnknownName, InvalidAction, ActionFailed, ObservationFailed, WorkerCrashed, DatasetError, InvalidState
)  # fmt: skip


def create_app(
    *,
    runtime: Runtime | None = None,
    limits: Limits | None = None,
    hosts: Iterable[str] = LOOPBACK,
    token: str = "",
    **runtime_options: Any,
) -> FastAPI:
    """Make the application.

    Args:
        runtime: where environments are, which stays open at the end; a new one if None.
        limits: what visitors may have.
        hosts: the names by which the application may be called.
        token: what visitors must have; "" for none, which is for the loopback interface only.
        runtime_options: of the new runtime, such as `workers`. Its workers do not trust programs.

    Raises:
        ValueError: when there is no token and `hosts` has names of other machines.
    """
    hosts = check_hosts(hosts, token)
    options = {"untrusted": True, **(runtime_options.pop("options", None) or {})}

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            used = runtime
            if used is None:
                used = await stack.enter_async_context(Runtime(options=options, **runtime_options))
            app.state.sessions = await stack.enter_async_context(Sessions(used, limits or Limits()))
            yield

    app = FastAPI(
        title="aiocg",
        version=__version__,
        description="Sessions of compiler environments.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,  # these pages load scripts from another host
    )
    most = 2 * (limits or Limits()).source_bytes + OVERHEAD
    app.add_middleware(Guard, hosts=hosts, token=token, most=most)
    routes(app)
    return app


def routes(app: FastAPI) -> None:
    """Add the routes and the handlers of errors to an application that has `Sessions` as `state.sessions`."""
    app.include_router(router, responses={"4XX": {"model": ErrorReply}})
    for error in (AiocgError, DatasetError, TreeError, Refusal, RequestValidationError, HTTPException):
        app.add_exception_handler(error, _failed)


async def _failed(_: Request, error: Exception) -> JSONResponse:
    message, kind = str(error), type(error).__name__
    if isinstance(error, Refusal):
        status, kind = error.status, "Refused"
    elif isinstance(error, TreeError):
        status, kind = 409, "NoSuchNode"
    elif isinstance(error, RequestValidationError):
        status, kind = 422, "InvalidRequest"
        places = ("/".join(map(str, one["loc"])) + ": " + one["msg"] for one in error.errors())
        message = "; ".join(places) + "; /openapi.json says what there may be"
    elif isinstance(error, HTTPException):
        status, message, kind = error.status_code, str(error.detail), "Refused"
    else:
        unavailable = isinstance(error, WorkerStartError | RuntimeClosed)
        status = 422 if isinstance(error, _UNPROCESSABLE) else 503 if unavailable else 409
    message = message.encode(errors="backslashreplace").decode()  # JSON may bring halves of surrogate pairs
    return JSONResponse(ErrorReply(error=ErrorReply.Error(type=kind, message=message)).model_dump(), status)
