"""The console's login and logout, and the end of other sessions."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Query, Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import InvalidInput, NotFound
from recollect.serve import links
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.templating import html, render
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.responses import Problem
from recollect.serve.http.routes import ANY_SCOPE, PUBLIC, Routes
from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    cookie_values,
    live_sessions,
)
from recollect.serve.identity.auth import Unauthorized
from recollect.serve.identity.principal import WRITE, Forbidden

routes = Routes(route_class=PageRoute)

_MAX_LOGIN_BYTES = 20_000


@routes.add("GET /login", PUBLIC)
def login_page(next: Annotated[str, Query(max_length=4000)] = "/") -> Response:
    return html(render("login.html", next=links.local(next), problem=""))


@routes.add("POST /login", PUBLIC)
async def login(request: Request) -> Response:
    """Exchange an API key or token for a session, in a cookie that scripts cannot read."""
    form = await read_form(request)
    key = form.get("key", "").strip()
    next_url = links.local(form.get("next"))
    service: Service = request.app.state.service
    try:
        if not key:
            raise Unauthorized("Enter an API key.")
        text, session = await service.auth.log_in(
            key,
            request.state.address,
            request.headers.get("user-agent", ""),
            old_session="".join(cookie_values(request.headers.getlist("cookie"))),
        )
    except Problem as problem:
        content = render("login.html", next=next_url, problem=problem.detail)
        return html(content, problem.status_code)
    response = RedirectResponse(next_url, 303)
    response.set_cookie(
        cookie_name(service),
        text,
        expires=session.expires_at,
        path="/",
        httponly=True,
        samesite="strict",
        secure=service.config.secure_cookies,
    )
    return response


@routes.add("POST /logout", ANY_SCOPE)
def logout(access: AccessTo) -> Response:
    if access.principal.session:
        with suppress(NotFound):
            access.service.keys.end_session(access.principal.session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(
        cookie_name(access.service),
        path="/",
        httponly=True,
        samesite="strict",
        secure=access.service.config.secure_cookies,
    )
    return response


def cookie_name(service: Service) -> str:
    if service.config.secure_cookies:
        return SECURE_COOKIE
    return PLAIN_COOKIE


@routes.add("POST /sessions/{id}/end", WRITE, CONVERSATIONS)
def end_session(access: AccessTo, id: str) -> Response:
    require_person(access)
    own_ids = {own.id for own in live_sessions(access.service.keys, access.principal.user)}
    if id in own_ids:
        with suppress(NotFound):
            access.service.keys.end_session(id)
    return RedirectResponse("/settings#sessions", 303)


def require_person(access: Access) -> None:
    if access.principal.agent:
        raise Forbidden("Sessions are for people. Use a key that does not belong to an agent.")


async def read_form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_LOGIN_BYTES:
            raise Problem(413, "This is too long for an API key.")
    try:
        pairs = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=10)
    except ValueError as error:
        raise InvalidInput("The form could not be read.") from error
    return {name: values[0] for name, values in pairs.items()}
