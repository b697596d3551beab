"""The Listener: the service's addresses, who may ask, and what a malformed request gets."""

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi import Path as InPath
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

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
)
from pipelines.service.engine import Engine, of_cluster, of_types
from warehouse.names import PATTERN
from warehouse.records import BadInput, NodeGroup

MOST_BYTES = 8 << 20
"""Of a request."""
NodeName = Annotated[str, InPath(pattern=PATTERN, max_length=100)]
_PROBLEM = {"model": dict[str, str]}
_REFUSALS: dict[int | str, Problem] = {
    401: {**_PROBLEM, "description": "No token, or another one."},
    400: {**_PROBLEM, "description": "What was asked for cannot be; `detail` says why."},
    413: {**_PROBLEM, "description": "More than the service takes."},
}


def service(engine: Engine, collector: Collector, checker: Checker, token: str | None) -> FastAPI:
    """Return the service.

    Args:
        engine: what forecasts.
        collector: who knows the nodes.
        checker: who knows types of datasets.
        token: what requests have to carry; None: nobody is asked for one.
    """
    bearer = HTTPBearer(auto_error=False)

    def permitted(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        if token is not None and (
            given is None or not secrets.compare_digest(given.credentials.encode(), token.encode())
        ):
            raise HTTPException(401, "send the service's token: Authorization: Bearer TOKEN")

    app = FastAPI(
        title="Stepcast",
        summary="How long will this network's steps and epochs take on these nodes?",
        description=__doc__,
        dependencies=[Depends(permitted)],
        responses=_REFUSALS,
    )
    app.add_middleware(_Bounded)

    @app.exception_handler(BadInput)
    async def refused(_: Request, error: BadInput) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=400)

    @app.post("/v1/forecasts", tags=["forecasts"])
    def forecasts(question: Question, response: Response) -> Answer:
        """Forecast the steps of workloads, on named nodes or on those that have registered.

        A workload whose dataset is of a new type has no forecast: training begins, and the answer
        says where to ask how far it is (status 202).
        """
        groups, measured, link_mbps = _where(question, collector)
        new = checker.unknown(question.workloads)
        begun = {name: _begun(checker, name) for name in new}
        if begun:
            response.status_code = 202
        known = [one for one in question.workloads if one.dataset.type not in begun]
        made = iter(engine.forecasts(known, groups, measured, question.link_mbps or link_mbps))
        answers = [
            begun[one.dataset.type] if one.dataset.type in begun else next(made)
            for one in question.workloads
        ]
        counts: dict[str, int] = {}
        for group in groups:
            counts[group.node_type] = counts.get(group.node_type, 0) + group.count
        return Answer(forecasts=answers, nodes=counts)

    @app.get("/v1/retraining/{dataset}", tags=["forecasts"])
    def retraining(dataset: NodeName) -> Retraining:
        """Tell how far the training for a type of dataset is."""
        return checker.retraining(dataset)

    @app.get("/v1/cluster", tags=["cluster"])
    def cluster() -> Cluster:
        """List the nodes that have registered and not fallen silent."""
        return collector.cluster()

    @app.put("/v1/cluster/{name}", tags=["cluster"])
    def tell(name: NodeName, report: Report) -> Registered:
        """Register a node, or tell what it can do now."""
        collector.tell(name, report)
        return Registered(name=name, report=report, seconds_ago=0.0)

    @app.get("/v1/cluster/{name}/wanted", tags=["cluster"], status_code=204)
    async def wanted(name: NodeName) -> None:
        """Wait until a node should tell of itself again: ten seconds, or less if it is asked for."""
        await collector.wanted()

    @app.delete("/v1/cluster/{name}", tags=["cluster"], status_code=204)
    def leave(name: NodeName) -> None:
        """Let a node leave; one that is not there has left."""
        collector.leave(name)

    return app


def _where(
    question: Question, collector: Collector
) -> tuple[list[NodeGroup], dict[str, dict[str, float]], float | None]:
    if question.nodes:
        return of_types(question.nodes), {}, None
    groups, measured, link_mbps = of_cluster(collector.refreshed())
    return groups, {name: dict(found) for name, found in measured.items()}, link_mbps


def _begun(checker: Checker, dataset: str) -> Forecast:
    try:
        checker.retrain(dataset)
    except BadInput as error:
        return Forecast(status="refused", reason=str(error))
    return Forecast(status="retraining", retraining=f"/v1/retraining/{dataset}")


class _Bounded:
    """Refuses requests that are too large, and JSON that is nested too deep, before they are read."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:  # type: ignore[type-arg]
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                text = f"a request may have {MOST_BYTES:,} bytes"
                await JSONResponse({"detail": text}, 413)(scope, receive, send)
                return
        if body and not _is_shallow(body):
            await JSONResponse({"detail": "expected JSON, nested a few times"}, 400)(
                scope, receive, send
            )
            return
        sent = False

        async def replay() -> dict[str, object]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)


def _is_shallow(body: bytes) -> bool:
    """Tell whether bytes can be parsed as JSON; what is no JSON at all is told by the framework."""
    try:
        json.loads(body)
    except RecursionError:
        return False
    except ValueError:
        return True
    return True
