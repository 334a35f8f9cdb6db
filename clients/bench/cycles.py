"""Acquires and releases one lock in turns, with the sidecar client or with `http.client` alone; see `run`."""

import http.client
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from quorlock.sidecar import Client  # noqa: E402


def client_cycle(url):
    client = Client(url)

    def cycle():
        lease = client.acquire("bench-client", ttl=10)
        client.release("bench-client", lease.token)

    return cycle


def plain_cycle(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    headers = {"content-type": "application/json"}

    def post(verb, body):
        connection.request("POST", f"/v1/locks/bench-plain/{verb}", json.dumps(body).encode(), headers)
        response = connection.getresponse()
        found = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(found)
        return found

    def cycle():
        lease = post("acquire", {"ttl_ms": 10_000, "wait_ms": 0})
        post("release", {"token": lease["token"]})

    return cycle


def main():
    kind, url = sys.argv[1:]
    cycle = {"client": client_cycle, "plain": plain_cycle}[kind](url)
    for line in sys.stdin:
        start, count = time.perf_counter(), 0
        end = start + float(line)
        while time.perf_counter() < end:
            cycle()
            count += 1
        print(count / (time.perf_counter() - start), flush=True)


main()
