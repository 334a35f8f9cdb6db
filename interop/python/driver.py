"""Puts redlock-py behind the line protocol of interop/README.md."""

import logging
import sys

import redis
from redlock import Lock, Redlock

# The library logs a release that finds another type, as it does after each attempt while readers hold the lock.
logging.disable()


def main(urls):
    # A count of 0 would silently become 3; the delay, in seconds, is slept even after the last attempt.
    locks = Redlock(urls, retry_count=1, retry_delay=0.001)
    say("ready")
    for line in sys.stdin:
        words = line.split()
        if len(words) == 3 and words[0] == "lock":
            say(lock(locks, words[1], int(words[2])))
        elif len(words) == 3 and words[0] == "unlock":
            say(unlock(locks, words[1], words[2].encode()))
        elif words == ["quit"]:
            return
        else:
            say("error unknown line")


def lock(locks, name, ttl):
    try:
        granted = locks.lock(name, ttl)
    except Exception as error:  # a quorum with one dead node: the library takes the lock and throws the key away
        return f"error {error!r}"
    return f"ok {granted.key.decode()}" if granted else "held"


def unlock(locks, name, value):
    # The library does not tell whether it deleted anything, so look first.
    held = sum(stores(server, name, value) for server in locks.servers)
    locks.unlock(Lock(0, name, value))
    return "ok" if held >= locks.quorum else "no"


def stores(server, name, value):
    try:
        return server.get(name) == value
    except redis.ResponseError:  # no string: clients of quorlock share the lock
        return False


def say(answer):
    print(answer, flush=True)


main(sys.argv[1:])
