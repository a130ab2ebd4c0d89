"""The page at /: a box for a text, and the page that explains the answer."""

from html import escape
from importlib.resources import files
from string import Template

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..bodies import fields_of
from ..work import Work
from .asking import answered, shelf_of

_POLICY = "default-src 'none'; style-src 'self' 'unsafe-inline'; form-action 'self'; frame-src 'self'; base-uri 'none'"


class Explain(msgspec.Struct):
    """Body of /page."""

    text: str
    model: str | None = None
    context: str | None = None


async def home(request: Request) -> Response:
    """Return the page with the box."""
    models = shelf_of(request).models.values()
    options = "".join(f"<option>{escape(it.name)}</option>" for it in models if it.modality == "text")
    page = Template(files(__package__).joinpath("static", "home.html").read_text("utf-8")).substitute(models=options)
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


async def page(request: Request) -> Response:
    """Return the page that shows everything about one answer."""
    body = await fields_of(request, Explain)
    shelf = shelf_of(request)
    model = shelf.find(body.model)
    shelf.limits.check_texts([body.text], "text")
    [found] = await answered(request, model, Work.of("pages", {"name": model.name}), [body.text])
    return HTMLResponse(found)
