"""The sidecar client against real sidecars and real servers: python3 -m unittest discover clients/python/tests"""

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from datetime import timedelta
from pathlib import Path

import kit
from quorlock import sidecar as quorlock_sidecar
from quorlock.sidecar import BadRequest, Client, Forbidden, Held, LockLost, NamesHeld, NoPermit, NoQuorum, ShuttingDown
from quorlock.sidecar import SlotsDiffer, TooManyNames
from quorlock.sidecar import TooManyWaiters, Unauthorized, Unreachable, WaitOver

# No wait in here is meant to last so long; a loaded machine is.
LONG = 30


def setUpModule():
    global nodes, sidecar, client
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if hard < 8192 else (max(soft, 8192), hard))
    nodes = kit.Nodes()
    unittest.addModuleCleanup(nodes.stop)
    sidecar = kit.Sidecar(nodes)
    unittest.addModuleCleanup(sidecar.stop)
    client = Client(sidecar.url)


def until(is_so):
    start = time.monotonic()
    while not is_so():
        if time.monotonic() > start + LONG:
            raise AssertionError("it did not come about")
        time.sleep(0.01)


class Holding(unittest.TestCase):
    def test_one_holds_it_and_the_other_is_told_who(self):
        with client.hold("one", ttl=20, owner="ann", reason="a test") as lease:
            lease.check()
            self.assertGreater(lease.remaining, 10)
            with self.assertRaises(Held) as caught:
                client.hold("one", wait=0).__enter__()
            self.assertEqual((caught.exception.holder.owner, caught.exception.holder.reason), ("ann", "a test"))
            self.assertEqual((caught.exception.code, caught.exception.status), ("held", 409))
            self.assertGreater(caught.exception.remaining, 10)
        with client.hold("one", wait=0):
            pass  # Free the moment that the block was left.

    def test_whoever_waits_gets_it_next_with_a_larger_fence(self):
        order = []

        def waiter():
            with client.hold("next", wait=LONG) as lease:
                order.append(("second", lease.fence))

        with client.hold("next") as lease:
            order.append(("first", lease.fence))
            thread = threading.Thread(target=waiter)
            thread.start()
            until(lambda: client.status("next").waiters == 1)
        thread.join(LONG)
        self.assertEqual([who for who, _ in order], ["first", "second"])
        self.assertLess(order[0][1], order[1][1])

    def test_a_wait_that_is_over_says_so(self):
        with client.hold("over"):
            start = time.monotonic()
            with self.assertRaises(WaitOver):
                client.hold("over", wait=timedelta(milliseconds=300)).__enter__()
            self.assertGreaterEqual(time.monotonic() - start, 0.3)
            self.assertLess(time.monotonic() - start, 10)

    def test_the_limits_of_the_sidecar_have_their_own_errors(self):
        small = kit.Sidecar(nodes, "--max-waiters", "1", "--max-new-names", "1")
        self.addCleanup(small.stop)
        theirs = Client(small.url)

        def waiter():
            with theirs.hold("limited", wait=LONG):
                pass

        with theirs.hold("limited"):
            waiting = threading.Thread(target=waiter)
            waiting.start()
            until(lambda: theirs.status("limited").waiters == 1)
            with self.assertRaises(TooManyWaiters):
                theirs.acquire("limited", wait=1)
        waiting.join(LONG)
        with self.assertRaises(TooManyNames):
            for number in range(200):
                theirs.acquire(f"limited-{number}", ttl=1)

    def test_it_outlives_its_ttl_while_the_block_lasts(self):
        # On a loaded machine an extension may be a second late.
        with client.hold("kept", ttl=4) as lease:
            time.sleep(5)
            lease.check()
        self.assertFalse(lease.lost.is_set())

    def test_forced_away_it_is_lost(self):
        operator = Client(sidecar.unix)
        with self.assertRaisesRegex(LockLost, "forced"), client.hold("forced", ttl=6) as lease:
            self.assertTrue(operator.force_release("forced", operator.status("forced").token))
            self.assertTrue(lease.lost.wait(LONG))
            self.assertEqual(lease.remaining, 0)
            with self.assertRaises(LockLost):
                lease.check()

    def test_an_error_in_the_block_is_not_hidden(self):
        with self.assertRaises(ZeroDivisionError), client.hold("error"):
            1 / 0
        until(lambda: not client.status("error").held)

    def test_a_killed_holder_frees_it_at_once(self):
        script = (
            "import sys, time; from quorlock.sidecar import Client\n"
            "with Client(sys.argv[1]).hold('killed', ttl=30): print('held', flush=True); time.sleep(600)"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(quorlock_sidecar.__file__).parent.parent)}
        command = [sys.executable, "-c", script, sidecar.url]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        holder.kill()
        start = time.monotonic()
        with client.hold("killed", wait=LONG):
            self.assertLess(time.monotonic() - start, 10, "far below the ttl of 30 s")
        holder.wait()
        holder.stdout.close()

    def test_any_name_is_a_name(self):
        for name in ("Straße/東京 #1?%20&x=y", "a/b/../c", ".", "..", "🔒", "%", " ", "x" * 512):
            with self.subTest(name), client.hold(name, reason=f"für {name}"[:50]) as lease:
                self.assertEqual(lease.name, name)
                self.assertTrue(client.status(name).held)
        with client.hold("Straße/東京"):
            # The sidecar looks for them twice a second at most.
            until(lambda: "Straße/東京" in [one.name for one in client.list()])

    def test_a_hold_is_entered_once(self):
        hold = client.hold("once")
        with hold:
            with self.assertRaises(RuntimeError):
                hold.__enter__()
        with self.assertRaises(RuntimeError):
            hold.__enter__()

    def test_the_environment_names_the_sidecar(self):
        os.environ["QUORLOCK_SIDECAR"] = sidecar.unix
        try:
            with quorlock_sidecar.lock("environment", ttl=30, wait=10) as lease:
                self.assertGreater(lease.fence, 0)
        finally:
            del os.environ["QUORLOCK_SIDECAR"]


class Together(unittest.TestCase):
    """Readers, several names, permits and elections."""

    def test_readers_share_and_keep_a_writer_out(self):
        with client.hold("shared", shared=True, owner="ann"), client.lock("shared", shared=True, owner="bob"):
            with self.assertRaises(Held) as caught:
                client.hold("shared", wait=0).__enter__()
            self.assertEqual([reader.owner for reader in caught.exception.readers], ["ann", "bob"])
            found = client.status("shared")
            self.assertEqual((found.mode, found.holder, len(found.readers)), ("shared", None, 2))
        with client.hold("shared", wait=LONG):
            self.assertEqual(client.status("shared").mode, "exclusive")

    def test_several_names_are_held_together_or_not_at_all(self):
        with client.lock_all(["set b", "set/a"], owner="ann") as lease:
            self.assertEqual((lease.name, lease.names), ("set b", ("set b", "set/a")))
            with self.assertRaises(NamesHeld) as caught:
                client.lock_all(["set c", "set/a"], wait=0).__enter__()
            self.assertEqual([(one.name, one.holder.owner) for one in caught.exception.held], [("set/a", "ann")])
            self.assertFalse(client.status("set c").held)
        with client.lock_all(["set/a"], wait=LONG) as alone:
            self.assertGreater(alone.fence, lease.fence)
        for names in ([], "set", ["twice", "twice"], [f"set-{number}" for number in range(17)]):
            with self.subTest(names), self.assertRaises((ValueError, BadRequest)):
                client.lock_all(names).__enter__()

    def test_permits_are_never_more_than_slots(self):
        holding, most = [], []

        def worker():
            for _ in range(3):
                with client.semaphore("slots", 2, wait=LONG) as permit:
                    holding.append(permit.slot)
                    most.append(len(holding))
                    holding.remove(permit.slot)

        threads = [threading.Thread(target=worker) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(len(most), 15)
        self.assertLessEqual(max(most), 2)
        with client.semaphore("slots", 2, wait=LONG) as one, client.semaphore("slots", 2, wait=LONG) as two:
            self.assertEqual({one.slot, two.slot}, {0, 1})
            with self.assertRaises(NoPermit):
                client.semaphore("slots", 2, wait=0).__enter__()
            with self.assertRaises(SlotsDiffer) as caught:
                client.semaphore("slots", 3, wait=0).__enter__()
            self.assertEqual(caught.exception.recorded, 2)
        for slots in (0, 1025):
            with self.assertRaises(BadRequest):
                client.semaphore("slots", slots).__enter__()

    def test_leases_by_token_cover_readers_sets_and_permits(self):
        other = kit.Sidecar(nodes)
        self.addCleanup(other.stop)
        for number, how in enumerate(({"shared": True}, {"names": ["token-b"]}, {"slots": 3})):
            for elsewhere in (client, Client(other.url)):
                with self.subTest(how, elsewhere=elsewhere):
                    # Released elsewhere, a name stays claimed here until its deadline: so each has its own.
                    lease = client.acquire(f"token-{number}", ttl=20, **how)
                    covered = {"names": lease.names, "slot": lease.slot}
                    longer = elsewhere.extend(lease.name, lease.token, ttl=25, **covered)
                    self.assertEqual((longer.fence, longer.names, longer.slot), (lease.fence, lease.names, lease.slot))
                    self.assertTrue(elsewhere.release(lease.name, lease.token, **covered))
                    with self.assertRaises(LockLost):
                        client.extend(lease.name, lease.token)

    def test_one_leads_after_another_and_followers_see_it(self):
        election = client.election("chair/1")
        self.assertIsNone(election.leader())
        seen, vacancies, led = [], [], threading.Event()

        def follow():
            for leader in election.observe():
                if leader is None:
                    vacancies.append(len(seen))
                else:
                    seen.append((leader.value, leader.term))
                if vacancies and vacancies[-1] == 2:
                    return

        def second():
            with election.campaign("b:2") as leadership:
                led.term = leadership.term
                led.set()
                until(lambda: len(seen) == 2)

        follower, candidate = threading.Thread(target=follow, daemon=True), threading.Thread(target=second, daemon=True)
        follower.start()
        with election.campaign("a:1", owner="ann") as first:
            leader = election.leader()
            self.assertEqual((leader.value, leader.term, leader.owner), ("a:1", first.term, "ann"))
            until(lambda: len(seen) == 1)
            candidate.start()
            until(lambda: client.status("chair/1").waiters == 1)
            with self.assertRaises(Held):
                election.campaign("c:3", wait=0).__enter__()
        self.assertTrue(led.wait(LONG))
        follower.join(LONG)
        candidate.join(LONG)
        self.assertEqual(seen, [("a:1", first.term), ("b:2", led.term)])
        self.assertGreater(led.term, first.term)
        self.assertFalse(follower.is_alive(), "it saw that nobody leads after the second")
        self.assertNotIn(0, vacancies)
        with self.assertRaises(BadRequest):
            election.campaign("").__enter__()


class Tokens(unittest.TestCase):
    def test_taken_extended_and_released_by_token(self):
        lease = client.acquire("token", ttl=20, reason="by token")
        self.assertRegex(lease.token, "^[0-9a-f]{32}$")
        self.assertLessEqual(lease.remaining, 20)
        self.assertEqual((lease.nodes, lease.quorum), (5, 3))
        self.assertNotIn(lease.token, repr(lease))
        longer = client.extend("token", lease.token, ttl=25)
        self.assertEqual(longer.fence, lease.fence)
        self.assertGreater(longer.remaining, 20)
        found = client.status("token")
        self.assertEqual((found.held, found.fence, found.holder.reason), (True, lease.fence, "by token"))
        self.assertIsNone(found.token, "scope lock does not see tokens")
        self.assertTrue(client.release("token", lease.token))
        for call in (client.release, client.extend):
            with self.assertRaises(LockLost):
                call("token", lease.token)
        self.assertFalse(client.status("token").held)

    def test_the_sidecar_does_not_extend_it(self):
        lease = client.acquire("short", ttl=1)
        again = client.acquire("short", ttl=20, wait=LONG)
        self.assertEqual(lease.remaining, 0.0, "not before its end")
        self.assertGreater(again.fence, lease.fence)
        with self.assertRaises(LockLost):
            client.extend("short", lease.token)
        client.release("short", again.token)

    def test_what_cannot_be_used_is_told_apart(self):
        for call, code in (
            (lambda: client.acquire(""), None),
            (lambda: client.acquire("tab\t"), "bad_name"),
            (lambda: client.acquire("x" * 513), "bad_name"),
            (lambda: client.acquire("quorlock:epoch"), "bad_name"),
            (lambda: client.acquire("x", ttl=0), "bad_ttl"),
            (lambda: client.acquire("x", ttl=-1), None),
            (lambda: client.acquire("x", ttl=10**6), "bad_ttl"),
            (lambda: client.acquire("x", wait=10**6), "bad_request"),
            (lambda: client.extend("x", "no token"), "bad_token"),
            (lambda: client.release("x", "'; DROP TABLE locks"), "bad_token"),
            (lambda: client.hold("x", ttl=0).__enter__(), "bad_ttl"),
            (lambda: client.hold("new\nline").__enter__(), "bad_name"),
        ):
            with self.subTest(code=code), self.assertRaises(quorlock_sidecar.QuorlockError) as caught:
                call()
            self.assertLess(caught.exception.status, 500)
            if code is not None:
                self.assertIsInstance(caught.exception, BadRequest)
                self.assertEqual(caught.exception.code, code)
        for url in ("localhost:7420", "ftp://x", "unix:relative", "http://x/path", "http://user:secret@x"):
            with self.subTest(url), self.assertRaises(ValueError) as caught:
                Client(url)
            self.assertNotIn("secret", str(caught.exception))

    def test_tokens_are_never_in_addresses(self):
        recorder = kit.Recorder(sidecar.url)
        self.addCleanup(recorder.stop)
        through = Client(recorder.url, token="a-secret-of-the-token-file")
        # The sidecar has no token file, so it refuses a token that it cannot know; the rest goes without.
        with self.assertRaises(Unauthorized):
            through.acquire("seen")
        through = Client(recorder.url)
        with through.hold("seen") as lease:
            seen = [lease.token]
        lease = through.acquire("seen")
        through.extend("seen", lease.token)
        through.release("seen", lease.token)
        seen.append(lease.token)
        lines = re.findall(rb"(?:GET|POST) /\S* HTTP/1.1\r\n", recorder.sent)
        self.assertEqual(len(lines), 5)
        self.assertIn(seen[1].encode(), recorder.sent, "in the body")
        for line in lines:
            for secret in (*seen, "a-secret-of-the-token-file"):
                self.assertNotIn(secret.encode(), line)

    def test_calls_share_a_connection_until_it_ends(self):
        recorder = kit.Recorder(sidecar.url)
        self.addCleanup(recorder.stop)
        through = Client(recorder.url)
        for _ in range(3):
            through.release("shared connection", through.acquire("shared connection").token)
        with self.assertRaises(BadRequest):
            through.acquire("tab\t")
        self.assertEqual(recorder.connections, 1)
        recorder.cut()
        lease = through.acquire("shared connection", ttl=LONG)
        self.assertEqual(recorder.connections, 2)
        # It ends at the moment of the next request.
        recorder.ends_at_second = True
        through.release("shared connection", lease.token)
        self.assertEqual(recorder.connections, 3)

    def test_a_forked_process_has_connections_of_its_own(self):
        recorder = kit.Recorder(sidecar.url)
        self.addCleanup(recorder.stop)
        through = Client(recorder.url)
        through.status("forked")
        with unittest.mock.patch("os.getpid", return_value=os.getpid() + 1):
            through.status("forked")
        self.assertEqual(recorder.connections, 2)

    def test_scopes(self):
        secrets = {scope: f"{scope}-secret-0123456789" for scope in ("read", "lock", "write")}
        guarded = kit.Sidecar(nodes, tokens="".join(f"{scope}:{secret}\n" for scope, secret in secrets.items()))
        self.addCleanup(guarded.stop)
        for url in (guarded.url, guarded.unix):
            with self.assertRaises(Unauthorized):
                Client(url).acquire("scoped")
            with self.assertRaises(Unauthorized):
                Client(url, token="guessed-guessed-guessed").hold("scoped").__enter__()
            with self.assertRaises(Forbidden):
                Client(url, token=secrets["read"]).acquire("scoped")
            self.assertFalse(Client(url, token=secrets["read"]).status("scoped").held)
            with Client(url, token=secrets["lock"]).hold("scoped") as lease:
                with self.assertRaises(Forbidden):
                    Client(url, token=secrets["lock"]).force_release("scoped", lease.token)
                self.assertEqual(Client(url, token=secrets["write"]).status("scoped").token, lease.token)
            self.assertNotIn(secrets["lock"], repr(Client(url, token=secrets["lock"])))


class Trouble(unittest.TestCase):
    def test_it_is_lost_when_most_nodes_die(self):
        mortal = kit.Nodes()
        self.addCleanup(mortal.stop)
        ours = kit.Sidecar(mortal)
        self.addCleanup(ours.stop)
        caller = Client(ours.url)
        with self.assertRaises(LockLost), caller.hold("mortal", ttl=4) as lease:
            mortal.kill(2)
            time.sleep(1)
            lease.check()  # Two of five may fail.
            mortal.kill(1)
            self.assertTrue(lease.lost.wait(LONG))
        with self.assertRaises(NoQuorum) as caught:
            caller.acquire("mortal")
        self.assertEqual(len(caught.exception.nodes), 5)
        self.assertEqual(ours.plain("GET", "/readyz")[0], 503)

    def test_a_killed_sidecar_is_noticed(self):
        for number, reason in ((signal.SIGKILL, "sidecar"), (signal.SIGTERM, "shut down")):
            with self.subTest(number):
                mortal = kit.Sidecar(nodes)
                self.addCleanup(mortal.stop)
                caller = Client(mortal.url)
                with self.assertRaisesRegex(LockLost, reason), caller.hold("orphan", ttl=4, wait=LONG) as lease:
                    start = time.monotonic()
                    mortal.signal(number)
                    self.assertTrue(lease.lost.wait(LONG))
                    self.assertLess(time.monotonic() - start, 10)
                with self.assertRaises((Unreachable, ShuttingDown)):
                    caller.acquire("orphan")
                mortal.wait()
                with client.hold("orphan", wait=LONG):
                    pass  # Free after its ttl, or at once.

    def test_a_frozen_sidecar_is_given_up_before_others_have_the_lock(self):
        frozen = kit.Sidecar(nodes)
        self.addCleanup(frozen.stop)
        with self.assertRaises(LockLost), Client(frozen.url).hold("frozen", ttl=2) as lease:
            frozen.signal(signal.SIGSTOP)
            with client.hold("frozen", wait=LONG) as next_lease:
                self.assertEqual(lease.remaining, 0)
                self.assertTrue(lease.lost.is_set())
                self.assertGreater(next_lease.fence, lease.fence)
            frozen.signal(signal.SIGKILL)

    def test_a_connection_that_is_reset_before_it_stands(self):
        reset = ConnectionResetError(104, "Connection reset by peer")
        with unittest.mock.patch("http.client.HTTPConnection.connect", side_effect=reset):
            with self.assertRaises(Unreachable):
                Client("http://127.0.0.1:1").acquire("x")
            with self.assertRaises(Unreachable):
                Client("http://127.0.0.1:1").hold("x").__enter__()

    def test_nobody_there(self):
        for url in ("http://127.0.0.1:1", "unix:/nowhere/at/all.sock"):
            with self.subTest(url):
                with self.assertRaises(Unreachable):
                    Client(url).acquire("x")
                with self.assertRaises(Unreachable):
                    Client(url).hold("x").__enter__()


class Crowds(unittest.TestCase):
    def test_a_thousand_holds_lose_no_update(self):
        """Four files are counted up by 1000 threads, which read, wait and write under the lock of the file."""
        with tempfile.TemporaryDirectory() as scratch:
            files = [Path(scratch) / str(number) for number in range(4)]
            fences, failures = [[] for _ in files], []
            for file in files:
                file.write_text("0")

            def count_up(at):
                which = at % len(files)
                try:
                    with client.hold(f"crowd-{which}", ttl=20, wait=100) as lease:
                        before = int(files[which].read_text())
                        time.sleep(0.001)
                        files[which].write_text(str(before + 1))
                        fences[which].append(lease.fence)
                        lease.check()
                except Exception as error:  # noqa: BLE001
                    failures.append(repr(error))

            threads = [threading.Thread(target=count_up, args=(at,)) for at in range(1000)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            self.assertEqual(failures[:5], [])
            self.assertEqual([file.read_text() for file in files], ["250"] * 4)
            for seen in fences:
                self.assertEqual(seen, sorted(set(seen)), "every fence is above the one before")

    def test_asyncio_holds_and_gives_up_waiting_when_cancelled(self):
        async def main():
            async with client.hold("async") as lease:
                self.assertGreater(lease.remaining, 0)
                waiting = asyncio.create_task(self.enter("async"))
                while client.status("async").waiters == 0:
                    await asyncio.sleep(0.01)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
            async with client.hold("async", wait=LONG):
                pass

        asyncio.run(main())

    async def enter(self, name):
        async with client.hold(name, wait=LONG):
            pass


class Others(unittest.TestCase):
    def test_its_metrics_are_well_formed_and_documented(self):
        with client.hold("measured"):
            pass
        status, text = sidecar.plain("GET", "/metrics")
        self.assertEqual(status, 200)
        pages = [(kit.ROOT / "docs" / page).read_text() for page in ("metrics.md", "sidecar.md")]
        documented = set(re.findall(r"^\| `(\w+)` \|", "".join(pages), re.M))
        shown = set(re.findall(r"^# TYPE (\w+)", text, re.M))
        self.assertEqual(shown - documented, set(), "in no document")
        self.assertGreater(len(shown), 10)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_the_file_alone_is_enough(self):
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copy(quorlock_sidecar.__file__, Path(scratch) / "locks.py")
            script = "import locks, sys; print(locks.Client(sys.argv[1]).acquire('alone').fence, 'quorlock' in sys.modules)"
            environment = {**os.environ, "PYTHONPATH": scratch}
            command = [sys.executable, "-c", script, sidecar.url]
            said = subprocess.run(command, env=environment, cwd=scratch, capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, r"^\d+ False$")

    def test_the_overview_is_there(self):
        found = client.overview()
        self.assertEqual((found["quorum"], len(found["nodes"])), (3, 5))
        self.assertNotIn("token", json.dumps(found["locks"]))


if __name__ == "__main__":
    unittest.main()
