"""What can be acquired: locks, permits and leaderships."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar, cast

from quorlock._lease import Lease, Seconds
from quorlock._native import Target
from quorlock._waiting import finish, wait
from quorlock.views import Leader, Status

T = TypeVar("T")

#: For how many seconds one call follows an election; then the next one goes on.
OBSERVE_INTERVAL = 3600.0


class Lock:
    """A lock, several names together, or a permit of a semaphore. It is not held: `acquire` takes it, and so does a
    `with` or `async with` block. One object may be used by any number of threads and tasks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        #: The leases of the blocks that are under way, by the thread or task that entered them.
        self._entered: Dict[object, List[Lease]] = {}

    def acquire(self, wait: Optional[Seconds] = None) -> Lease:
        """Takes it, and waits if another client has it: at most for `wait`, else for the limit of the lock.
        Raises `Held`, `NoQuorum` and others of `quorlock.errors`. The GIL is released while it waits."""
        return Lease(self._target.acquire(False, wait).wait())

    def try_acquire(self) -> Lease:
        """Takes it without waiting for a client that has it. Raises `Held` if another client has it."""
        return Lease(self._target.acquire(True).wait())

    async def acquire_async(self, wait: Optional[Seconds] = None) -> Lease:
        """As `acquire`. If the task is cancelled, the lock is not taken."""
        return Lease(await finish(self._target.acquire(False, wait)))

    async def try_acquire_async(self) -> Lease:
        """As `try_acquire`."""
        return Lease(await finish(self._target.acquire(True)))

    async def run(self, work: Callable[[Lease], Awaitable[T]]) -> T:
        """Runs `work(lease)` while the lock is held, and cancels it as soon as the lock is lost.
        Raises `Lost` if that ended the work; else gives what the work returned or raises what it raised.
        The lock is released when the work has ended."""
        lease = await self.acquire_async()
        working = asyncio.ensure_future(work(lease))
        watching = asyncio.ensure_future(lease.wait_lost_async())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            loss = lease._held.loss()
            await lease.release_async()
        if loss is not None and working.cancelled():
            raise loss
        return working.result()

    def status(self) -> List[Status]:
        """What the nodes store for each of its names; of a semaphore, for each slot that is taken."""
        return cast(List[Status], wait(self._target.status()))

    async def status_async(self) -> List[Status]:
        """As `status`."""
        return cast(List[Status], await finish(self._target.status()))

    def __enter__(self) -> Lease:
        lease = self.acquire()
        self._entered.setdefault(threading.get_ident(), []).append(lease)
        return lease

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._leave(threading.get_ident()).__exit__(kind, error, trace)

    async def __aenter__(self) -> Lease:
        lease = await self.acquire_async()
        self._entered.setdefault(asyncio.current_task(), []).append(lease)
        return lease

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._leave(asyncio.current_task()).__aexit__(kind, error, trace)

    def _leave(self, who: object) -> Lease:
        """The lease of the innermost block that this thread or task is in."""
        leases = self._entered.get(who)
        if leases is None:
            raise RuntimeError("a block must be left by the thread or task that entered it")
        lease = leases.pop()
        if not leases:
            del self._entered[who]
        return lease


class Election:
    """One of several candidates leads at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def campaign(self, value: str, wait: Optional[Seconds] = None) -> Lease:
        """Campaigns until this candidate leads, and publishes `value`: 1 to 200 bytes of printable text.
        Waits as `Lock.acquire` does: give a long `wait`, or call it again. The lease has the `term`."""
        return Lease(self._target.acquire(False, wait, value).wait())

    async def campaign_async(self, value: str, wait: Optional[Seconds] = None) -> Lease:
        """As `campaign`."""
        return Lease(await finish(self._target.acquire(False, wait, value)))

    def leader(self) -> Optional[Leader]:
        """Who leads now; `None` if no candidate does."""
        return cast(Optional[Leader], wait(self._target.leader()))

    async def leader_async(self) -> Optional[Leader]:
        """As `leader`."""
        return cast(Optional[Leader], await finish(self._target.leader()))

    def observe(self) -> Iterator[Optional[Leader]]:
        """Follows who leads, from the current leader on; `None` means that no candidate leads any more."""
        observation = self._target.observe()
        while True:
            is_change, leader = cast(Tuple[bool, Optional[Leader]], wait(observation.next(OBSERVE_INTERVAL)))
            if is_change:
                yield leader

    async def observe_async(self) -> AsyncIterator[Optional[Leader]]:
        """As `observe`."""
        observation = self._target.observe()
        while True:
            change: Any = await finish(observation.next(OBSERVE_INTERVAL))
            if change[0]:
                yield change[1]
