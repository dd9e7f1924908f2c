"""Time limits that share a timer."""

from __future__ import annotations

import asyncio

import pytest

from recollect.serve.http.patience import Patience

LONG = 3_600.0


def test_what_takes_too_long_is_given_up() -> None:
    patience = Patience()

    async def wait() -> int:
        with pytest.raises(TimeoutError), patience.limit(0.0):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(wait()) == 0, "and what comes next is not cancelled"
    assert len(patience) == 0


def test_what_comes_in_time_leaves_nothing_behind() -> None:
    patience = Patience()

    async def wait() -> list[str]:
        found = []
        for number in range(100):
            with patience.limit(LONG):
                found.append(await asyncio.sleep(0, f"{number}"))
        return found

    assert len(asyncio.run(wait())) == 100
    assert len(patience) == 0


def test_each_wait_has_its_own_time() -> None:
    """One timer does for all: those after the first are looked after, too, and nobody else is."""
    patience = Patience()

    async def one(event: asyncio.Event, seconds: float) -> bool:
        try:
            with patience.limit(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def several() -> list[bool]:
        comes, never = asyncio.Event(), asyncio.Event()
        waits = [asyncio.ensure_future(one(event, 0.01)) for event in (comes, never, comes, never)]
        await asyncio.sleep(0)
        comes.set()
        in_time = await asyncio.gather(*waits)
        later = await one(never, 0.0)
        return [*in_time, later]

    assert asyncio.run(several()) == [True, False, True, False, False]


def test_who_is_cancelled_by_somebody_else_stays_so() -> None:
    patience = Patience()

    async def wait() -> None:
        with patience.limit(LONG):
            await asyncio.Event().wait()

    async def cancelled() -> bool:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(cancelled())
    assert len(patience) == 0


def test_an_error_of_ones_own_is_not_hidden() -> None:
    async def fail() -> None:
        with Patience().limit(LONG):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        asyncio.run(fail())


def test_it_goes_on_in_another_event_loop() -> None:
    patience = Patience()

    async def in_time() -> None:
        with patience.limit(LONG):
            await asyncio.sleep(0)

    async def late() -> None:
        with pytest.raises(TimeoutError), patience.limit(0.0):
            await asyncio.Event().wait()

    asyncio.run(in_time())  # its timer ends with its loop
    asyncio.run(late())
