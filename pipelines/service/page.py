"""The page at `/`: a template, a stylesheet, scripts; whatever it shows it asks of `/v1`."""

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.exceptions import HTTPException

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
        if name not in ASK_FILES:
            raise HTTPException(404, f"no file {name}")
        path, media_type = ASK_FILES[name]
        return FileResponse(path, media_type=media_type, headers=_HEADERS)
