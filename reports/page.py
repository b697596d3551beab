"""What all pages share: style and script, inline, and a rule that lets a page load nothing."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from string import Template

from reports.svg import shared_styles

_HERE = Path(__file__).parent
_STYLE, _SCRIPT = _HERE / "style.css", _HERE / "page.js"
_STYLES = "$style"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; script-src 'sha256-{}'"
)


def filled(template: str, **parts: str) -> str:
    """Return a page from a template of this folder; `parts` are HTML.

    A browser that opens the page loads nothing, from anywhere, and runs no script but ours.
    """
    script = _SCRIPT.read_text()
    told = b64encode(sha256(script.encode()).digest()).decode()
    page = Template((_HERE / template).read_text()).safe_substitute(
        script=script, policy=_POLICY.format(told), **parts
    )
    html, classes = shared_styles(page)
    return html.replace(_STYLES, f"{_STYLE.read_text()}{classes}\n", 1)
