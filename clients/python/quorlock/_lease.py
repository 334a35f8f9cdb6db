"""A held lock."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import TracebackType
from typing import Callable, Optional, Tuple, Type, Union

from quorlock._native import Held as NativeHeld
from quorlock._waiting import finish, wait
from quorlock.errors import Lost

#: A time: seconds or a `timedelta`.
Seconds = Union[float, int, timedelta]


class Lease:
    """A held lock. It is kept alive in the background, and released by `release`, at the end of a `with` block,
    or when it is garbage collected.

    A lease proves that the lock *was* granted, not that it still is: a process can be paused at any moment.
    Call `check` before each step, and let the protected resource compare `fence`.
    """

    __slots__ = ("_held", "_lost", "__weakref__")

    def __init__(self, held: NativeHeld) -> None:
        self._held = held
        self._lost: Optional[threading.Event] = None

    @property
    def fence(self) -> int:
        """The number to send with every write to the protected resource, which refuses a lower one than it saw."""
        return self._held.fence

    @property
    def token(self) -> str:
        """The random proof of ownership. A client that has it can extend and release the lock."""
        return self._held.token

    @property
    def name(self) -> str:
        """The name of the lock; of several names the first."""
        return self._held.names[0]

    @property
    def names(self) -> Tuple[str, ...]:
        """All names that are held together."""
        return tuple(self._held.names)

    @property
    def shared(self) -> bool:
        """Whether other clients may share it."""
        return self._held.is_shared

    @property
    def owner(self) -> str:
        """Who took it, as others see it."""
        return self._held.owner

    @property
    def votes(self) -> int:
        """How many nodes had agreed when the last acquire or extension was decided."""
        return self._held.votes

    @property
    def slot(self) -> int:
        """The slot of a permit, from 0. Its fence belongs to the slot: store the pair of both."""
        return self.slots[0]

    @property
    def slots(self) -> Tuple[int, ...]:
        """All slots of a permit; none if it is a lock."""
        return tuple(self._held.slots)

    @property
    def term(self) -> int:
        """The term of a leader: its fence."""
        return self._held.fence

    @property
    def value(self) -> Optional[str]:
        """What a leader published; `None` if it is a lock."""
        return self._held.value

    @property
    def expires_at(self) -> float:
        """The deadline as Unix time, for people."""
        return self._held.expires_at()

    def remaining(self) -> float:
        """Seconds for which it is held for sure, if it is not extended; 0 if it is lost. Asks no node."""
        return self._held.remaining()

    def time_left(self) -> float:
        """Seconds to the deadline, even after a loss was announced before it: how long the work has to stop."""
        return self._held.time_left()

    def is_held(self) -> bool:
        """Whether it is held for sure right now. Asks no node."""
        return self._held.is_held()

    def is_lost(self) -> bool:
        """Whether it is lost or released. Asks no node."""
        return self._held.loss() is not None

    def check(self) -> None:
        """Raises `Lost` if it is lost or released. Asks no node; call it before every step that must not go wrong."""
        loss = self._held.loss()
        if loss is not None:
            raise loss

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lock is lost, before its deadline. Not set by a release."""
        if self._lost is None:
            event = threading.Event()
            self._lost = event
            self._held.on_lost(event.set)
        return self._lost

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once when the lock is lost, before its deadline, on a background thread. Keep it short:
        other callbacks and event loops wait for it."""
        self._held.on_lost(callback)

    def wait_lost(self, timeout: Optional[Seconds] = None) -> bool:
        """Waits until it is lost or released, at most for `timeout`; whether it is."""
        return bool(wait(self._held.wait_lost(timeout)))

    async def wait_lost_async(self, timeout: Optional[Seconds] = None) -> bool:
        """As `wait_lost`."""
        return bool(await finish(self._held.wait_lost(timeout)))

    def extend(self, ttl: Optional[Seconds] = None) -> float:
        """Extends it by its ttl, or by `ttl`, from now; how many seconds it is held then. Not needed while the
        watchdog is on. Raises `Lost`, or `NoQuorum` if it is held until the deadline that it had."""
        return float(wait(self._held.extend(ttl)))

    async def extend_async(self, ttl: Optional[Seconds] = None) -> float:
        """As `extend`."""
        return float(await finish(self._held.extend(ttl)))

    def release(self) -> str:
        """Releases it on all nodes. Never fails; the outcome is

        - `"released"`: a majority of nodes released it
        - `"already_gone"`: a majority did not have it any more, or it was released before
        - `"unconfirmed"`: too few nodes answered; at the latest its ttl frees it
        """
        return str(wait(self._held.release()))

    async def release_async(self) -> str:
        """As `release`."""
        return str(await finish(self._held.release()))

    def downgrade(self) -> None:
        """Holds it shared from now on, so that other clients can share it."""
        self._held.downgrade()

    def give_away(self) -> str:
        """Stops keeping it alive without releasing it: a text with which another process takes it over, once, by
        `Locker.adopt`. Keep the text as secret as the token in it."""
        return str(wait(self._held.give_away()))

    async def give_away_async(self) -> str:
        """As `give_away`."""
        return str(await finish(self._held.give_away()))

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        loss = self._held.loss()
        outcome = self.release()
        self._complain(loss, outcome, error)

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        loss = self._held.loss()
        outcome = await self.release_async()
        self._complain(loss, outcome, error)

    def _complain(self, loss: Optional[Lost], outcome: str, error: Optional[BaseException]) -> None:
        """At the end of a block: raises `Lost` if the lock did not last as long, unless the block raised an error
        or released the lock itself."""
        if error is not None or (loss is not None and loss.reason == "released"):
            return
        if loss is not None:
            raise loss
        if outcome == "already_gone":
            message = f"lock `{self.name}` was gone when it was released: another client removed it"
            raise Lost(message, lock=self.name, reason="taken")

    def __repr__(self) -> str:
        state = f"held for {self.remaining():.3f} s" if self.is_held() else "not held"
        return f"<quorlock.Lease {state}>"
