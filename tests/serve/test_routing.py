"""Routes are analysed when they are first used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient

from recollect.serve.http.routing import DeferredRoute


def application() -> tuple[FastAPI, DeferredRoute]:
    router = APIRouter(route_class=DeferredRoute)

    @router.get("/double/{number}", tags=["numbers"])
    def double(number: int, factor: int = 2) -> dict[str, int]:
        return {"result": number * factor}

    app = FastAPI()
    app.router.routes.extend(router.routes)
    (route,) = router.routes
    assert isinstance(route, DeferredRoute)
    return app, route


def test_a_request_completes_its_route() -> None:
    app, route = application()
    client = TestClient(app)
    assert client.get("/elsewhere").status_code == 404
    assert client.post("/double/4").status_code == 405
    assert "dependant" not in vars(route)
    assert client.get("/double/4").json() == {"result": 8}
    assert client.get("/double/4?factor=3").json() == {"result": 12}
    assert client.get("/double/four").status_code == 422
    assert "dependant" in vars(route)


def test_the_description_of_the_api_contains_routes_without_requests() -> None:
    app, _ = application()
    operation = app.openapi()["paths"]["/double/{number}"]["get"]
    assert operation["tags"] == ["numbers"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["number", "factor"]


def test_threads_that_use_a_route_at_once_see_it_complete() -> None:
    for _ in range(20):
        _, route = application()
        barrier = Barrier(8)

        def use(route: DeferredRoute = route, barrier: Barrier = barrier) -> object:
            barrier.wait()
            return route.app

        with ThreadPoolExecutor(8) as threads:
            futures = [threads.submit(use) for _ in range(8)]
        assert {future.result() for future in futures} == {route.app}


def test_a_route_has_no_other_attributes() -> None:
    _, route = application()
    assert not hasattr(route, "elsewhere")
