"""Clients that stand still, against real sidecars and servers: they never count on a lock that is over."""

import signal
import time
import unittest
from types import SimpleNamespace

import kit
from quorlock import sidecar as quorlock_sidecar
from quorlock.sidecar import Client, LockLost

# No wait in here is meant to last so long; a loaded machine is.
LONG = 30


def setUpModule():
    global nodes, sidecar, client
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


TAKES = """
import sys
from quorlock.sidecar import Client
print(Client(sys.argv[1]).acquire("late", ttl=2, wait=60).remaining, flush=True)
"""

HOLDS = """
import os, sys, time
from quorlock.sidecar import Client, LockLost
with Client(sys.argv[1]).hold("stale", ttl=4) as hold:
    print("held", flush=True)
    sys.stdin.readline()
    time.sleep(0.2)  # The thread that reads gets to read what came during the pause.
    passed, end = 0, time.monotonic() + 1
    while time.monotonic() < end:
        try:
            hold.check()
            passed += 1
        except LockLost:
            pass
    print(passed, hold.remaining, flush=True)
    os._exit(0)
"""


class Pauses(unittest.TestCase):
    def test_a_lease_that_ended_before_its_answer_was_read_has_no_time_left(self):
        """Goal: whoever stands still between the answer and the reading of it does not count from the reading."""
        first = client.acquire("late", ttl=20)
        caller = kit.Caller(TAKES, sidecar.url)
        self.addCleanup(caller.stop)
        until(lambda: client.status("late").waiters == 1)
        caller.pause()
        client.release("late", first.token)
        until(lambda: (client.status("late").fence or 0) > first.fence)
        second = client.acquire("late", ttl=20, wait=LONG)
        caller.resume()
        self.assertEqual(caller.line(), "0.0")
        self.assertGreater(second.remaining, 0, "and another has it")
        client.release("late", second.token)

    def test_a_lease_has_the_time_that_it_has_after_a_wait(self):
        first = client.acquire("waited", ttl=3)
        second = client.acquire("waited", ttl=20, wait=LONG)
        self.assertGreater(second.remaining, 18, "the wait is no time of the lease")
        self.assertLess(second.remaining, 20)
        second.check()
        with self.assertRaises(LockLost):
            first.check()
        client.release("waited", second.token)

    def test_a_sidecar_with_another_boot_clock_serves_as_well(self):
        """Goal: a client on another machine counts from before its request, and loses no more than that way."""
        recorder = kit.Recorder(sidecar.url, kit.other_boot_clock)
        self.addCleanup(recorder.stop)
        far = Client(recorder.url)
        first = far.acquire("far", ttl=2)
        second = far.acquire("far", ttl=20, wait=LONG)
        self.assertEqual(first.remaining, 0)
        self.assertGreater(second.remaining, 18)
        self.assertLess(second.remaining, 20)
        with far.hold("far-hold", ttl=4) as hold:
            time.sleep(5)
            hold.check()
            self.assertLess(hold.remaining, 4)
        far.release("far", second.token)

    def test_clocks_of_two_machines_may_run_apart(self):
        said = {"request_age_ms": 100_000, "remaining_ms": 5_000, "deadline_boot_ms": 0}
        asked = quorlock_sidecar._now() - 100
        arrived = (asked + 0.001) * 1000
        ours = quorlock_sidecar._end({**said, "deadline_boot_ms": arrived + 105_000}, asked)
        self.assertAlmostEqual(ours, asked + 105)
        # A thousandth of the time that was measured on two clocks.
        another = quorlock_sidecar._end({**said, "deadline_boot_ms": arrived + 9e9}, asked)
        self.assertAlmostEqual(another, asked + 105 - 0.1)

    def test_the_clock_goes_on_while_the_machine_sleeps(self):
        """Goal: no system is read by a clock that stands still, where it has one that does not."""
        linux = SimpleNamespace(CLOCK_BOOTTIME=7, CLOCK_MONOTONIC_RAW=4, clock_gettime=lambda clock: clock)
        self.assertEqual(quorlock_sidecar._clock(linux, "linux")(), 7)
        macos = SimpleNamespace(CLOCK_MONOTONIC_RAW=4, clock_gettime=lambda clock: clock, monotonic=None)
        self.assertEqual(quorlock_sidecar._clock(macos, "darwin")(), 4, "`monotonic` stands still there")
        windows = SimpleNamespace(monotonic=lambda: 1)
        self.assertEqual(quorlock_sidecar._clock(windows, "win32")(), 1)

    def test_an_event_that_was_read_late_extends_nothing(self):
        """Goal: what the sidecar said before a pause is as old afterwards as it is."""
        frozen = kit.Sidecar(nodes)
        self.addCleanup(frozen.stop)
        recorder = kit.Recorder(frozen.url)
        self.addCleanup(recorder.stop)
        caller = kit.Caller(HOLDS, recorder.url)
        self.addCleanup(caller.stop)
        self.assertEqual(caller.line(), "held")
        caller.pause()
        before = recorder.answered.count(b"event: extended")
        until(lambda: recorder.answered.count(b"event: extended") > before)
        frozen.signal(signal.SIGSTOP)
        with client.hold("stale", wait=LONG) as next_hold:
            caller.tell("go on")
            caller.resume()
            self.assertEqual(caller.line(), "0 0.0")
            next_hold.check()

    def test_a_hold_is_lost_when_its_last_deadline_is_over_even_if_comments_come(self):
        """Goal: comments say that the sidecar lives, not that the lock is extended."""
        wires = kit.Wires(nodes, 3)
        self.addCleanup(wires.cut)
        frozen = kit.Sidecar(wires)
        self.addCleanup(frozen.stop)
        recorder = kit.Recorder(frozen.url)
        self.addCleanup(recorder.stop)
        with self.assertRaises(LockLost), Client(recorder.url).hold("commented", ttl=6) as hold:
            wires.cut()
            said = b"event: extended"
            until(lambda: recorder.answered.rpartition(said)[2].count(b": alive\n") >= 4)
            frozen.signal(signal.SIGSTOP)
            with client.hold("commented", wait=LONG):
                self.assertEqual(hold.remaining, 0)
                with self.assertRaises(LockLost):
                    hold.check()


if __name__ == "__main__":
    unittest.main()
