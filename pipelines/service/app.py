"""The Listener: the service's addresses, who may ask, and what a request has to pass.

Forecasts are made in a few threads. What nodes tell takes none, for only dicts change: it never
waits for a forecast.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import ceil
from typing import Annotated, Protocol

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.contracts import (
    Answer,
    Cluster,
    Forecast,
    Problem,
    Question,
    Registered,
    Report,
    Retraining,
    Workload,
)
from pipelines.service.engine import Slots, WorkloadForecasts
from pipelines.service.places import TrainingPlace, of_cluster, of_types
from warehouse import limits
from warehouse.fields import PATTERN
from warehouse.records import BadInput, StepcastError

NodeName = Annotated[str, InPath(pattern=PATTERN)]
WHY = {
    400: "What was asked for cannot be.",
    401: "No token, or another one.",
    408: "The request took too long to arrive.",
    413: "The request is larger than the service takes.",
    422: "The request is not of the form that is described here.",
    503: "The history is held, something is missing here, too many wait, or the service ends.",
}
_LONGEST = 300
_DESCRIPTION = """
How long will a step, and an epoch, of this network take on these nodes? Networks are named, or
given as graphs of primitive operations; nodes are named, or have registered.
"""


class Forecaster(Protocol):
    """What forecasts: `pipelines.service.engine.Engine`."""

    def forecasts(self, workloads: list[Workload], place: TrainingPlace) -> WorkloadForecasts:
        """Return a forecast or a refusal of each workload, whose dataset's type is known."""


def service(
    engine: Forecaster,
    collector: Collector,
    checker: Checker,
    token: str | None,
    slots: Slots | None = None,
) -> FastAPI:
    """Return the service.

    Args:
        engine: what forecasts.
        collector: who knows the nodes.
        checker: who knows types of datasets.
        token: what requests have to carry; None: nobody is asked for one.
        slots: where it forecasts; None: in slots of its own.
    """
    # Its page /docs takes its scripts from here, not from the internet.
    app = FastAPIOffline(
        static_url=STATIC,
        title="Stepcast",
        summary="Seconds of steps and epochs of DNN training that nobody has run.",
        description=_DESCRIPTION,
        # The guard asks for the token before a body is read; this describes it.
        dependencies=[] if token is None else [Depends(HTTPBearer(auto_error=False))],
        responses={code: {"model": Problem, "description": why} for code, why in WHY.items()},
        redoc_url=None,
    )
    app.add_middleware(Guard, token=token)
    _explain(app)
    _add_forecasts(app, engine, collector, checker, slots or Slots())
    _add_cluster(app, collector)
    _summarize(app)
    return app


def _summarize(app: FastAPI) -> None:
    """Call operations on the page /docs what they do: FastAPI would by the names of functions."""
    for route in app.routes:
        if isinstance(route, APIRoute):
            route.summary = route.description.partition("\n")[0].rstrip(".")


def _explain(app: FastAPI) -> None:
    """Answer what cannot be with one line."""

    @app.exception_handler(StepcastError)
    async def refused(_: Request, error: StepcastError) -> JSONResponse:
        return problem(400 if isinstance(error, BadInput) else 503, str(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first, *others = error.errors()
        where = ".".join(str(part) for part in first["loc"])
        more = f" (and {len(others)} more)" if others else ""
        return problem(422, f"{where[:_LONGEST]}: {first['msg'][:_LONGEST]}{more}")

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        # FastAPI's own of a body that is no JSON, or nested as deep as Python's stack.
        unread = "expected a body of JSON in UTF-8, nested a few times"
        detail = unread if error.status_code == 400 else error.detail
        return problem(error.status_code, detail, error.headers)


class _Admission:
    """Lets as many questions in as can be answered soon; the others are told when to ask again."""

    def __init__(self, slots: Slots) -> None:
        self._slots, self._asked, self._latest_s = slots, 0, 1.0

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns in one of the slots.

        Raises:
            HTTPException: 503: too many wait; again after as long as the latest answer took.
        """
        if self._asked >= limits.QUESTIONS:
            again_s = ceil(self._latest_s)
            raise HTTPException(
                503,
                f"{limits.QUESTIONS} questions are answered or wait; ask again in {again_s} s",
                {"Retry-After": f"{again_s}"},
            )
        self._asked += 1
        began_s = time.monotonic()
        try:
            return await self._slots.run(call)
        finally:
            self._asked -= 1
            self._latest_s = time.monotonic() - began_s


def _add_forecasts(
    app: FastAPI, engine: Forecaster, collector: Collector, checker: Checker, slots: Slots
) -> None:
    admission = _Admission(slots)

    def answered(question: Question) -> Answer:
        place = (
            of_types(question.nodes, question.link_mbps)
            if question.nodes
            else of_cluster(collector.refreshed(), question.link_mbps)
        )
        begun = {name: _begun(checker, name) for name in checker.unknown(question.workloads)}
        known = [workload for workload in question.workloads if workload.dataset.type not in begun]
        workload_forecasts = engine.forecasts(known, place)
        made = iter(workload_forecasts.of)
        return Answer(
            forecasts=[
                begun[workload.dataset.type] if workload.dataset.type in begun else next(made)
                for workload in question.workloads
            ],
            nodes=place.counts,
            devices_per_node=place.devices,
            backend=workload_forecasts.backend,
            host_id=workload_forecasts.host_id,
        )

    @app.post(
        "/v1/forecasts",
        tags=["forecasts"],
        responses={202: {"model": Answer, "description": "Training for a new type has begun."}},
    )
    async def forecasts(question: Question, response: Response) -> Answer:
        """Forecast the steps of workloads, on named nodes or on those that have registered.

        A workload whose dataset is of a new type has no forecast: training begins, and the answer
        says where to ask how far it is (status 202).
        """
        answer = await admission.run(lambda: answered(question))
        if any(forecast.status == "retraining" for forecast in answer.forecasts):
            response.status_code = 202
        return answer

    @app.get("/v1/retraining/{dataset}", tags=["forecasts"])
    async def retraining(dataset: NodeName) -> Retraining:
        """Tell how far the training for a type of dataset is."""
        return checker.retraining(dataset)

    @app.post("/v1/retraining/{dataset}", tags=["forecasts"], status_code=202)
    def retrain(dataset: NodeName) -> Retraining:
        """Train for a new type of dataset, if nobody does: again, where it failed."""
        return checker.retrain(dataset)


def _add_cluster(app: FastAPI, collector: Collector) -> None:
    @app.get("/v1/cluster", tags=["cluster"])
    async def cluster() -> Cluster:
        """List the nodes that have registered and not fallen silent."""
        return collector.cluster()

    @app.put("/v1/cluster/{name}", tags=["cluster"])
    async def tell(name: NodeName, report: Report) -> Registered:
        """Register a node, or tell what it can do now."""
        collector.tell(name, report)
        return Registered(name=name, report=report, seconds_ago=0.0)

    @app.get("/v1/cluster/{name}/wanted", tags=["cluster"], status_code=204)
    async def wanted(name: NodeName) -> None:
        """Wait until a node should tell of itself again: ten seconds, or until somebody asks."""
        await collector.wanted(name)

    @app.delete("/v1/cluster/{name}", tags=["cluster"], status_code=204)
    async def leave(name: NodeName) -> None:
        """Let a node leave; one that is not there has left."""
        collector.leave(name)


def _begun(checker: Checker, dataset: str) -> Forecast:
    try:
        checker.checked(dataset)
    except BadInput as error:
        return Forecast(status="refused", reason=str(error))
    return Forecast(status="retraining", retraining=f"/v1/retraining/{dataset}")


# What a request has to pass before it is read: a token, and an end to its bytes and seconds.


STATIC = "/docs-static"
"""Where the scripts of /docs are."""
OPEN = (
    "/docs",
    "/docs/oauth2-redirect",
    "/openapi.json",
    *(f"{STATIC}/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")),
)
"""What describes the service, to everybody."""
RETURN_S = 30
"""When a service that ends may be back: whoever ends it may start it again."""
DISCARDED_BYTES = 2**26
"""How much of a body that is too large is read, so that its sender gets the answer."""


def problem(code: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an answer that says in one line why there is no other."""
    # What somebody sent may hold halves of surrogate pairs, which are no UTF-8.
    detail = " ".join(text.encode(errors="backslashreplace").decode().split())
    return JSONResponse({"detail": detail}, code, headers)


class Guard:
    """Refuses requests without the token, too large ones, and those that take too long to arrive.

    Args:
        app: what answers the others.
        token: what requests have to carry; None: nothing.
        most_bytes: of a request.
        most_s: that it may take to arrive.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        most_bytes: int = limits.REQUEST_BYTES,
        most_s: float = limits.REQUEST_S,
    ) -> None:
        self._app, self._token = app, token
        self._most_bytes, self._most_s = most_bytes, most_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        except asyncio.CancelledError:  # the server ends, and has waited as long as it does
            if has_begun:
                raise
            detail = "the service ends before it could answer; ask it again when it is back"
            headers = {"Connection": "close", "Retry-After": f"{RETURN_S}"}
            await problem(503, detail, headers)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (scope["path"] in OPEN or self._is_permitted(scope["headers"])):
            detail = "send the service's token in a header: `Authorization: Bearer TOKEN`"
            refusal = problem(401, detail, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._most_s):
                body = await self._read(scope["headers"], receive)
        except TimeoutError:
            detail = f"expected a whole request within {self._most_s:g} s"
            await problem(408, detail, {"Connection": "close"})(scope, receive, send)
            return
        except _TooLargeError as error:
            if error.more_comes:
                await self._discard(receive)
            detail = f"expected a request of at most {self._most_bytes:,} bytes"
            await problem(413, detail, {"Connection": "close"})(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replaying(body, receive), send)

    def _is_permitted(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        if self._token is None:
            return True
        given = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        is_ours = secrets.compare_digest(token.strip(), self._token.encode())
        return scheme.lower() == b"bearer" and is_ours

    async def _read(self, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> bytes | None:
        """Return a request's body; None: who asked has gone."""
        announced = next((value for name, value in headers if name == b"content-length"), b"")
        if announced.isdigit() and int(announced[:20]) > self._most_bytes:
            raise _TooLargeError(more_comes=int(announced[:20]) <= DISCARDED_BYTES)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            more_comes = message.get("more_body", False)
            if len(body) > self._most_bytes:
                raise _TooLargeError(more_comes)
            if not more_comes:
                return bytes(body)

    async def _discard(self, receive: Receive) -> None:
        """Read what still comes of a body, and keep none of it.

        Who is still sending when a connection closes learns of a reset, not of the answer.
        """
        discarded_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(self._most_s):
                while discarded_bytes <= DISCARDED_BYTES:
                    message = await receive()
                    discarded_bytes += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return


class _TooLargeError(Exception):
    def __init__(self, more_comes: bool) -> None:
        super().__init__()
        self.more_comes = more_comes


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return what tells a body that was read, then whatever comes next."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
