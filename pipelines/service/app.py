"""The Listener: the service's addresses, who may ask, and what a request has to pass.

Forecasts are made in a few threads. What nodes tell takes none, for only dicts change: it never
waits for a forecast.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from pydantic import Discriminator, Tag
from starlette.exceptions import HTTPException

from pipelines.cli.answers import PredictAnswer
from pipelines.cli.recommendation import RecommendAnswer
from pipelines.service import contracts, listings
from pipelines.service.admission import Admission, respond
from pipelines.service.asked import Answers, AskedForecast, AskedJob
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.engine import Engine
from pipelines.service.guard import FILES, STATIC, Guard, problem
from pipelines.service.node_selection import of_cluster, of_types
from reports.html import ASK_FILES, ask_page, policy
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
_TAGS = ("as workloads", "as options")


def _kind_of(sent: object) -> str:
    is_options = isinstance(sent, AskedForecast) or (
        isinstance(sent, Mapping) and "workloads" not in sent
    )
    return _TAGS[is_options]


Asked = Annotated[
    Annotated[contracts.Question, Tag(_TAGS[0])] | Annotated[AskedForecast, Tag(_TAGS[1])],
    Discriminator(_kind_of),
]
"""A question of PredictDDL's service, or one of the command line."""
_HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Of the page at `/`: a template, a stylesheet, scripts; whatever it shows it asks of `/v1`."""
_LONGEST = 300
_DESCRIPTION = """
How long will a step, and an epoch, of this network take on these nodes? Networks are named, or
given as graphs of primitive operations; nodes are named, or have registered.
"""


def service(
    engine: Engine,
    collector: Collector,
    checker: Checker,
    token: str | None,
    admission: Admission | None = None,
    answers: Answers | None = None,
    allows_sql: bool = False,
) -> FastAPI:
    """Return the service.

    Args:
        engine: what forecasts.
        collector: who knows the nodes.
        checker: who knows types of datasets.
        token: what requests have to carry; None: nobody is asked for one.
        admission: of questions; None: four forecasts at once.
        answers: to what the commands are asked; None: new ones.
        allows_sql: whether a SELECT of one's own is answered.
    """
    admission = admission or Admission()
    # Its page /docs takes its scripts from here, not from the internet.
    app = FastAPIOffline(
        static_url=STATIC,
        title="Stepcast",
        summary="Seconds of steps and epochs of DNN training that nobody has run.",
        description=_DESCRIPTION,
        # The guard asks for the token before a body is read; this describes it.
        dependencies=[] if token is None else [Depends(HTTPBearer(auto_error=False))],
        responses={
            code: {"model": contracts.Problem, "description": why} for code, why in WHY.items()
        },
        redoc_url=None,
    )
    app.add_middleware(Guard, token=token)
    _explain(app)
    answers = answers or Answers()
    _add_forecasts(app, engine, collector, checker, admission, answers)
    _add_support(app, answers, admission, allows_sql)
    _add_history(app, admission, allows_sql)
    _add_cluster(app, collector)
    _add_page(app)
    # Operations are called what they do on the page /docs: FastAPI would by names of functions.
    for route in app.routes:
        if isinstance(route, APIRoute):
            route.summary = route.description.partition("\n")[0].rstrip(".")
    return app


def _explain(app: FastAPI) -> None:
    """Answer what cannot be with one line."""

    @app.exception_handler(StepcastError)
    async def refused(_: Request, error: StepcastError) -> JSONResponse:
        return problem(400 if isinstance(error, BadInput) else 503, str(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first, *others = error.errors()
        place = [part for part in first["loc"] if part not in _TAGS]
        where = ".".join(str(part) for part in place)
        more = f" (and {len(others)} more)" if others else ""
        return problem(422, f"{where[:_LONGEST]}: {first['msg'][:_LONGEST]}{more}")

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        # FastAPI's own of a body that is no JSON, or nested as deep as Python's stack.
        unread = "expected a body of JSON in UTF-8, nested a few times"
        detail = unread if error.status_code == 400 else error.detail
        return problem(error.status_code, detail, error.headers)


def _add_forecasts(
    app: FastAPI,
    engine: Engine,
    collector: Collector,
    checker: Checker,
    admission: Admission,
    answers: Answers,
) -> None:
    def answered(question: contracts.Question) -> contracts.Answer:
        nodes = (
            of_types(question.nodes, question.link_mbps)
            if question.nodes
            else of_cluster(collector.refreshed(), question.link_mbps)
        )
        begun = {name: _begun(checker, name) for name in checker.unknown(question.workloads)}
        return engine.answer(question.workloads, nodes, begun)

    @app.post(
        "/v1/forecasts",
        tags=["forecasts"],
        response_model=contracts.Answer | PredictAnswer,
        responses={
            202: {"model": contracts.Answer, "description": "Training for a new type has begun."}
        },
    )
    async def forecasts(
        question: Asked, request: Request, response: Response
    ) -> contracts.Answer | Response:
        """Forecast the steps of workloads, on named nodes or on those that have registered.

        A workload whose dataset is of a new type has no forecast: training begins, and the answer
        says where to ask how far it is (status 202).

        Without `workloads` the question has the options of `stepcast predict`, and the answer is
        that of its --json.
        """
        if isinstance(question, AskedForecast):
            return await respond(request, admission, partial(answers.forecast, question))
        answer = await admission.run(lambda: answered(question))
        if any(forecast.status == "retraining" for forecast in answer.forecasts):
            response.status_code = 202
        return answer

    @app.get("/v1/retraining/{dataset}", tags=["forecasts"])
    async def retraining(dataset: NodeName) -> contracts.Retraining:
        """Tell how far the training for a type of dataset is."""
        return checker.retraining(dataset)

    @app.post("/v1/retraining/{dataset}", tags=["forecasts"], status_code=202)
    def retrain(dataset: NodeName) -> contracts.Retraining:
        """Train for a new type of dataset, if nobody does: again, where it failed."""
        return checker.retrain(dataset)


def _add_support(app: FastAPI, answers: Answers, admission: Admission, allows_sql: bool) -> None:
    @app.post("/v1/recommendations", tags=["recommendations"], response_model=RecommendAnswer)
    async def recommendations(asked: AskedJob, request: Request, refused: bool = True) -> Response:
        """Choose nodes for a job: the answer of `stepcast recommend --json`.

        With `Accept: application/x-ndjson` progress comes first, a line of JSON each; with
        `text/html` the answer is a page of one file. The work ends when the connection closes.
        Without `refused` rows of each system's refusals stay out, which are most of the answer.
        """
        call, page = partial(answers.recommend, asked, refused), partial(answers.page, asked)
        return await respond(request, admission, call, page)

    @app.get("/v1/node-types", tags=["support"])
    def node_types() -> contracts.Rows:
        """List the node types that questions can name."""
        return listings.node_types()

    @app.get("/v1/support", tags=["support"])
    def support() -> contracts.Support:
        """List what can be asked about."""
        return listings.support(allows_sql)


def _add_history(app: FastAPI, admission: Admission, allows_sql: bool) -> None:
    @app.get("/v1/coverage", tags=["history"], response_model=contracts.Coverage)
    async def coverage(request: Request) -> Response:
        """Tell how wrong forecasts were, by kind of network, board and precision."""
        return await respond(request, admission, lambda _: listings.covered())

    @app.get("/v1/history/queries", tags=["history"])
    def queries() -> contracts.Queries:
        """List the queries that come with Stepcast, with their SQL."""
        return listings.queries()

    @app.get("/v1/history/queries/{name}", tags=["history"], response_model=contracts.Rows)
    async def query(name: NodeName, request: Request) -> Response:
        """Run a query that comes with Stepcast; its parameters are those of the address."""
        params = dict(request.query_params)
        return await respond(request, admission, lambda _: listings.query(name, params))

    @app.post("/v1/history/sql", tags=["history"], response_model=contracts.Rows)
    async def sql(statement: contracts.Statement, request: Request) -> Response:
        """Run a SELECT of one's own, where `stepcast serve --allow-sql` lets anybody."""
        if not allows_sql:
            raise BadInput("no SQL is taken here: `stepcast serve --allow-sql` takes SELECT")
        return await respond(request, admission, lambda _: listings.sql(statement.sql))


def _begun(checker: Checker, dataset: str) -> contracts.Forecast:
    try:
        checker.retrain(dataset, again=False)
    except BadInput as error:
        return contracts.Forecast(status="refused", reason=str(error))
    return contracts.Forecast(status="retraining", retraining=f"/v1/retraining/{dataset}")


def _add_cluster(app: FastAPI, collector: Collector) -> None:
    @app.get("/v1/cluster", tags=["cluster"])
    async def cluster() -> contracts.Cluster:
        """List the nodes that have registered and not fallen silent."""
        return collector.cluster()

    @app.put("/v1/cluster/{name}", tags=["cluster"])
    async def tell(name: NodeName, report: contracts.Report) -> contracts.Registered:
        """Register a node, or tell what it can do now."""
        collector.tell(name, report)
        return contracts.Registered(name=name, report=report, seconds_ago=0.0)

    @app.get("/v1/cluster/{name}/wanted", tags=["cluster"], status_code=204)
    async def wanted(name: NodeName) -> None:
        """Wait until a node should tell of itself again: ten seconds, or until somebody asks."""
        await collector.wanted(name)

    @app.delete("/v1/cluster/{name}", tags=["cluster"], status_code=204)
    async def leave(name: NodeName) -> None:
        """Let a node leave; one that is not there has left."""
        collector.leave(name)


def _add_page(app: FastAPI) -> None:
    """Serve the page and what it loads, to everybody: it holds nothing of the history."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(ask_page(), headers=_HEADERS)

    @app.get(f"{FILES}/{{name}}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in ASK_FILES:
            raise HTTPException(404, f"no file {name}")
        path, media_type = ASK_FILES[name]
        return FileResponse(path, media_type=media_type, headers=_HEADERS)
