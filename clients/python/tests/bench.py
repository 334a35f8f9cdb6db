"""Cycles (one acquire and one release) per second, of quorlock and redlock-py on the same five servers.

Runs alternate between the contestants. Each thread or task has a lock of its own, so that no call waits for another
client. `clients/python/bench` prepares and starts this.
"""

import argparse
import asyncio
import statistics
import threading
import time
from importlib.metadata import version

import kit
import redis
from quorlock import Locker
from redlock import Redlock

TTL = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="of each run")
    parser.add_argument("--runs", type=int, default=5, help="of each contestant")
    flags = parser.parse_args()
    nodes = kit.Nodes()
    try:
        measure(nodes.urls.split(","), flags)
    finally:
        nodes.stop()


def measure(urls, flags):
    locker = Locker(urls, ttl=TTL)
    redlock = Redlock([redis.Redis.from_url(url) for url in urls])
    contestants = {
        "quorlock": lambda clients: run_threads(lambda number: quorlock_cycle(locker, number), clients, flags.seconds),
        "redlock-py": lambda clients: run_threads(lambda number: redlock_cycle(redlock, number), clients, flags.seconds),
        "quorlock asyncio": lambda clients: asyncio.run(run_tasks(locker, clients, flags.seconds)),
    }
    with_hiredis = f"redis {version('redis')}, hiredis {version('hiredis')}"
    print(f"five servers, medians of {flags.runs} runs of {flags.seconds:g} s in turns; redlock-py {version('redlock-py')}, {with_hiredis}")
    for clients in (1, 100):
        results = {name: [] for name in contestants}
        for run in contestants.values():
            run(clients)  # Connects and warms up.
        for _ in range(flags.runs):
            for name, run in contestants.items():
                results[name].append(run(clients))
        base = statistics.median(results["redlock-py"])
        for name, runs in results.items():
            middle = statistics.median(runs)
            spread = f"[{min(runs):.0f}-{max(runs):.0f}]"
            print(f"{clients:4} clients  {name:17} {middle:8.0f} cycles/s {spread:15} {middle / base:6.1f} x redlock-py")


def quorlock_cycle(locker, number):
    lock = locker.lock(f"bench:q:{number}")

    def cycle():
        with lock:
            pass

    return cycle


def redlock_cycle(redlock, number):
    name = f"bench:r:{number}"

    def cycle():
        lock = redlock.lock(name, TTL * 1000)
        if not lock:
            raise RuntimeError("redlock-py did not get a lock that no other client wants")
        redlock.unlock(lock)

    return cycle


def run_threads(make_cycle, clients, seconds):
    """Cycles per second of all threads."""
    counts, failures, barrier = [0] * clients, [], threading.Barrier(clients + 1)

    def work(number):
        cycle = make_cycle(number)
        barrier.wait()
        end = time.perf_counter() + seconds
        try:
            while time.perf_counter() < end:
                cycle()
                counts[number] += 1
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(counts) / (time.perf_counter() - start)


async def run_tasks(locker, clients, seconds):
    """Cycles per second of all tasks."""
    end = time.perf_counter() + seconds

    async def work(number):
        lock, count = locker.lock(f"bench:a:{number}"), 0
        while time.perf_counter() < end:
            async with lock:
                count += 1
        return count

    start = time.perf_counter()
    counts = await asyncio.gather(*(work(number) for number in range(clients)))
    return sum(counts) / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
