"""A distributed lock that you can trust: fenced, kept alive, with a loss signal, on Redis, Valkey and others.

    from quorlock import Locker

    locker = Locker(["redis://a", "redis://b", "redis://c"])
    with locker.lock("invoice:42", ttl=10) as lease:
        pay(fence=lease.fence)      # let the database refuse an older fence
        lease.check()               # raises Lost as soon as the lock is not ours any more

    async with locker.lock("invoice:42") as lease: ...

`quorlock.sidecar` is a client of `quorlock serve` that needs nothing but the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from quorlock._lease import Lease as Lease
    from quorlock._locker import Listing as Listing, Locker as Locker
    from quorlock._locks import Election as Election, Lock as Lock
    from quorlock.errors import ConfigError as ConfigError, Contended as Contended, Held as Held, Lost as Lost
    from quorlock.errors import NamesHeld as NamesHeld, NoPermit as NoPermit, NoQuorum as NoQuorum
    from quorlock.errors import QuorlockError as QuorlockError, SlotsDiffer as SlotsDiffer
    from quorlock.errors import TooManyWaiters as TooManyWaiters, TooSlow as TooSlow
    from quorlock.views import Holder as Holder, Leader as Leader, Status as Status

# Loaded when first used: `quorlock.sidecar` works without the native module.
_MODULES = {
    "quorlock._lease": ["Lease"],
    "quorlock._locker": ["Listing", "Locker"],
    "quorlock._locks": ["Election", "Lock"],
    "quorlock.errors": [
        "ConfigError", "Contended", "Held", "Lost", "NamesHeld", "NoPermit", "NoQuorum", "QuorlockError",
        "SlotsDiffer", "TooManyWaiters", "TooSlow",
    ],
    "quorlock.views": ["Holder", "Leader", "Status"],
}  # fmt: skip
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
