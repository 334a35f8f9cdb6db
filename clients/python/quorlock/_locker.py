"""Nodes and configuration: where locks come from."""

from __future__ import annotations

import atexit
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Union, cast

from quorlock import _native
from quorlock._lease import Lease, Seconds
from quorlock._locks import Election, Lock
from quorlock._waiting import finish, wait as wait_for
from quorlock.views import Status

atexit.register(_native.shut_down)


class Listing(NamedTuple):
    """The locks that are held."""

    #: Each of them, in the order of their names.
    held: List[Status]
    #: Whether these are all.
    complete: bool


class Locker:
    """Nodes and configuration: where locks come from. Make one and share it among threads and tasks.

    `nodes` are URLs, in a list or in one text with commas: 1, 3 or 5 of `redis://[user:password@]host[:port][/db]`,
    `rediss://` (TLS), `unix://path` or `valkey://`; or one of `etcd://a,b,c`, `zk://a,b,c`, `consul://agent`,
    `postgres://host/database`, `file:` (this machine, no server). Without them QUORLOCK_NODES names the nodes.

    All settings are checked here: `ConfigError` says which one cannot be used. Times are seconds or `timedelta`.

    - `ttl`: how long the nodes keep a lock without hearing from its holder (10 s)
    - `wait`: how long `acquire` waits at most (10 s); 0 to try once, `float("inf")` for no limit
    - `max_attempts`: how many attempts `acquire` makes at most (10 000)
    - `watchdog`: whether held locks are extended in the background (on)
    - `max_hold`: how long a lock may be held at most, however often it is extended (no limit)
    - `loss_margin`: how long before the deadline a loss is announced (2 % of the ttl)
    - `owner`, `reason`: for people who ask who holds a lock (`user@host`, none)
    - `longest_ttl`: the longest ttl that any client of these nodes uses (30 s)
    - `node_timeout`, `connect_timeout`: how long one node may take (50 ms, 1 s)
    - `drift`: how much faster a node's clock may run than ours (0.01)
    - `fences`: whether locks get a fence (on)
    - `durable`: whether all nodes sync every write to disk, so that a restart needs no wait (off)
    - `restart_guard`: whether nodes that restarted are kept from voting (on with two or more nodes)
    - `allow_eviction`: accepts nodes that may drop locks when their memory is full (off)

    A forked process may go on to use it, with connections of its own. Leases stay with the process that took them.
    """

    def __init__(
        self,
        nodes: Union[str, Iterable[str], None] = None,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        max_attempts: Optional[int] = None,
        watchdog: Optional[bool] = None,
        max_hold: Optional[Seconds] = None,
        loss_margin: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
        longest_ttl: Optional[Seconds] = None,
        node_timeout: Optional[Seconds] = None,
        connect_timeout: Optional[Seconds] = None,
        drift: Optional[float] = None,
        fences: Optional[bool] = None,
        durable: Optional[bool] = None,
        restart_guard: Optional[bool] = None,
        allow_eviction: Optional[bool] = None,
    ) -> None:
        settings = {
            "nodes": nodes if nodes is None or isinstance(nodes, str) else [*nodes],
            "longest_ttl": longest_ttl,
            "node_timeout": node_timeout,
            "connect_timeout": connect_timeout,
            "drift": drift,
            "fences": fences,
            "durable": durable,
            "restart_guard": restart_guard,
            "allow_eviction": allow_eviction,
            "locks": _settings(ttl, wait, max_attempts, watchdog, max_hold, loss_margin, owner, reason),
        }
        self._native = _native.Locker(settings)

    def lock(
        self,
        name: str,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        shared: bool = False,
        max_attempts: Optional[int] = None,
        watchdog: Optional[bool] = None,
        max_hold: Optional[Seconds] = None,
        loss_margin: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> Lock:
        """The lock called `name`. It is not taken yet. With `shared` any number of clients hold it together, as long
        as no client holds it alone. The other settings are those of the locker, for this lock alone."""
        settings = _settings(ttl, wait, max_attempts, watchdog, max_hold, loss_margin, owner, reason)
        return Lock(self._native.names([name], shared, settings))

    def all(
        self,
        names: Iterable[str],
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        shared: bool = False,
        max_attempts: Optional[int] = None,
        watchdog: Optional[bool] = None,
        max_hold: Optional[Seconds] = None,
        loss_margin: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> Lock:
        """The lock that holds all `names` together, or none of them, with one fence: 1 to 16 names. No client holds
        some of them while it waits for others, so there is no deadlock, whatever the order of the names."""
        settings = _settings(ttl, wait, max_attempts, watchdog, max_hold, loss_margin, owner, reason)
        return Lock(self._native.names(_names(names), shared, settings))

    def semaphore(
        self,
        name: str,
        slots: int,
        *,
        permits: int = 1,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        max_attempts: Optional[int] = None,
        watchdog: Optional[bool] = None,
        max_hold: Optional[Seconds] = None,
        loss_margin: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> Lock:
        """A permit of the semaphore called `name`, or several at once: at most `slots` are taken at a time. All
        clients must use the same number of slots. The lease has the `slot`."""
        settings = _settings(ttl, wait, max_attempts, watchdog, max_hold, loss_margin, owner, reason)
        return Lock(self._native.permits(name, slots, permits, settings))

    def election(
        self,
        name: str,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        max_attempts: Optional[int] = None,
        watchdog: Optional[bool] = None,
        max_hold: Optional[Seconds] = None,
        loss_margin: Optional[Seconds] = None,
        owner: Optional[str] = None,
    ) -> Election:
        """The election called `name`: one of its candidates leads at a time."""
        settings = _settings(ttl, wait, max_attempts, watchdog, max_hold, loss_margin, owner, None)
        return Election(self._native.leadership(name, settings))

    def status(self, name: str) -> Status:
        """What the nodes store for the lock called `name`: who holds it, for how long, with which fence."""
        return self.lock(name).status()[0]

    async def status_async(self, name: str) -> Status:
        """As `status`."""
        return (await self.lock(name).status_async())[0]

    def list(self) -> Listing:
        """All locks that are held, by any client."""
        return Listing(*wait_for(self._native.list()))

    async def list_async(self) -> Listing:
        """As `list`."""
        return Listing(*await finish(self._native.list()))

    def connect(self) -> None:
        """Connects, and waits until a majority of nodes can answer. Never needed: the first call does it."""
        wait_for(self._native.connect())

    async def connect_async(self) -> None:
        """As `connect`."""
        await finish(self._native.connect())

    def flush(self) -> None:
        """Waits until every node has answered everything that was sent to it so far, or its node timeout is over."""
        wait_for(self._native.flush())

    async def flush_async(self) -> None:
        """As `flush`."""
        await finish(self._native.flush())

    def health(self) -> Dict[str, Optional[str]]:
        """Why each node cannot vote, as far as known; `None` if it can. Asks no node."""
        return self._native.health()

    def init_fresh_nodes(self) -> Dict[str, Optional[str]]:
        """Declares all nodes fresh, so that they may vote at once; why each could not be, or `None`. For new nodes
        only: on nodes that restarted while locks were held this can give one lock to two holders."""
        return cast(Dict[str, Optional[str]], wait_for(self._native.init_fresh_nodes()))

    def extend(self, name: Union[str, Iterable[str]], token: str, ttl: Seconds) -> float:
        """Extends the lock that is held with exactly this `token`, for a program that knows only name and token."""
        return float(wait_for(self._native.extend_token(_names(name), token, ttl)))

    async def extend_async(self, name: Union[str, Iterable[str]], token: str, ttl: Seconds) -> float:
        """As `extend`."""
        return float(await finish(self._native.extend_token(_names(name), token, ttl)))

    def release(self, name: Union[str, Iterable[str]], token: str) -> str:
        """Releases the lock that is held with exactly this `token`; the outcome is that of `Lease.release`."""
        return str(wait_for(self._native.release_token(_names(name), token, False)))

    async def release_async(self, name: Union[str, Iterable[str]], token: str) -> str:
        """As `release`."""
        return str(await finish(self._native.release_token(_names(name), token, False)))

    def force_release(self, name: Union[str, Iterable[str]], token: str) -> str:
        """Takes the lock away from the client that holds it with exactly this `token`, as `status` shows it."""
        return str(wait_for(self._native.release_token(_names(name), token, True)))

    async def force_release_async(self, name: Union[str, Iterable[str]], token: str) -> str:
        """As `force_release`."""
        return str(await finish(self._native.release_token(_names(name), token, True)))

    def adopt(self, handle: str) -> Lease:
        """Takes over a lock that another process gave away with `Lease.give_away`. Adopt a handle once."""
        return Lease(wait_for(self._native.adopt(handle)))

    async def adopt_async(self, handle: str) -> Lease:
        """As `adopt`."""
        return Lease(await finish(self._native.adopt(handle)))


def _settings(
    ttl: Optional[Seconds],
    wait: Optional[Seconds],
    max_attempts: Optional[int],
    watchdog: Optional[bool],
    max_hold: Optional[Seconds],
    loss_margin: Optional[Seconds],
    owner: Optional[str],
    reason: Optional[str],
) -> Dict[str, Any]:
    """What the native half calls the settings of a lock."""
    return {
        "ttl": ttl,
        "wait": wait,
        "max_attempts": max_attempts,
        "watchdog": watchdog,
        "max_hold": max_hold,
        "loss_margin": loss_margin,
        "owner": owner,
        "reason": reason,
    }


def _names(names: Union[str, Iterable[str]]) -> List[str]:
    return [names] if isinstance(names, str) else [*names]
