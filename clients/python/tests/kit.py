"""Five real Redis servers and real sidecars for the tests. QUORLOCK_PROGRAM names the built program."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROGRAM = os.environ.get("QUORLOCK_PROGRAM", str(ROOT / "target/debug/quorlock"))
# The package in this repository, whose sidecar client needs no build; or the one that is installed.
IS_INSTALLED = "QUORLOCK_INSTALLED" in os.environ
if not IS_INSTALLED:
    sys.path.insert(0, str(HERE.parent))


def _environment(**more):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("QUORLOCK_")}
    return {**clean, **more}


class Nodes:
    """Five servers, which end with it."""

    def __init__(self):
        self._program = subprocess.Popen([PROGRAM, "dev", "--json"], stdout=subprocess.PIPE, env=_environment())
        told = json.loads(self._program.stdout.readline())
        self.urls = told["environment"]["QUORLOCK_NODES"]
        self._pids = [node["pid"] for node in told["nodes"]]

    def kill(self, count):
        """Kills the next ones."""
        for _ in range(count):
            os.kill(self._pids.pop(), signal.SIGKILL)

    def stop(self):
        self._program.terminate()
        self._program.wait(30)
        self._program.stdout.close()


class Sidecar:
    """A sidecar on a free port and a unix socket."""

    def __init__(self, nodes, *arguments, tokens=None):
        self._dir = tempfile.TemporaryDirectory(prefix="quorlock-client-")
        scratch = Path(self._dir.name)
        (scratch / "quorlock.toml").write_text('node_timeout = "150ms"\n')  # For a loaded machine.
        command = [PROGRAM, "serve", "--quiet", "--listen", "127.0.0.1:0", "--listen", f"unix:{scratch}/s.sock"]
        if tokens is not None:
            (scratch / "tokens").write_text(tokens)
            (scratch / "tokens").chmod(0o600)
            command += ["--token-file", str(scratch / "tokens")]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        environment = _environment(QUORLOCK_NODES=nodes.urls, QUORLOCK_CONFIG=str(scratch / "quorlock.toml"))
        self._program = subprocess.Popen([*command, *arguments], **quiet, env=environment, text=True)
        lines = [self._program.stdout.readline().split() for _ in range(2)]
        self.url = lines[0][-1]
        self.unix = f"unix:{scratch}/s.sock"

    def signal(self, number):
        self._program.send_signal(number)

    def wait(self):
        return self._program.wait(30)

    def stop(self):
        if self._program.poll() is None:
            self._program.kill()
        self._program.wait()
        self._program.stdout.close()
        self._dir.cleanup()

    def plain(self, method, path, body=None, headers=None):
        """A request without the client: status and body."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"content-type": "application/json", **(headers or {})} if body is not None else headers or {}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if "json" in answer.getheader("content-type", "") else text
        finally:
            connection.close()


class Recorder:
    """Passes bytes on to a sidecar or a server, and keeps what was sent to it and what it answered."""

    def __init__(self, url, change=lambda data: data):
        """`change`: what callers get instead of an answer."""
        self._change = change
        #: How many connections came.
        self.connections = 0
        #: Whether a connection that has answered once ends at its second request, which is not passed on.
        self.ends_at_second = False
        parts = urlsplit(url)
        self._to = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sent, self._answered, self._open = [], [], []
        self._is_stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self):
        return b"".join(self._sent)

    @property
    def answered(self):
        return b"".join(self._answered)

    def _accept(self):
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._to)
            self._open += [caller, server]
            if self._is_stopped:
                return self.stop()
            threading.Thread(target=self._pass, args=(caller, server, self._sent, bytes), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, caller, self._answered, self._change), daemon=True).start()

    def cut(self):
        """Ends all connections. New ones are accepted."""
        for one in list(self._open):
            try:
                one.shutdown(socket.SHUT_RDWR)  # Wakes the threads, which `close` does not.
            except OSError:
                pass

    def _pass(self, source, target, kept, change):
        answered = len(self._answered)
        try:
            while data := source.recv(65536):
                if kept is self._sent and self.ends_at_second and len(self._answered) > answered:
                    return self.cut()
                kept.append(data)
                target.sendall(change(data))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self._is_stopped = True
        self._open.append(self._listener)
        self.cut()
        for one in self._open:
            one.close()


def other_boot_clock(data):
    """An answer as a sidecar on another machine gives it, which was started at another time."""
    return re.sub(rb'("deadline_boot_ms":)(\d)', lambda found: found[1] + (b"1" if found[2] == b"9" else b"9"), data)


class Wires:
    """The way from one sidecar to some nodes, which can be cut for most of them."""

    def __init__(self, nodes, count):
        urls = nodes.urls.split(",")
        self._recorders = [Recorder(url) for url in urls[:count]]
        through = [recorder.url.replace("http:", "redis:") for recorder in self._recorders]
        self.urls = ",".join([*through, *urls[count:]])

    def cut(self):
        for recorder in self._recorders:
            recorder.stop()


class Caller:
    """A program that uses the client, in a process of its own that can be paused."""

    def __init__(self, script, *arguments):
        environment = {**os.environ, **({} if IS_INSTALLED else {"PYTHONPATH": str(HERE.parent)})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self._program = subprocess.Popen([sys.executable, "-c", script, *arguments], **pipes)

    def line(self):
        return self._program.stdout.readline().strip()

    def tell(self, line):
        self._program.stdin.write(line + "\n")
        self._program.stdin.flush()

    def pause(self):
        """Returns when it stands still."""
        self._program.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._program.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self):
        self._program.send_signal(signal.SIGCONT)

    def stop(self):
        self._program.kill()
        self._program.communicate()
