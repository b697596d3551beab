"""The page at `/`: a template, a stylesheet, scripts; whatever it shows it asks of `/v1`."""

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse

from pipelines.service.guard import FILES
from reports.html import ASK_FILES, ask_page, policy

_HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def add_page(app: FastAPI) -> None:
    """Serve the page and what it loads, to everybody: it holds nothing of the history."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(ask_page(), headers=_HEADERS)

    @app.get(f"{FILES}/{{name}}", include_in_schema=False)
    async def file(name: str) -> Response:
        path, media_type = ASK_FILES[name]
        return Response(path.read_bytes(), media_type=media_type, headers=_HEADERS)
