"""What nodes store, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

__all__ = ["Holder", "Leader", "Status"]


@dataclass(frozen=True)
class Holder:
    """A client that holds a lock, alone or with others."""

    #: `user@host`, or what the holder called itself.
    owner: str
    #: Its process on that host.
    pid: int
    #: When it asked for the lock, as Unix time.
    since: float
    #: Why it holds the lock, if it gave a reason.
    reason: Optional[str]
    fence: int
    #: The proof of ownership. A client that has it can release the lock.
    token: str = field(repr=False)


@dataclass(frozen=True)
class Status:
    """What the nodes store for one lock."""

    name: str
    #: Whether a client has it on a majority of nodes.
    held: bool
    #: "exclusive", "shared", or `None` if it is free.
    mode: Optional[str]
    #: The holder, or all clients that share it.
    holders: List[Holder]
    #: The value that another program stored under this name, if one did.
    foreign: Optional[str]
    #: For how many seconds the holder has it, unless it extends.
    remaining: Optional[float]
    #: The highest fence of any node.
    fence: Optional[int]
    #: On how many nodes the holder has it.
    votes: int
    #: How many nodes must agree.
    quorum: int
    #: Why each node gave no answer; `None` if it did.
    nodes: Dict[str, Optional[str]] = field(repr=False)

    @property
    def holder(self) -> Optional[Holder]:
        """The holder; of several that share it the first."""
        return self.holders[0] if self.holders else None


@dataclass(frozen=True)
class Leader:
    """Who leads an election. It may be old when you read it: compare terms, which only rise."""

    #: What the leader published.
    value: str
    #: Its fence.
    term: int
    owner: str
    pid: int
    since: float
