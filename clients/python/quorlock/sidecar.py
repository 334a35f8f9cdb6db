"""Locks from the quorlock sidecar (`quorlock serve`), with nothing but the standard library.

    from quorlock.sidecar import lock

    with lock("invoice:42", ttl=30, wait=10) as lease:
        pay(fence=lease.fence)      # let the database refuse an older fence
        lease.check()               # raises LockLost as soon as the lock is not ours any more
        book(fence=lease.fence)

    with lock("config", shared=True): ...                   # any number of readers, or one writer
    with lock_all(["account:1", "account:2"]) as lease: ... # all or none, one fence
    with semaphore("gpu", 4) as permit: use(permit.slot)    # at most 4 permits
    with election("scheduler").campaign("10.0.0.7:80") as led: lead(led.term)

The lock is held while the connection to the sidecar is open, and free the moment this process is gone. Where one
connection cannot last as long as the lock, `Client.acquire`, `extend` and `release` do it by token.

The sidecar is named by `Client(url=...)`, else by QUORLOCK_SIDECAR ("http://127.0.0.1:7420" or
"unix:/run/quorlock.sock"), and its token by `Client(token=...)`, else by QUORLOCK_SIDECAR_TOKEN.

Times are seconds, or `timedelta`. This file needs no other: copy it under any name, or install the package `quorlock`.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import select
import socket
import ssl
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union
from urllib.parse import quote, urlencode, urlsplit

__all__ = [
    "BadRequest", "Client", "Contended", "Election", "Forbidden", "Full", "Held", "HeldName", "Hold", "Holder", "Leader",
    "Leadership", "Lease", "LockLost", "LockView", "Lost", "NamesHeld", "NoPermit", "NoQuorum", "QuorlockError", "Reader",
    "ShuttingDown", "SlotsDiffer", "TooManyNames", "TooManyWaiters", "TooSlow", "Unauthorized", "Unreachable", "WaitOver",
    "election", "lock", "lock_all", "semaphore",
]  # fmt: skip

Seconds = Union[float, int, timedelta]

DEFAULT_URL = "http://127.0.0.1:7420"
# The sidecar says something every 5 s while a lock is held. Silence for longer means that it is gone.
SILENCE = 15.0
# How long a candidate campaigns at most with one request.
LONGEST_WAIT = 3600.0
# The clocks of two machines may run apart by this much of the time that they measure. A sidecar belongs on the machine of
# its callers; on another a hold ends for us after about a thousand ttls.
DRIFT = 0.001
# How many idle connections a client keeps for its next requests, and for how long. The sidecar closes them after 30 s.
MOST_IDLE = 16
LONGEST_IDLE = 20.0
# How far apart two readings of one clock may seem to be, as the sidecar rounds to milliseconds.
ROUNDING = 0.01
# The most that one line of an event may have.
LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    owner: str
    pid: Optional[int] = None
    since: Optional[int] = None
    reason: Optional[str] = None
    foreign: bool = False


@dataclass(frozen=True)
class Reader:
    """One of those who share a lock."""

    owner: str
    pid: int
    since: int
    reason: Optional[str]
    fence: int
    #: Only for callers of scope `write`, and only from `Client.status`.
    token: Optional[str] = field(default=None, repr=False)


@dataclass(frozen=True)
class HeldName:
    """A name that others hold, exclusively (`holder`) or shared (`readers`)."""

    name: str
    holder: Optional[Holder]
    readers: List[Reader]
    remaining: Optional[float]


@dataclass(frozen=True)
class Leader:
    """Who leads an election. It may be old when you read it: compare terms, which only rise."""

    value: str
    term: int
    owner: str
    pid: int
    since: int


@dataclass(frozen=True)
class LockView:
    """What the nodes say of one lock. Times are seconds; `since` of the holder is Unix time in milliseconds."""

    name: str
    held: bool
    holder: Optional[Holder]
    fence: Optional[int]
    remaining: Optional[float]
    votes: int
    nodes: int
    quorum: int
    waiters: int
    here: bool
    #: Only for callers of scope `write`, and only from `Client.status`.
    token: Optional[str] = field(default=None, repr=False)
    node_views: List[Dict[str, Any]] = field(default_factory=list, repr=False)
    #: "exclusive", "shared", or `None` if it is free.
    mode: Optional[str] = None
    #: Those who share it.
    readers: List[Reader] = field(default_factory=list)
    #: The semaphore and the number of the slot, if it is one.
    semaphore: Optional[str] = None
    slot: Optional[int] = None


@dataclass(frozen=True)
class Lease:
    """A lock that was taken by token. Nobody extends it but you."""

    name: str
    token: str = field(repr=False)
    #: Increases with every holder; `None` if it was extended by a sidecar that did not hand it out.
    fence: Optional[int]
    ttl: float
    votes: int
    nodes: int
    quorum: int
    _deadline: float = field(repr=False)
    #: All names that are held together; just `name`, unless there are several.
    names: Tuple[str, ...] = ()
    #: The slot of a permit.
    slot: Optional[int] = None
    #: "exclusive" or "shared"; `None` if it was extended by a sidecar that did not hand it out.
    mode: Optional[str] = None

    @property
    def remaining(self) -> float:
        """Seconds that are left, never below 0. Counted from before the request, however late the answer was read."""
        return max(0.0, self._deadline - _now())

    def check(self) -> None:
        """Raises `LockLost` if its time is over. Call it before every step that must not go wrong."""
        if self.remaining == 0.0:
            raise LockLost(f"the lease of lock `{self.name}` is over")


class QuorlockError(Exception):
    """What went wrong, and what to do about it. `code` is the sidecar's word for it."""

    code = "unknown"

    def __init__(self, detail: str, *, status: Optional[int] = None, problem: Optional[Mapping[str, Any]] = None):
        super().__init__(detail)
        self.detail = detail
        self.status = status
        #: All that the sidecar said.
        self.problem: Dict[str, Any] = dict(problem or {})
        self.code = str(self.problem.get("code", self.code))


class Unreachable(QuorlockError):
    """The sidecar does not answer."""

    code = "unreachable"


class Held(QuorlockError):
    """Another client has the lock: `holder`, for another `remaining` seconds if that is known."""

    code = "held"

    @property
    def holder(self) -> Optional[Holder]:
        return _holder(self.problem.get("holder"))

    @property
    def remaining(self) -> Optional[float]:
        return _seconds(self.problem.get("remaining_ms"))

    @property
    def readers(self) -> List[Reader]:
        """Those who share the lock, if that keeps us out."""
        return _readers(self.problem.get("readers"))


class NamesHeld(Held):
    """Others have some of the names: `held` says which and who. `WaitOver` has it in `problem["held"]`."""

    code = "names_held"

    @property
    def held(self) -> List[HeldName]:
        return [
            HeldName(
                one["name"], _holder(one.get("holder")), _readers(one.get("readers")), _seconds(one.get("remaining_ms"))
            )
            for one in self.problem.get("held") or []
        ]


class NoPermit(Held):
    """All slots of the semaphore are taken."""

    code = "no_permit"


class SlotsDiffer(QuorlockError):
    """The semaphore is in use with another number of slots: `recorded`."""

    code = "slots_differ"

    @property
    def recorded(self) -> Optional[int]:
        return self.problem.get("recorded")


class WaitOver(Held):
    """The lock did not become free in time."""

    code = "wait_over"


class Contended(QuorlockError):
    """Several clients want the lock, and none has a majority. Try again: perhaps no client does the work."""

    code = "contended"


class LockLost(QuorlockError):
    """The lock is not ours any more, or never was. Stop what it protected."""

    code = "lost"


#: The same under the sidecar's word.
Lost = LockLost


class NoQuorum(QuorlockError):
    """Too few nodes can vote, so no client gets a lock: `nodes` says why."""

    code = "no_quorum"

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        return list(self.problem.get("nodes") or [])


class TooSlow(NoQuorum):
    """The nodes answered, but too late for the lock to be of any use."""

    code = "too_slow"


class TooManyWaiters(QuorlockError):
    """Too many calls wait for locks already. Try later."""

    code = "too_many_waiters"


class TooManyNames(QuorlockError):
    """Too many new names in a short time. Try later, or use fewer different names."""

    code = "too_many_names"


class Full(QuorlockError):
    """The sidecar has as many connections or sessions as it may."""

    code = "full"


class ShuttingDown(QuorlockError):
    """The sidecar ends. Ask another, or again when it is back."""

    code = "shutting_down"


class Unauthorized(QuorlockError):
    """A token is needed, or it is wrong."""

    code = "unauthorized"


class Forbidden(QuorlockError):
    """The token does not allow it."""

    code = "forbidden"


class BadRequest(QuorlockError):
    """The name, the ttl, the token or something else cannot be used: `code` says which."""

    code = "bad_request"


_BY_CODE: Dict[str, Type[QuorlockError]] = {
    kind.code: kind
    for kind in (
        Held, NamesHeld, NoPermit, SlotsDiffer, WaitOver, Contended, LockLost, NoQuorum, TooSlow, TooManyWaiters, TooManyNames, Full, ShuttingDown,
        Unauthorized, Forbidden, BadRequest,
    )
}  # fmt: skip
_BY_CODE.update({code: BadRequest for code in ("bad_name", "bad_token", "bad_ttl")})


class Client:
    """Where the sidecar is, and who asks. Cheap, and safe to share between threads."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        owner: Optional[str] = None,
        timeout: Seconds = 10,
        tls: Optional[ssl.SSLContext] = None,
    ):
        """`timeout`: how long the sidecar may take beyond what it was asked to wait. `tls`: for https, if the
        certificates of this machine are not enough, or the sidecar wants one of ours."""
        self._address = _Address(url or os.environ.get("QUORLOCK_SIDECAR") or DEFAULT_URL, tls)
        self._idle = _IdleConnections()
        self._token = token or os.environ.get("QUORLOCK_SIDECAR_TOKEN") or None
        self._owner = owner
        self._timeout = _span(timeout)

    def __repr__(self) -> str:
        return f"Client({self._address.url!r})"

    def hold(
        self,
        name: str,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
        shared: bool = False,
    ) -> "Hold":
        """The lock for a `with` block (or `async with`). The sidecar keeps it until the block ends.

        `wait`: for how long at most, 10 s if left out. `shared`: together with others that share it. Entering raises
        `WaitOver`, `Held` (with `wait=0`) or `NoQuorum`; leaving raises `LockLost` if the lock was lost meanwhile and
        nothing else went wrong.
        """
        how = {"ttl_ms": _ms(ttl), "owner": owner or self._owner, "reason": reason, "mode": _mode(shared)}
        return Hold(self, name, wait, how)

    lock = hold

    def lock_all(
        self,
        names: Sequence[str],
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
        shared: bool = False,
    ) -> "Hold":
        """All these locks together for a `with` block, or none of them: at most 16, with one fence.

        No client holds some of them while it waits for others, so their order does not matter. Entering raises
        `NamesHeld` (with `wait=0`), which says who has which of them, and what `hold` raises.
        """
        first, others = _first(names)
        how = {"ttl_ms": _ms(ttl), "owner": owner or self._owner, "reason": reason, "mode": _mode(shared)}
        return Hold(self, first, wait, {**how, "names": others or None})

    def semaphore(
        self,
        name: str,
        slots: int,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> "Hold":
        """A permit for a `with` block: at most `slots` clients have one. All clients must give the same number.

        `slot` of what is entered is its number, from 0; its fence belongs to that slot. Entering raises `NoPermit` (with
        `wait=0`) if all are taken, `SlotsDiffer`, and what `hold` raises.
        """
        how = {"ttl_ms": _ms(ttl), "owner": owner or self._owner, "reason": reason, "slots": slots}
        return Hold(self, name, wait, how)

    def election(self, name: str) -> "Election":
        """The election of that name: one of its candidates leads at a time."""
        return Election(self, name)

    def acquire(
        self,
        name: str,
        *,
        ttl: Optional[Seconds] = None,
        wait: Seconds = 0,
        owner: Optional[str] = None,
        reason: Optional[str] = None,
        shared: bool = False,
        names: Sequence[str] = (),
        slots: Optional[int] = None,
    ) -> Lease:
        """Takes the lock for one ttl. Extend it in time, and release it: it does not end with this process.

        `names`: further ones to hold together with it. `slots`: a permit of a semaphore with so many slots.
        """
        wanted: Dict[str, Any] = {"ttl_ms": _ms(ttl), "wait_ms": _ms(wait), "owner": owner or self._owner}
        wanted.update(reason=reason, mode=_mode(shared), names=list(names) or None, slots=slots)
        asked = _now()
        return _lease(self._post(name, "acquire", wanted, wait=_span(wait)), asked)

    def extend(
        self,
        name: str,
        token: str,
        *,
        ttl: Optional[Seconds] = None,
        names: Sequence[str] = (),
        slot: Optional[int] = None,
    ) -> Lease:
        """Keeps it for one ttl from now. Raises `LockLost` if it is not held under that token.

        `names` and `slot` are those of the lease; only another sidecar than the one that gave it needs them.
        """
        asked = _now()
        body = {"token": token, "ttl_ms": _ms(ttl), **_covered(name, names, slot)}
        return _lease(self._post(name, "extend", body), asked)

    def release(self, name: str, token: str, *, names: Sequence[str] = (), slot: Optional[int] = None) -> bool:
        """Lets go. True if a majority confirmed it; otherwise its time runs out. Raises `LockLost` if it was gone.

        `names` and `slot` as for `extend`.
        """
        body = {"token": token, **_covered(name, names, slot)}
        return self._post(name, "release", body).get("outcome") == "released"

    def force_release(self, name: str, token: str, *, names: Sequence[str] = (), slot: Optional[int] = None) -> bool:
        """Takes the lock away from who holds it under that token, which `status` shows to scope `write`."""
        body = {"token": token, **_covered(name, names, slot)}
        return self._post(name, "force-release", body).get("outcome") == "released"

    def status(self, name: str) -> LockView:
        """Who holds it, also if nobody does."""
        return _view(self._ask("GET", _path(name)))

    def list(self) -> List[LockView]:
        """The locks that are held."""
        return [_view(one) for one in self._ask("GET", "/v1/locks")["locks"]]

    def overview(self) -> Dict[str, Any]:
        """Nodes, locks and warnings, as the sidecar's dashboard shows them."""
        return self._ask("GET", "/v1/overview")

    def _post(self, name: str, verb: str, body: Dict[str, Any], wait: float = 0.0) -> Dict[str, Any]:
        body = {key: value for key, value in body.items() if value is not None}
        return self._ask("POST", f"{_path(name)}/{verb}", body, wait)

    def _ask(
        self, method: str, path: str, body: Optional[Dict[str, Any]] = None, wait: float = 0.0
    ) -> Dict[str, Any]:
        timeout = self._timeout + wait
        try:
            connection, answer = self._exchange(timeout, method, path, body)
            try:
                raw = answer.read()
            except BaseException:
                connection.close()
                raise
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        self._idle.add(connection)
        return _parse(answer.status, raw)

    def _exchange(
        self, timeout: float, method: str, path: str, body: Optional[Dict[str, Any]]
    ) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends a request, on an idle connection if there is one, and reads the head of the answer."""
        connection = self._idle.take(timeout)
        if connection is not None:
            try:
                return connection, self._send(connection, method, path, body)
            except ConnectionError:
                # The sidecar closes an idle connection without having read the request. A new one gets the answer.
                connection.close()
            except BaseException:
                connection.close()
                raise
        connection = self._address.connect(timeout)
        try:
            return connection, self._send(connection, method, path, body)
        except BaseException:
            connection.close()
            raise

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Optional[Dict[str, Any]] = None
    ) -> http.client.HTTPResponse:
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            connection.request(method, path, body=data, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # It may have refused before it read everything; then the answer is there. Not so if it never stood.
            if connection.sock is None:
                raise
        return connection.getresponse()

    def _unreachable(self, error: Exception) -> Unreachable:
        cause = str(error) or type(error).__name__
        return Unreachable(f"the sidecar at {self._address.url} does not answer: {cause}")


def lock(name: str, **how: Any) -> "Hold":
    """`Client().hold(name, ...)`: a lock from the sidecar that the environment names."""
    return Client().hold(name, **how)


def lock_all(names: Sequence[str], **how: Any) -> "Hold":
    """`Client().lock_all(names, ...)`: all these locks together, or none of them."""
    return Client().lock_all(names, **how)


def semaphore(name: str, slots: int, **how: Any) -> "Hold":
    """`Client().semaphore(name, slots, ...)`: a permit, of which there are `slots`."""
    return Client().semaphore(name, slots, **how)


def election(name: str) -> "Election":
    """`Client().election(name)`: one of its candidates leads at a time."""
    return Client().election(name)


class Hold:
    """A lock while its block lasts. Entered once; each lock needs a new one."""

    _place = "locks"
    _verb = "hold"

    def __init__(self, client: Client, name: str, wait: Optional[Seconds], how: Mapping[str, Any]):
        self.name = name
        #: All names that are held together; just `name`, unless there are several.
        self.names: Tuple[str, ...] = (name,)
        #: The slot of a permit.
        self.slot: Optional[int] = None
        #: Set as soon as the lock is lost.
        self.lost = threading.Event()
        #: Why it was lost.
        self.lost_reason: Optional[str] = None
        #: Increases with every holder: let what the lock protects refuse smaller ones.
        self.fence: int = 0
        self.token: str = ""
        self._client = client
        self._timeout = client._timeout + (10.0 if wait is None else _span(wait))
        query = {key: value for key, value in {**how, "wait_ms": _ms(wait)}.items() if value is not None}
        words = f"?{urlencode(query, doseq=True, quote_via=quote)}" if query else ""
        self._target = f"{_path(name, self._place)}/{self._verb}{words}"
        self._connection: Optional[http.client.HTTPConnection] = None
        # Kept apart, as `http.client` forgets it if the answer is the last of its connection.
        self._sock: Optional[socket.socket] = None
        self._reader: Optional[threading.Thread] = None
        # Before the request was sent. Every deadline is counted from here.
        self._asked = 0.0
        self._deadline = 0.0
        self._is_left = False

    @property
    def remaining(self) -> float:
        """Seconds for which it is ours even if the sidecar says no more."""
        return 0.0 if self.lost.is_set() else max(0.0, self._deadline - _now())

    def check(self) -> None:
        """Raises `LockLost` if the lock is not ours any more. Call it before every step that must not go wrong."""
        if self._deadline <= _now():
            self._lose("its time ran out and the sidecar did not extend it")
        if self.lost.is_set():
            raise LockLost(f"lock `{self.name}` was lost: {self.lost_reason}")

    def __enter__(self) -> "Hold":
        if self._connection is not None or self._is_left:
            raise RuntimeError("a Hold can be entered once; make a new one")
        try:
            self._connection = self._client._address.connect(self._timeout)
            self._connection.connect()
            self._sock = self._connection.sock
            self._asked = _now()
            answer = self._client._send(self._connection, "GET", self._target)
            if answer.status != 200:
                _read(answer)
                raise QuorlockError(f"the sidecar answered {answer.status} to a hold", status=answer.status)
            events = _Events(answer, self._set_timeout)
            first = events.next()
            if first is None or first[0] not in ("held", "leading"):
                raise Unreachable(f"the sidecar ended the stream before it held `{self.name}`")
            self._begin(first[1])
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._close()
            raise self._client._unreachable(error) from error
        except BaseException:
            self._close()
            raise
        self._reader = threading.Thread(target=self._follow, args=(events,), name=f"quorlock {self.name}", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: Optional[type], error: Any, trace: Any) -> None:
        if self._deadline <= _now():
            self._lose("its time ran out and the sidecar did not extend it")
        was_lost = self.lost.is_set()
        self._is_left = True
        self._let_go()
        if was_lost and kind is None:
            raise LockLost(f"lock `{self.name}` was lost: {self.lost_reason}")

    async def __aenter__(self) -> "Hold":
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            # The thread may have it already, or soon: it must not keep it.
            self._close()
            entering.add_done_callback(self._forget)
            raise

    def _forget(self, entered: "asyncio.Future[Hold]") -> None:
        if entered.exception() is None:
            self._close()

    async def __aexit__(self, kind: Optional[type], error: Any, trace: Any) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _begin(self, lease: Mapping[str, Any]) -> None:
        self.fence = int(lease["fence"])
        self.token = str(lease["token"])
        self.names = tuple(lease.get("names") or (self.name,))
        self.slot = lease.get("slot")
        self._deadline = _end(lease, self._asked)

    def _set_timeout(self) -> None:
        """Nobody waits for a word of the sidecar longer than the lock lasts without one."""
        if self._sock is not None and self._deadline > 0:
            self._sock.settimeout(min(SILENCE, max(0.001, self._deadline - _now())))

    def _follow(self, events: "_Events") -> None:
        """Runs in a thread of its own until the lock is lost or let go."""
        reason = "the sidecar ended the connection"
        try:
            while True:
                event = events.next()
                if event is None:
                    break
                kind, data = event
                if kind == "extended":
                    self._deadline = _end(data, self._asked)
                elif kind == "lost":
                    reason = str(data.get("reason", "unknown"))
                    break
                elif kind == "shutdown":
                    reason = "the sidecar shut down and let go of it"
                    break
        except socket.timeout:
            reason = "the sidecar is silent"
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            reason = f"the connection to the sidecar broke: {error or type(error).__name__}"
        if not self._is_left:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost_reason = reason
            self.lost.set()

    def _let_go(self) -> None:
        """Ends our half of the connection and waits for the sidecar to end its own: it lets go in that very moment."""
        if self._sock is not None and not isinstance(self._sock, ssl.SSLSocket):
            try:
                self._sock.shutdown(socket.SHUT_WR)
                if self._reader is not None and self._reader is not threading.current_thread():
                    self._reader.join(timeout=2)
            except OSError:
                pass  # It is gone already.
        self._close()

    def _close(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if self._sock is not None:
            try:
                self._sock.shutdown(socket.SHUT_RDWR)  # Wakes the reader, which `close` does not.
            except OSError:
                pass
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(timeout=2)
        connection.close()


class Leadership(Hold):
    """A won election while its block lasts; everything else is as with a lock. Stop leading when it is `lost`."""

    _place = "elections"
    _verb = "campaign"

    def __init__(self, client: Client, name: str, value: str, wait: Optional[Seconds], how: Mapping[str, Any]):
        super().__init__(client, name, LONGEST_WAIT if wait is None else wait, {**how, "value": value})
        #: What was published.
        self.value = value

    @property
    def term(self) -> int:
        """Above that of every leader before. Send it with every command to followers."""
        return self.fence


class Election:
    """One of several candidates leads at a time."""

    def __init__(self, client: Client, name: str):
        self.name = name
        self._client = client

    def campaign(
        self,
        value: str,
        *,
        ttl: Optional[Seconds] = None,
        wait: Optional[Seconds] = None,
        owner: Optional[str] = None,
    ) -> Leadership:
        """Leads while a `with` block (or `async with`) lasts, and publishes `value`, such as our address.

        Entering waits until we lead, an hour at most if `wait` is left out, and raises what `Client.hold` raises.
        """
        how = {"ttl_ms": _ms(ttl), "owner": owner or self._client._owner}
        return Leadership(self._client, self.name, value, wait, how)

    def leader(self) -> Optional[Leader]:
        """Who leads now; `None` if nobody does."""
        found = self._client._ask("GET", _path(self.name, "elections"))["leader"]
        return None if found is None else _leader(found)

    def observe(self, *, after: Optional[int] = None) -> Iterator[Optional[Leader]]:
        """The current leader, and each that follows, by rising terms; from the one after term `after` if that is given.

        `None` when nobody leads any more, after a leader that you know.
        It ends only with an error: `Unreachable` if the sidecar ends. Then go on after the last term that you saw.
        """
        connection = self._client._address.connect(max(self._client._timeout, SILENCE))
        target = f"{_path(self.name, 'elections')}/observe" + ("" if after is None else f"?after={after}")
        try:
            answer = self._client._send(connection, "GET", target)
            if answer.status != 200:
                _read(answer)
                raise QuorlockError(f"the sidecar answered {answer.status} to an observer", status=answer.status)
            events = _Events(answer, lambda: None)
            while True:
                event = events.next()
                if event is None:
                    raise Unreachable("the sidecar ended the stream of leaders")
                if event[0] == "leader":
                    yield _leader(event[1])
                elif event[0] == "vacant":
                    yield None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._client._unreachable(error) from error
        finally:
            connection.close()


class _Events:
    """Server-sent events, one after another."""

    def __init__(self, answer: http.client.HTTPResponse, before_reading: Callable[[], None]):
        self._answer = answer
        self._before_reading = before_reading

    def next(self) -> Optional[Any]:
        """Kind and data of the next event; `None` at the end."""
        kind, data = "message", []  # type: ignore[var-annotated]
        while True:
            self._before_reading()
            line = self._answer.readline(LONGEST_LINE)
            if not line.endswith(b"\n"):
                return None
            text = line.decode().rstrip("\r\n")
            if not text:
                if data:
                    return kind, json.loads("\n".join(data))
                kind = "message"
                continue
            key, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if key == "event":
                kind = value
            elif key == "data":
                data.append(value)


class _Address:
    """Where the sidecar listens."""

    def __init__(self, url: str, tls: Optional[ssl.SSLContext]):
        self.url = url
        self._tls = tls
        self._path: Optional[str] = None
        if url.startswith("unix:"):
            self._path = url[len("unix:") :]
            if self._path.startswith("//"):
                self._path = self._path[2:]
            if not self._path.startswith("/"):
                raise ValueError(f"`{url}` names no socket: unix:/run/quorlock.sock")
            return
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"`{url}` is no sidecar: http://127.0.0.1:7420 or unix:/run/quorlock.sock")
        if parts.username or parts.password or parts.query:
            raise ValueError("a token does not belong into the address: Client(url, token=...)")
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or 7420

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._path is not None:
            return _UnixConnection(self._path, timeout)
        if self._is_tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


class _IdleConnections:
    """Connections that have answered, for the next requests."""

    def __init__(self) -> None:
        self._connections: List[Tuple[http.client.HTTPConnection, float]] = []
        self._process = os.getpid()

    def take(self, timeout: float) -> Optional[http.client.HTTPConnection]:
        """One that is still open; `None` if there is none."""
        if self._process != os.getpid():
            # After a fork the other process sends on the same connections; only our copies of them end.
            inherited, self._connections, self._process = self._connections, [], os.getpid()
            for connection, _ in inherited:
                connection.close()
        while True:
            try:
                connection, since = self._connections.pop()
            except IndexError:
                return None
            # Nothing is sent to an idle connection: what can be read is its end.
            if time.monotonic() - since < LONGEST_IDLE and not _is_readable(connection.sock):
                if connection.sock.gettimeout() != timeout:
                    connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def add(self, connection: http.client.HTTPConnection) -> None:
        """Keeps `connection`, unless its answer was the last one or enough are kept."""
        if connection.sock is not None and len(self._connections) < MOST_IDLE:
            self._connections.append((connection, time.monotonic()))
        else:
            connection.close()

    def __del__(self) -> None:
        for connection, _ in self._connections:
            connection.close()


def _is_readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _read(answer: http.client.HTTPResponse) -> Dict[str, Any]:
    """The JSON of an answer, or its problem as an exception."""
    return _parse(answer.status, answer.read())


def _parse(status: int, raw: bytes) -> Dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise QuorlockError(f"the sidecar answered {status} without JSON", status=status)
    if status == 200:
        return body
    kind = _BY_CODE.get(str(body.get("code")), QuorlockError)
    detail = str(body.get("detail") or body.get("title") or f"status {status}")
    raise kind(detail, status=status, problem=body)


def _path(name: str, place: str = "locks") -> str:
    # A name of dots would be taken for a step in the path.
    quoted = name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
    return f"/v1/{place}/{quoted}"


def _mode(shared: bool) -> Optional[str]:
    return "shared" if shared else None


def _first(names: Sequence[str]) -> Tuple[str, List[str]]:
    """The first name and the others."""
    if isinstance(names, str) or not names:
        raise ValueError("give a list of 1 to 16 names")
    return names[0], list(names[1:])


def _covered(name: str, names: Sequence[str], slot: Optional[int]) -> Dict[str, Any]:
    """What else than `name` a lease covers."""
    return {"names": [one for one in names if one != name] or None, "slot": slot}


def _end(said: Mapping[str, Any], asked: float) -> float:
    """When a lock ends on our clock. Never later than it really ends, however late we read what the sidecar said.

    We sent the request at `asked`, the sidecar got it after that, and `request_age_ms` later it counted `remaining_ms`.
    """
    age, left = float(said["request_age_ms"]) / 1000, float(said["remaining_ms"]) / 1000
    arrived = float(said["deadline_boot_ms"]) / 1000 - left - age
    # On our own clock, the request arrived between our sending it and our reading of what was said.
    is_our_clock = asked - ROUNDING <= arrived <= _now() - age + ROUNDING
    return asked + age * (1 if is_our_clock else 1 - DRIFT) + left


def _lease(answer: Mapping[str, Any], asked: float) -> Lease:
    return Lease(
        name=answer["name"],
        token=answer["token"],
        fence=answer.get("fence"),
        ttl=answer["ttl_ms"] / 1000,
        votes=answer["votes"],
        nodes=answer["nodes"],
        quorum=answer["quorum"],
        _deadline=_end(answer, asked),
        names=tuple(answer.get("names") or (answer["name"],)),
        slot=answer.get("slot"),
        mode=answer.get("mode"),
    )


def _view(answer: Mapping[str, Any]) -> LockView:
    return LockView(
        name=answer["name"],
        held=answer["held"],
        holder=_holder(answer.get("holder")),
        fence=answer.get("fence"),
        remaining=_seconds(answer.get("remaining_ms")),
        votes=answer["votes"],
        nodes=answer["nodes"],
        quorum=answer["quorum"],
        waiters=answer["waiters"],
        here=answer["here"],
        token=answer.get("token"),
        node_views=list(answer.get("node_views") or []),
        mode=answer.get("mode"),
        readers=_readers(answer.get("readers")),
        semaphore=answer.get("semaphore"),
        slot=answer.get("slot"),
    )


def _holder(found: Optional[Mapping[str, Any]]) -> Optional[Holder]:
    if found is None:
        return None
    known = ("owner", "pid", "since", "reason", "foreign")
    return Holder(**{key: found[key] for key in known if found.get(key) is not None})


def _readers(found: Optional[Sequence[Mapping[str, Any]]]) -> List[Reader]:
    known = ("owner", "pid", "since", "reason", "fence", "token")
    shown: List[Dict[str, Any]] = [{key: one.get(key) for key in known} for one in found or ()]
    return [Reader(**one) for one in shown]


def _leader(found: Mapping[str, Any]) -> Leader:
    return Leader(**{key: found[key] for key in ("value", "term", "owner", "pid", "since")})


def _seconds(ms: Optional[int]) -> Optional[float]:
    return None if ms is None else ms / 1000


def _span(time_: Seconds) -> float:
    return time_.total_seconds() if isinstance(time_, timedelta) else float(time_)


def _ms(time_: Optional[Seconds]) -> Optional[int]:
    return None if time_ is None else round(_span(time_) * 1000)


def _clock(clocks: Any, platform: str) -> Callable[[], float]:
    """Reads a clock that goes on while the machine sleeps."""
    if hasattr(clocks, "CLOCK_BOOTTIME"):
        return lambda: float(clocks.clock_gettime(clocks.CLOCK_BOOTTIME))
    if platform == "darwin":
        return lambda: float(clocks.clock_gettime(clocks.CLOCK_MONOTONIC_RAW))
    return lambda: float(clocks.monotonic())


_now = _clock(time, sys.platform)
