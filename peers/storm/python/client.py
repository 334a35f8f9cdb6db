"""Puts redlock-py behind the protocol of a storm's client; see peers/README.md.

usage: client.py ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...
"""

import logging
import os
import random
import sys
import threading
import time

import redis
from redlock import Redlock

NAMES = ["a", "b", "c"]
RECOVERY_LIMIT = 60

# The library logs every node that does not answer.
logging.disable()

is_recovering = threading.Event()


def main(words):
    client = Client(words)
    threading.Thread(target=follow_orders, daemon=True).start()
    while not is_recovering.is_set():
        client.cycle(client.random.choice(NAMES))
    for name in NAMES:
        client.recover(name)
    report("done")
    threading.Event().wait()


def follow_orders():
    """Ends the process with its input."""
    for _ in sys.stdin:
        is_recovering.set()
    os._exit(0)


class Client:
    """Works under locks with the library's own retries: 3 tries, 200 ms apart."""

    def __init__(self, words):
        self.me, seed, resource, ttl, node_timeout, _wait, *urls = words
        self.random = random.Random(int(seed))
        self.ttl = int(ttl)
        limit = int(node_timeout) / 1000
        # The library's own connections have no limit at all.
        nodes = [redis.Redis.from_url(url, socket_timeout=limit, socket_connect_timeout=limit) for url in urls]
        self.locks = Redlock(nodes)
        self.values = redis.Redis(unix_socket_path=resource)
        self.writes = 0

    def cycle(self, name):
        if lock := self.acquire(name):
            self.work_under(name, lock)
            self.release(lock)
        time.sleep(self.random.uniform(0, 0.010))

    def acquire(self, name):
        called = now()
        report(f"calling acquire {called}")
        try:
            lock = self.locks.lock(name, self.ttl)
        except Exception:  # one dead node is an error there, with or without a majority
            lock = False
        report(f"returned {now()}")
        if not lock:
            report("refused")
            return None
        # The library says for how long from its return on. A pause since then is not seen.
        noted = now()
        self.until = noted + int(lock.validity) * 1000
        report(f"granted {name} 0 - {called} {noted} {self.until}")
        return lock

    def work_under(self, name, lock):
        """Reads, thinks, writes, again and again. There is no extension, so never beyond half of the ttl."""
        long = self.random.randrange(100) < 2
        longest, step = (self.ttl / 2000, 0.080) if long else (0.015, 0.005)
        until = time.monotonic() + 0.001 + self.random.uniform(0, longest)
        while time.monotonic() < until and now() < self.until:
            parent = (self.values.get(f"plain:{name}") or b"").decode().split("<")[0]
            time.sleep(self.random.uniform(0, step))
            if now() >= self.until:
                # It writes all the same: a program cannot check and write in one step.
                report("late")
            self.writes += 1
            self.values.set(f"plain:{name}", f"{self.me}.{self.writes}<{parent}")

    def release(self, lock):
        report(f"releasing {now()} {str(now() >= self.until).lower()}")
        report(f"calling release {now()}")
        try:
            self.locks.unlock(lock)
        except Exception:  # the ttl frees the lock there
            pass
        report(f"returned {now()}")

    def recover(self, name):
        start = time.monotonic()
        lock = self.acquire(name)
        while not lock and time.monotonic() - start < RECOVERY_LIMIT:
            lock = self.acquire(name)
        report(f"recovered {name} {str(bool(lock)).lower()}")
        if lock:
            self.release(lock)


def now():
    """The monotonic clock in microseconds: the same in all processes of a machine."""
    return time.monotonic_ns() // 1000


def report(line):
    print(line, flush=True)


main(sys.argv[1:])
