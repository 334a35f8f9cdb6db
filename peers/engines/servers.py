"""One server of each engine, in a temporary directory, with its default durability."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60
STOP_SECONDS = 20
ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
# PostgreSQL refuses to run as root.
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


class Missing(Exception):
    """Why a server or a contestant cannot run here."""


@dataclass
class Launch:
    """How to start a server."""

    command: list
    url: str
    is_ready: Callable[[], bool]
    version: str
    stop: signal.Signals = signal.SIGTERM


@contextlib.contextmanager
def running(engine):
    """Runs the server of `engine`; gives its URL and its version."""
    directory = Path(tempfile.mkdtemp(prefix=f"peers-{engine}-"))
    try:
        launch = LAUNCHES[engine](directory)
        with open(directory / "log", "w") as log:
            process = subprocess.Popen(launch.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            await_ready(engine, process, launch, directory / "log")
            yield launch
        finally:
            stop(process, launch.stop)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def await_ready(engine, process, launch, log):
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError):
            if launch.is_ready():
                return
        time.sleep(0.1)
    last_lines = "; ".join(log.read_text().splitlines()[-3:])
    raise Missing(f"the server of {engine} did not start: {last_lines}")


def stop(process, how):
    process.send_signal(how)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def etcd(directory):
    program = os.environ.get("ETCD") or shutil.which("etcd")
    need(program, "etcd (apt-get install etcd-server)")
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    command = [
        program, "--data-dir", directory / "data", "--logger", "zap", "--log-level", "error",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
    ]  # fmt: skip
    url = client.replace("http", "etcd")
    return Launch(command, url, lambda: b"true" in get(f"{client}/health"), version("etcd", program, "--version"))


def postgres(directory):
    initdb, program, psql = (postgres_program(name) for name in ("initdb", "postgres", "psql"))
    for path in (initdb, program, psql):
        need(path, "PostgreSQL (apt-get install postgresql)")
    is_root = os.getuid() == 0
    if is_root:
        os.chown(directory, NOBODY, NOBODY)
    (port,) = free_ports(1)
    user = AS_NOBODY if is_root else []
    data = directory / "data"
    initialize = [*user, initdb, "-D", data, "-U", "postgres", "-A", "trust"]
    subprocess.run(initialize, cwd=directory, check=True, capture_output=True)
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": directory, "max_connections": 300}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    url = f"postgres://postgres@127.0.0.1:{port}/postgres"
    answers = [psql, "-XAtqc", "SELECT 1", url]
    return Launch(
        [*user, program, "-D", data, "-p", str(port), *options],
        url,
        lambda: subprocess.run(answers, capture_output=True).returncode == 0,
        version("PostgreSQL", program, "--version"),
        # Does not wait for sessions to end.
        stop=signal.SIGINT,
    )


def zookeeper(directory):
    need(shutil.which("java"), "java (apt-get install default-jre-headless)")
    need(ZOOKEEPER_JAR.exists(), f"{ZOOKEEPER_JAR} (apt-get install zookeeper)")
    (port,) = free_ports(1)
    settings = {
        "dataDir": directory / "data", "clientPort": port, "clientPortAddress": "127.0.0.1", "tickTime": 2000,
        "maxClientCnxns": 0, "admin.enableServer": "false", "4lw.commands.whitelist": "srvr",
    }  # fmt: skip
    path = directory / "zoo.cfg"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [
        "java", "-Xmx1000m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"/usr/share/java/slf4j-simple.jar:{ZOOKEEPER_JAR}",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", path,
    ]  # fmt: skip
    # The same file, by a name with its version.
    named = sorted(ZOOKEEPER_JAR.parent.glob("zookeeper-[0-9]*.jar"))
    version = f"ZooKeeper {named[-1].stem.removeprefix('zookeeper-')}" if named else "ZooKeeper"
    return Launch(command, f"zk://127.0.0.1:{port}", lambda: b"Mode:" in ask_zookeeper(port), version)


def consul(directory):
    installed = ROOT / "interop/.deps/consul/consul"
    program = os.environ.get("QUORLOCK_CONSUL") or shutil.which("consul") or (installed.exists() and installed)
    need(program, "consul (scripts/setup-tests installs it)")
    http, server, lan, wan = free_ports(4)
    config = {
        "server": True, "bootstrap_expect": 1, "node_name": "peers", "data_dir": str(directory / "data"),
        "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "WARN", "disable_update_check": True,
        "ports": {"http": http, "dns": -1, "grpc": -1, "server": server, "serf_lan": lan, "serf_wan": wan},
        # 100 clients of api.Lock have up to 400 requests under way.
        "limits": {"http_max_conns_per_client": 1000},
    }  # fmt: skip
    path = directory / "consul.json"
    path.write_text(json.dumps(config))
    command = [program, "agent", "-config-file", path]
    # Only a leader answers it.
    question = f"http://127.0.0.1:{http}/v1/kv/?keys&consistent"
    return Launch(command, f"consul://127.0.0.1:{http}", lambda: get(question) is not None, version("Consul", program, "version"))


LAUNCHES = {"etcd": etcd, "postgres": postgres, "zookeeper": zookeeper, "consul": consul}


def need(found, what):
    if not found:
        raise Missing(f"no {what}")


def postgres_program(name):
    """Debian keeps the programs of PostgreSQL apart by version, and wrappers on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found[-1] if found else shutil.which(name)


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def get(url):
    """The answer of an HTTP server; empty if it knows no such thing."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return b""
        raise


def ask_zookeeper(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(b"srvr")
        return stream.recv(4096)


def version(name, *command):
    """`name` and the first number with dots that `command` prints."""
    answer = subprocess.run(command, capture_output=True, text=True)
    number = re.search(r"\d+(\.\d+)+", answer.stdout)
    return f"{name} {number[0]}" if number else name
