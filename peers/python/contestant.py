"""Puts redlock-py or pottery behind the protocol of peers/README.md: `contestant.py LIBRARY FLAGS`."""

import argparse
import json
import math
import os
import sys
import threading
import time
from importlib.metadata import version

import pottery
import redis
import redlock

# How long a wait that is under way at the end may still take, in seconds.
LAST_WAIT = 10


def main():
    flags = parse()
    flags.ledger = flags.ledger and os.open(flags.ledger, os.O_RDWR)
    nodes = [node(url, flags) for url in flags.nodes.split(",")]
    locks = LIBRARIES[flags.library](nodes, flags.ttl_ms)
    run(locks, flags, flags.warmup)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(run(locks, flags, flags.seconds)), flush=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warmup", type=float, default=0)
    parser.add_argument("--workload", default="own")
    parser.add_argument("--hold-us", type=int, default=0)
    parser.add_argument("--prefix", default="p")
    parser.add_argument("--ttl-ms", type=int, default=10000)
    parser.add_argument("--node-timeout-ms", type=int, default=0)
    parser.add_argument("--ledger", default=None, help="a file that the holder of the lock signs")
    return parser.parse_args()


def node(url, flags):
    if not flags.node_timeout_ms:
        return redis.Redis.from_url(url)
    limit = flags.node_timeout_ms / 1000
    return redis.Redis.from_url(url, socket_timeout=limit, socket_connect_timeout=limit)


class RedlockPy:
    """redlock-py."""

    PACKAGE = "redlock-py"

    def __init__(self, nodes, ttl_ms):
        self.locks, self.ttl_ms = redlock.Redlock(nodes), ttl_ms

    def acquire(self, name):
        """One call with the library's own retries; false if it gave up."""
        return self.locks.lock(name, self.ttl_ms)

    def release(self, lock):
        self.locks.unlock(lock)


class Pottery:
    """pottery."""

    PACKAGE = "pottery"

    def __init__(self, nodes, ttl_ms):
        self.nodes, self.ttl = frozenset(nodes), ttl_ms / 1000

    def acquire(self, name):
        """Waits as long as one client may wait at the end; None if it gave up."""
        lock = pottery.Redlock(key=name, masters=self.nodes, auto_release_time=self.ttl)
        return lock if lock.acquire(timeout=LAST_WAIT) else None

    def release(self, lock):
        lock.release()


LIBRARIES = {"redlock-py": RedlockPy, "pottery": Pottery}


class Client(threading.Thread):
    """One client with counts of its own, so that nothing is shared but the locks."""

    def __init__(self, locks, flags, number, end):
        super().__init__(daemon=True)
        self.locks, self.flags, self.end = locks, flags, end
        self.name_of_lock = flags.prefix if flags.workload == "one" else f"{flags.prefix}:{number}"
        self.signature = b"%8d%8d" % (os.getpid(), number)
        self.buckets, self.failed, self.count, self.handoffs = {}, 0, 0, 0

    def run(self):
        while (asked := time.perf_counter()) < self.end:
            lock = self.acquire()
            self.note(time.perf_counter() - asked)
            if not lock:
                return
            is_handoff = self.flags.ledger is not None and self.sign()
            if self.flags.hold_us:
                time.sleep(self.flags.hold_us / 1e6)
            try:
                self.locks.release(lock)
            except Exception:  # a silent node; the ttl frees the lock there
                pass
            if time.perf_counter() < self.end:
                self.count += 1
                self.handoffs += is_handoff

    def sign(self):
        """Signs the ledger; whether another client signed it last."""
        if os.pread(self.flags.ledger, 16, 0) == self.signature:
            return False
        os.pwrite(self.flags.ledger, self.signature, 0)
        return True

    def acquire(self):
        while True:
            try:
                lock = self.locks.acquire(self.name_of_lock)
            except Exception:  # one dead node is an error there, with or without a majority
                lock = False
            if lock:
                return lock
            self.failed += 1
            if time.perf_counter() >= self.end + LAST_WAIT:
                return None

    def note(self, wait):
        """32 buckets per doubling of microseconds."""
        bucket = min(int(math.log2(max(wait * 1e6, 1)) * 32), 1023)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1


def run(locks, flags, seconds):
    if seconds <= 0:
        return None
    cpu = time.process_time()
    end = time.perf_counter() + seconds
    clients = [Client(locks, flags, number, end) for number in range(flags.clients)]
    for client in clients:
        client.start()
    time.sleep(max(end - time.perf_counter(), 0))
    cpu = time.process_time() - cpu
    for client in clients:
        client.join()
    buckets = {}
    for client in clients:
        for bucket, count in client.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    counts = [client.count for client in clients]
    return {
        "version": f"{version(locks.PACKAGE)} redis-py {version('redis')}",
        "seconds": seconds,
        "cycles": sum(counts),
        "handoffs": None if flags.ledger is None else sum(client.handoffs for client in clients),
        "failed": sum(client.failed for client in clients),
        "least": min(counts),
        "most": max(counts),
        "cpu_us": int(cpu * 1e6),
        "acquire": sorted(buckets.items()),
    }


main()
