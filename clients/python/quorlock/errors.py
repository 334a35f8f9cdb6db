"""Why a call of quorlock failed. Each class is a decision for the caller; the message is the library's own."""

from __future__ import annotations

from typing import Any, Dict, Optional

__all__ = [
    "ConfigError", "Contended", "Held", "Lost", "NamesHeld", "NoPermit", "NoQuorum", "QuorlockError", "SlotsDiffer",
    "TooManyWaiters", "TooSlow",
]  # fmt: skip


class QuorlockError(Exception):
    """What went wrong, in the library's words."""

    #: The lock, or the first of several names; empty if no lock is concerned.
    lock: str = ""

    def __init__(self, message: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.__dict__.update(facts)


class ConfigError(QuorlockError, ValueError):
    """A setting, a name or a node cannot be used. Fix the program; the message says what is allowed."""


class Held(QuorlockError):
    """Another client kept the lock. Try later, or skip the work."""

    #: Who holds it, such as `ann@web1 (pid 4711): release 12`.
    holder: Optional[str] = None
    #: The holder's fence, if one client holds it alone.
    holder_fence: Optional[int] = None
    #: For how many seconds the holder has it, unless it extends; `None` if no node reported it.
    remaining: Optional[float] = None
    #: How many seconds this call waited.
    waited: float = 0.0


class NamesHeld(Held):
    """Other clients kept some of several names. Try later, or skip the work."""

    #: The holder of each name that is held.
    holders: Dict[str, str] = {}


class NoPermit(Held):
    """All slots of the semaphore are taken. Try later, or skip the work."""

    #: How many slots it has.
    slots: int = 0


class SlotsDiffer(QuorlockError):
    """Other clients use the semaphore with another number of slots. Use the same number everywhere."""

    #: How many slots others count.
    recorded: int = 0


class Contended(QuorlockError):
    """Several clients want the lock, and none of them has a majority. Try again."""

    attempts: int = 0
    waited: float = 0.0


class NoQuorum(QuorlockError):
    """Too few nodes answered. Wake an operator: `nodes` has the cause of each."""

    #: What each node answered.
    nodes: Dict[str, str] = {}


class TooSlow(QuorlockError):
    """The nodes agreed too late. Use a longer ttl, or faster nodes."""

    took: float = 0.0
    ttl: float = 0.0


class TooManyWaiters(QuorlockError):
    """Too many callers of this locker wait for the lock already. Shed load."""

    waiters: int = 0


class Lost(QuorlockError):
    """The lock is lost. Stop the work: another client may hold it soon."""

    #: A stable word for the cause: `expired`, `taken`, `quorum_lost`, `max_hold`, `suspended`, `released`,
    #: `unwatched`, or `forked` in a process that was forked from the holder.
    reason: str = ""
