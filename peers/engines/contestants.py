"""The contestants of each engine: how they are built, and one measurement of each."""

import json
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from servers import Missing, postgres_program

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent
DEPS = PEERS / ".deps"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", PEERS / "target"))
QUORLOCK = TARGET / "release/contestant"
TTL_MS = 10_000
# What a contestant may take longer than its time: to start, to wait for the last lock, to end.
EXTRA_SECONDS = 60


@dataclass(frozen=True)
class Load:
    """What the clients do."""

    workload: str
    clients: int

    def __str__(self):
        names = "own names" if self.workload == "own" else "one name"
        return "1 client" if self.clients == 1 else f"{self.clients} clients, {names}"


@dataclass
class Run:
    """What one measurement found. The p50 and the mean are those of an acquire, in microseconds."""

    rate: float
    p50_us: float
    mean_us: float
    cpu_us: float
    failed: int
    version: str


@dataclass(frozen=True)
class Contestant:
    name: str
    # Makes a command, or raises Missing.
    build: Callable[[], list] | None = None
    # Why it cannot run, if that is known.
    missing: str = ""
    flags: tuple = ()
    warmup: float = 1
    # Measures instead of a command that speaks the protocol.
    measure: Callable | None = None
    loads: tuple = field(default=("own", "one"))


def build_quorlock():
    command = ["cargo", "build", "--release", "--quiet", "--bin", "contestant"]
    if subprocess.run(command, cwd=PEERS).returncode != 0:
        raise Missing("it could not be built")
    return [QUORLOCK, "quorlock"]


def build_go(package):
    if not shutil.which("go"):
        raise Missing("no go")
    DEPS.mkdir(exist_ok=True)
    program = DEPS / f"engines-{package}"
    build = ["go", "build", "-buildvcs=false", "-o", program, f"./{package}"]
    run_build(build, HERE / "go")
    return [program]


def build_java(main):
    if not shutil.which("mvn"):
        raise Missing("no mvn")
    java = HERE / "java"
    sources = [java / "pom.xml", *(java / "src/main/java").iterdir()]
    built = java / "target/classes" / f"{main}.class"
    if not built.exists() or any(source.stat().st_mtime > built.stat().st_mtime for source in sources):
        goals = ["compile", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        run_build(["mvn", "-q", "-B", "-Dstyle.color=never", *goals], java)
    return ["java", "-cp", f"{java}/target/classes:{java}/target/dependency/*", main]


def build_pgbench():
    program = postgres_program("pgbench")
    if not program:
        raise Missing("no pgbench (apt-get install postgresql)")
    return [program]


def run_build(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise Missing(f"it could not be built: {lines[-1]}")


def init_quorlock(url):
    """Creates what quorlock needs in the store, as `quorlock init` does."""
    output([QUORLOCK, "init-nodes", "--nodes", url, "--ttl-ms", str(TTL_MS)], EXTRA_SECONDS)


def measure(contestant, command, url, load, seconds):
    """One measurement of a program that speaks the protocol of README.md."""
    if contestant.measure:
        return contestant.measure(command, url, load, seconds)
    order = {
        "nodes": url, "clients": load.clients, "workload": load.workload, "seconds": seconds,
        "warmup": contestant.warmup, "ttl-ms": TTL_MS, "prefix": f"p{random.randrange(10**9)}",
    }  # fmt: skip
    flags = [word for flag, value in order.items() for word in (f"--{flag}", str(value))]
    limit = seconds + contestant.warmup + EXTRA_SECONDS
    *_, last = output([*command, *flags, *contestant.flags], limit, "go\n").splitlines()
    outcome = json.loads(last)
    cycles = outcome["cycles"]
    return Run(
        rate=cycles / outcome["seconds"],
        p50_us=percentile(outcome["acquire"], 0.5),
        mean_us=mean(outcome["acquire"]),
        cpu_us=outcome["cpu_us"] / max(cycles, 1),
        failed=outcome["failed"],
        version=outcome["version"],
    )


def measure_pgbench(command, url, load, seconds):
    """One statement to acquire and one to release, each a transaction, by pgbench."""
    (program,) = command
    threads = min(load.clients, os.cpu_count())
    options = ["-n", "-M", "prepared", "-c", load.clients, "-j", threads, "-D", "is_held=0", "-f", HERE / "pgbench/cycle.sql"]
    bench = [program, *map(str, options)]
    schema = (HERE / "pgbench/schema.sql").read_text()
    psql(url, schema)
    output([*bench, "-T", "1", url], EXTRA_SECONDS)
    # Some clients ended with a lock.
    psql(url, schema)
    cpu = children_cpu_us()
    with tempfile.TemporaryDirectory() as logs:
        measured = [*bench, "--log", f"--log-prefix={logs}/log", "-T", str(max(1, round(seconds))), url]
        text = output(measured, seconds + EXTRA_SECONDS)
        cpu = children_cpu_us() - cpu
        waits = acquire_waits(Path(logs))
    cycles = int(re.search(r"transactions actually processed: (\d+)", text)[1]) / 2
    return Run(
        rate=float(re.search(r"tps = ([\d.]+)", text)[1]) / 2,
        p50_us=statistics.median(waits),
        mean_us=statistics.mean(waits),
        cpu_us=cpu / max(cycles, 1),
        failed=len(waits) - int(psql(url, "SELECT sum(fence) FROM lease")),
        version=text.split("\n")[0].removeprefix("pgbench (").removesuffix(")"),
    )


def acquire_waits(logs):
    """The latencies in pgbench's logs whose number is that of an acquire: clients alternate and begin with one."""
    lines = [line.split() for log in logs.iterdir() for line in log.read_text().splitlines()]
    first = min(int(number) for _, number, *_ in lines)
    return [int(us) for _, number, us, *_ in lines if (int(number) - first) % 2 == 0]


def output(command, limit, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=limit)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Missing(lines[-1])
    return done.stdout


def psql(url, statements):
    return output([postgres_program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements, url], EXTRA_SECONDS)


def children_cpu_us():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e6


def middle_us(bucket):
    """Waits are counted in 32 buckets per doubling of microseconds."""
    return 2 ** ((bucket + 0.5) / 32)


def percentile(waits, share):
    rank = sum(count for _, count in waits) * share
    for bucket, count in waits:
        rank -= count
        if rank <= 0:
            return middle_us(bucket)
    raise ValueError("no acquire was measured")


def mean(waits):
    total = sum(count for _, count in waits)
    return sum(middle_us(bucket) * count for bucket, count in waits) / max(total, 1)


QUORLOCK_CONTESTANT = Contestant("quorlock", build_quorlock, flags=("--node-timeout-ms", "2000"))

# The native locks of each engine.
NATIVE = {
    "etcd": [Contestant("concurrency.Mutex (Go)", lambda: build_go("etcd"))],
    "postgres": [
        Contestant("two statements (pgbench)", build_pgbench, measure=measure_pgbench, loads=("own",)),
        Contestant("ShedLock (Java)", lambda: build_java("ShedLockContestant"), flags=("--pool", "16"), warmup=4, loads=("own",)),
        Contestant("pglock (Go)", missing="its module cannot be fetched, so there is no contestant"),
    ],
    # Java compiles while it runs.
    "zookeeper": [Contestant("Curator InterProcessMutex (Java)", lambda: build_java("CuratorContestant"), warmup=4)],
    "consul": [
        Contestant("api.Lock (Go)", lambda: build_go("consul")),
        Contestant("api.Lock, kept session (Go)", lambda: build_go("consul"), flags=("--keep-sessions",)),
    ],
}
