"""Puts redlock-py behind the protocol of peers/README.md."""

import argparse
import json
import math
import os
import sys
import threading
import time
from importlib.metadata import version

import redis
from redlock import Redlock

# How long a wait that is under way at the end may still take, in seconds.
PATIENCE = 10


def main():
    flags = parse()
    flags.ledger = flags.ledger and os.open(flags.ledger, os.O_RDWR)
    locks = Redlock([node(url, flags) for url in flags.nodes.split(",")])
    run(locks, flags, flags.warmup)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(run(locks, flags, flags.seconds)), flush=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warmup", type=float, default=0)
    parser.add_argument("--workload", default="own")
    parser.add_argument("--hold-us", type=int, default=0)
    parser.add_argument("--prefix", default="p")
    parser.add_argument("--ttl-ms", type=int, default=10000)
    parser.add_argument("--node-timeout-ms", type=int, default=0)
    parser.add_argument("--ledger", default=None, help="a file that whoever holds the lock signs")
    return parser.parse_args()


def node(url, flags):
    if not flags.node_timeout_ms:
        return redis.Redis.from_url(url)
    limit = flags.node_timeout_ms / 1000
    return redis.Redis.from_url(url, socket_timeout=limit, socket_connect_timeout=limit)


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
                self.locks.unlock(lock)
            except Exception:  # a silent node; the ttl frees the lock there
                pass
            if time.perf_counter() < self.end:
                self.count += 1
                self.handoffs += is_handoff

    def sign(self):
        """Signs the ledger; whether the last who did was somebody else."""
        if os.pread(self.flags.ledger, 16, 0) == self.signature:
            return False
        os.pwrite(self.flags.ledger, self.signature, 0)
        return True

    def acquire(self):
        while True:
            try:
                lock = self.locks.lock(self.name_of_lock, self.flags.ttl_ms)
            except Exception:  # one dead node is an error there, with or without a majority
                lock = False
            if lock:
                return lock
            self.failed += 1
            if time.perf_counter() >= self.end + PATIENCE:
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
        "version": f"{version('redlock-py')} redis-py {version('redis')}",
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
