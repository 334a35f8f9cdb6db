"""The native module against five real Redis servers. `clients/python/test` runs this with the installed wheel."""

import asyncio
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kit  # noqa: E402
import quorlock  # noqa: E402
from quorlock import ConfigError, Held, Locker, Lost, NamesHeld, NoPermit, NoQuorum, QuorlockError  # noqa: E402
from quorlock import SlotsDiffer  # noqa: E402

# No wait in here is meant to last so long; a loaded machine is.
LONG = 30
# For a loaded machine.
PATIENT = {"node_timeout": 0.15}


def setUpModule():
    global nodes, locker
    nodes = kit.Nodes()
    unittest.addModuleCleanup(nodes.stop)
    locker = Locker(nodes.urls, **PATIENT)


def until(is_so):
    start = time.monotonic()
    while not is_so():
        if time.monotonic() > start + LONG:
            raise AssertionError("it did not come about")
        time.sleep(0.01)


def program(script, *arguments):
    """Runs a program of its own that has a locker on the nodes; what it printed."""
    start = "import os, sys, time\nfrom quorlock import *\nlocker = Locker(sys.argv[1], node_timeout=0.15)\n"
    command = [sys.executable, "-c", start + script, nodes.urls, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG).stdout.strip()


class Holding(unittest.TestCase):
    def test_one_holds_it_and_the_other_learns_who(self):
        with locker.lock("one", ttl=20, owner="ann", reason="a test") as lease:
            lease.check()
            self.assertTrue(lease.is_held())
            self.assertFalse(lease.is_lost())
            self.assertTrue(10 < lease.remaining() <= 20)
            self.assertTrue(10 < lease.time_left() <= 20)
            self.assertAlmostEqual(lease.expires_at, time.time() + lease.remaining(), delta=1)
            self.assertEqual((lease.name, lease.names, lease.shared), ("one", ("one",), False))
            self.assertEqual((lease.slots, lease.value), ((), None))
            self.assertRegex(lease.token, "^[0-9a-f]{32}$")
            self.assertGreaterEqual(lease.votes, 3)
            self.assertIn("ann", lease.owner)
            with self.assertRaises(Held) as caught:
                locker.lock("one").try_acquire()
            held = caught.exception
            self.assertIn("ann", held.holder)
            self.assertIn("a test", str(held))
            self.assertEqual((held.lock, held.holder_fence), ("one", lease.fence))
            self.assertTrue(10 < held.remaining <= 20)
            self.assertNotIn(lease.token, repr(lease) + str(held))
        self.assertTrue(lease.is_lost())
        self.assertEqual(lease.remaining(), 0)
        with self.assertRaises(Lost) as caught:
            lease.check()
        self.assertEqual(caught.exception.reason, "released")
        locker.lock("one", wait=0).acquire().release()  # Free the moment that the block was left.

    def test_a_wait_is_bounded_and_can_be_a_timedelta(self):
        with locker.lock("bounded"):
            start = time.monotonic()
            with self.assertRaises(Held) as caught:
                locker.lock("bounded", wait=timedelta(milliseconds=300)).acquire()
            self.assertGreaterEqual(time.monotonic() - start, 0.29)
            self.assertGreaterEqual(caught.exception.waited, 0.29)
            with self.assertRaises(Held):
                locker.lock("bounded", wait=float("inf")).acquire(wait=0.1)

    def test_a_locker_can_be_one_that_never_waits(self):
        with locker.lock("impatient"), self.assertRaises(Held) as caught:
            Locker(nodes.urls, wait=0, **PATIENT).lock("impatient").acquire()
        self.assertLess(caught.exception.waited, 5)

    def test_a_release_says_what_became_of_it(self):
        lease = locker.lock("outcome").acquire()
        self.assertEqual(lease.release(), "released")
        self.assertEqual(lease.release(), "already_gone")

    def test_fences_grow(self):
        fences = []
        for _ in range(20):
            with locker.lock("fenced") as lease:
                fences.append(lease.fence)
        self.assertEqual(fences, sorted(set(fences)))

    def test_it_is_extended_in_the_background_and_by_hand(self):
        with locker.lock("kept", ttl=1) as lease:
            until(lambda: lease.time_left() < 0.8)
            until(lambda: lease.time_left() > 0.9)
        with locker.lock("by hand", ttl=1, watchdog=False) as lease:
            self.assertGreater(lease.extend(ttl=15), 10)
            self.assertGreater(lease.remaining(), 10)

    def test_a_dropped_lease_is_released(self):
        lease = locker.lock("dropped").acquire()
        del lease
        locker.lock("dropped", wait=LONG).acquire().release()

    def test_one_lock_serves_many_blocks(self):
        readers = locker.lock("readers", shared=True)
        with readers as one, readers as two:
            self.assertNotEqual(one.token, two.token)
            self.assertTrue(one.shared)
            with self.assertRaises(Held):
                locker.lock("readers").try_acquire()
        locker.lock("readers").try_acquire().release()

    def test_a_writer_becomes_a_reader(self):
        with locker.lock("downgraded") as lease:
            lease.downgrade()
            self.assertTrue(lease.shared)
            locker.lock("downgraded", shared=True, wait=LONG).acquire().release()

    def test_several_names_are_held_together_or_not_at_all(self):
        with locker.all(["b", "a"]) as lease:
            self.assertEqual(lease.names, ("a", "b"))
            with self.assertRaises(NamesHeld) as caught:
                locker.all(["b", "c"], wait=0).acquire()
            self.assertEqual([*caught.exception.holders], ["b"])
            self.assertIsInstance(caught.exception, Held)
        locker.lock("c").try_acquire().release()

    def test_a_semaphore_has_so_many_slots(self):
        gpus = locker.semaphore("gpu", 2)
        with gpus as one, gpus as two:
            self.assertEqual({one.slot, two.slot}, {0, 1})
            self.assertEqual(len(gpus.status()), 2)
            with self.assertRaises(NoPermit) as caught:
                gpus.try_acquire()
            self.assertEqual(caught.exception.slots, 2)
            with self.assertRaises(SlotsDiffer) as caught:
                locker.semaphore("gpu", 3).try_acquire()
            self.assertEqual(caught.exception.recorded, 2)
        with locker.semaphore("gpu", 2, permits=2) as both:
            self.assertEqual(both.slots, (0, 1))

    def test_one_candidate_leads_and_others_follow(self):
        election = locker.election("leader")
        self.assertIsNone(election.leader())
        leaders = election.observe()
        led = election.campaign("10.0.0.7:80")
        seen = next(leaders)
        self.assertEqual((seen.value, seen.term, led.value), ("10.0.0.7:80", led.term, "10.0.0.7:80"))
        self.assertEqual(election.leader(), seen)
        with self.assertRaises(Held):
            election.campaign("10.0.0.8:80", wait=0)
        led.release()
        self.assertIsNone(next(leaders))

    def test_what_nodes_store_can_be_seen_and_taken_away(self):
        self.assertFalse(locker.status("seen").held)
        with self.assertRaises(Lost), locker.lock("seen", owner="ann", reason="why") as lease:
            status = locker.status("seen")
            self.assertEqual((status.held, status.mode, status.quorum, len(status.nodes)), (True, "exclusive", 3, 5))
            self.assertEqual((status.holder.owner, status.holder.reason, status.holder.pid), ("ann", "why", os.getpid()))
            self.assertEqual((status.holder.fence, status.holder.token), (lease.fence, lease.token))
            self.assertNotIn(lease.token, repr(status))
            self.assertIn("seen", [status.name for status in locker.list().held])
            self.assertEqual(locker.force_release("seen", status.holder.token), "released")
        self.assertEqual(set(locker.health().values()), {None})

    def test_a_token_is_enough_to_extend_and_release(self):
        lease = locker.lock("token", ttl=2).acquire()
        self.assertGreater(locker.extend("token", lease.token, 15), 10)
        self.assertEqual(locker.release("token", lease.token), "released")

    def test_another_process_takes_it_over(self):
        lease = locker.lock("given").acquire()
        fence, handle = lease.fence, lease.give_away()
        self.assertTrue(lease.is_lost())
        said = program("lease = locker.adopt(sys.argv[2]); print(lease.fence, lease.release())", handle)
        self.assertEqual(said, f"{fence} released")

    def test_nodes_come_from_the_environment(self):
        before = os.environ.get("QUORLOCK_NODES")
        os.environ["QUORLOCK_NODES"] = nodes.urls
        try:
            Locker().lock("environment").try_acquire().release()
            del os.environ["QUORLOCK_NODES"]
            with self.assertRaisesRegex(ConfigError, "QUORLOCK_NODES is not set"):
                Locker()
        finally:
            os.environ.update({} if before is None else {"QUORLOCK_NODES": before})


    def test_one_machine_needs_no_server(self):
        with tempfile.TemporaryDirectory() as scratch:
            machine = Locker(f"file:{scratch}")
            with machine.lock("local") as lease:
                self.assertEqual(machine.status("local").holder.fence, lease.fence)
                with self.assertRaises(Held):
                    machine.lock("local").try_acquire()


class Errors(unittest.TestCase):
    def test_a_setting_that_cannot_be_used_is_refused_at_once(self):
        cases = [
            lambda: Locker([]),
            lambda: Locker(["http://a"]),
            lambda: Locker(["redis://a", "redis://a"]),
            lambda: Locker(nodes.urls, ttl=-1),
            lambda: Locker(nodes.urls, ttl=float("nan")),
            lambda: Locker(nodes.urls, ttl=3600),
            lambda: locker.lock(""),
            lambda: locker.all([]),
            lambda: locker.all(["twice", "twice"]),
            lambda: locker.semaphore("none", 0),
            lambda: locker.lock("x", ttl=3600).acquire(),
            lambda: locker.release("x", "no token"),
            lambda: locker.adopt("{}"),
        ]
        for number, case in enumerate(cases):
            with self.subTest(number), self.assertRaises(ConfigError) as caught:
                case()
            self.assertTrue(str(caught.exception), number)
            self.assertIsInstance(caught.exception, ValueError)
        for case in (lambda: Locker(nodes.urls, ttl="10"), lambda: locker.lock(7), lambda: Locker([7])):
            with self.assertRaises(TypeError):
                case()

    def test_nobody_there(self):
        lone = Locker(["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"])
        for case in (lone.lock("x", wait=0.2).acquire, lone.connect, lambda: lone.status("x"), lone.list):
            with self.assertRaises(NoQuorum) as caught:
                case()
            self.assertEqual(len(caught.exception.nodes), 3)
            self.assertIn("127.0.0.1:1", str(caught.exception))

    def test_errors_can_be_sent_to_another_process(self):
        with locker.lock("pickled") as lease, self.assertRaises(Held) as caught:
            locker.lock("pickled").try_acquire()
        copy = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(copy), copy.holder_fence), (str(caught.exception), lease.fence))

    def test_an_error_of_the_block_is_not_hidden(self):
        with self.assertRaises(KeyError), locker.lock("hidden") as lease:
            locker.force_release("hidden", lease.token)
            raise KeyError

    def test_control_c_ends_a_wait(self):
        # A shell starts its background jobs with SIGINT ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with locker.lock("interrupted"):
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            start = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                locker.lock("interrupted", wait=LONG).acquire()
            self.assertLess(time.monotonic() - start, LONG / 2)
        with locker.lock("interrupted", wait=LONG):
            pass

    def test_all_names_are_there(self):
        for name in quorlock.__all__:
            self.assertTrue(getattr(quorlock, name).__doc__, name)
        with self.assertRaises(AttributeError):
            quorlock.nothing
        package = Path(quorlock.__file__).parent
        self.assertTrue((package / "py.typed").exists() and (package / "_native.pyi").exists())
        self.assertTrue(issubclass(ConfigError, QuorlockError))


class Losses(unittest.TestCase):
    def test_it_is_lost_when_most_nodes_die(self):
        mortal = kit.Nodes()
        self.addCleanup(mortal.stop)
        ours = Locker(mortal.urls, **PATIENT)
        called = threading.Event()
        with self.assertRaises(Lost) as caught, ours.lock("mortal", ttl=2) as lease:
            lease.on_lost(called.set)
            self.assertFalse(lease.wait_lost(timeout=0.01))
            mortal.kill(2)
            time.sleep(2.5)
            lease.check()  # Two of five may fail.
            mortal.kill(1)
            self.assertTrue(lease.lost.wait(LONG))
            self.assertGreater(lease.time_left(), 0, "before the deadline")
            self.assertTrue(lease.is_lost())
            self.assertTrue(called.wait(LONG))
        self.assertIn(caught.exception.reason, ("quorum_lost", "expired"))
        with self.assertRaises(NoQuorum):
            ours.lock("mortal", wait=0.2).acquire()

    def test_a_release_is_no_loss(self):
        called = threading.Event()
        with locker.lock("no loss") as lease:
            lease.on_lost(called.set)
            lost = lease.lost
        self.assertTrue(lease.wait_lost(LONG))
        self.assertFalse(lost.is_set() or called.is_set())

    def test_the_longest_hold_ends(self):
        with self.assertRaises(Lost) as caught, locker.lock("longest", ttl=1, max_hold=0.5) as lease:
            self.assertTrue(lease.wait_lost(LONG))
            with self.assertRaises(Lost):
                lease.extend()
        self.assertEqual(caught.exception.reason, "max_hold")

    def test_python_that_computes_does_not_starve_the_watchdog(self):
        with locker.lock("busy", ttl=3) as lease:
            end = time.monotonic() + 4.5
            while time.monotonic() < end:
                sum(range(1000))
            lease.check()


class Crowds(unittest.TestCase):
    def test_a_hundred_threads_lose_no_update(self):
        """Each thread reads a number, waits, and writes it back one higher, under the lock."""
        with tempfile.TemporaryDirectory() as scratch:
            file, fences, failures = Path(scratch) / "number", [], []
            file.write_text("0")
            lock = locker.lock("crowd", wait=LONG)

            def count_up():
                try:
                    for _ in range(5):
                        with lock as lease:
                            before = int(file.read_text())
                            time.sleep(0.0001)
                            file.write_text(str(before + 1))
                            fences.append(lease.fence)
                except Exception as error:  # noqa: BLE001
                    failures.append(repr(error))

            threads = [threading.Thread(target=count_up) for _ in range(100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            self.assertEqual(failures[:5], [])
            self.assertEqual(file.read_text(), "500")
            self.assertEqual(fences, sorted(set(fences)), "every fence is above the one before")

    def test_threads_that_share_one_object_leave_their_own_blocks(self):
        readers, failures = locker.lock("many readers", shared=True, wait=LONG), []

        def read():
            try:
                for _ in range(10):
                    with readers as lease:
                        lease.check()
                        time.sleep(0.0005)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        threads = [threading.Thread(target=read) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(failures[:5], [])
        with self.assertRaises(RuntimeError):
            readers.__exit__(None, None, None)

    def test_the_gil_is_free_while_a_thread_waits(self):
        with locker.lock("waited for"):
            waiter = threading.Thread(target=lambda: self.assertRaises(Held, locker.lock("waited for", wait=0.5).acquire))
            waiter.start()
            steps = 0
            while waiter.is_alive():
                steps += 1
            waiter.join()
        self.assertGreater(steps, 10_000)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_it_is_held_while_the_block_runs(self):
        async with locker.lock("async", ttl=5) as lease:
            lease.check()
            with self.assertRaises(Held):
                await locker.lock("async").try_acquire_async()
            self.assertGreater(await lease.extend_async(20), 10)
            self.assertEqual((await locker.status_async("async")).holder.fence, lease.fence)
            self.assertIn("async", [status.name for status in (await locker.list_async()).held])
        self.assertEqual(await (await locker.lock("async").acquire_async()).release_async(), "released")

    async def test_a_hundred_tasks_lose_no_update(self):
        count, fences, lock = 0, [], locker.lock("tasks", wait=LONG)

        async def count_up():
            nonlocal count
            async with lock as lease:
                before = count
                await asyncio.sleep(0)
                count = before + 1
                fences.append(lease.fence)

        await asyncio.gather(*(count_up() for _ in range(100)))
        self.assertEqual(count, 100)
        self.assertEqual(fences, sorted(set(fences)))

    async def test_a_cancelled_task_gives_up_waiting(self):
        async with locker.lock("cancelled"):
            waiting = asyncio.create_task(locker.lock("cancelled", wait=LONG).acquire_async())
            await asyncio.sleep(0.1)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
        async with locker.lock("cancelled", wait=LONG):
            pass

    async def test_a_call_that_is_cancelled_at_any_moment_leaves_nothing(self):
        for number in range(50):
            task = asyncio.create_task(locker.lock("raced", wait=LONG).acquire_async())
            await asyncio.sleep(number / 20_000)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await task).release()
            del task
        async with locker.lock("raced", wait=LONG):
            pass

    async def test_work_is_cancelled_when_the_lock_is_lost(self):
        ended = []

        async def work(lease):
            try:
                await asyncio.sleep(LONG)
            finally:
                ended.append(lease.is_lost())

        with self.assertRaises(Lost):
            await locker.lock("run", ttl=1, max_hold=0.4).run(work)
        self.assertEqual(ended, [True])

        async def answer(lease):
            return lease.fence

        self.assertGreater(await locker.lock("run").run(answer), 0)
        locker.lock("run").try_acquire().release()

        running = asyncio.create_task(locker.lock("run").run(work))
        await asyncio.sleep(0.1)
        running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await running
        self.assertEqual(ended, [True, False], "the work ended before the release")
        locker.lock("run").try_acquire().release()

    async def test_a_loss_wakes_a_task(self):
        with contextlib.suppress(Lost):
            async with locker.lock("woken", ttl=1, max_hold=0.3) as lease:
                self.assertFalse(await lease.wait_lost_async(0.01))
                self.assertTrue(await lease.wait_lost_async())

    async def test_an_election_is_followed(self):
        election = locker.election("async leader")
        leaders = election.observe_async()
        led = await election.campaign_async("one")
        self.assertEqual((await leaders.__anext__()).term, led.term)
        self.assertEqual((await election.leader_async()).value, "one")
        await led.release_async()
        self.assertIsNone(await leaders.__anext__())
        await leaders.aclose()


class Processes(unittest.TestCase):
    def test_a_forked_process_uses_the_locker_but_not_the_lease(self):
        script = """
lease = locker.lock("forked", ttl=5).acquire()
child = os.fork()
if child == 0:
    held, lost = lease.is_held(), lease.is_lost()
    try:
        lease.check()
    except Lost as error:
        reason = error.reason
    outcome = lease.release()
    try:
        locker.lock("forked").try_acquire()
    except Held as error:
        pid = error.holder.rpartition("pid ")[2].rstrip(")")
    with locker.lock("child") as other:
        status = locker.status("child")
    print(held, lost, reason, outcome, pid == str(os.getppid()), status.holder.pid == os.getpid(), flush=True)
    del lease
    sys.exit()
_, code = os.waitpid(child, 0)
lease.check()
print(code, lease.extend() > 0, lease.release())
"""
        self.assertEqual(program(script).split("\n"), ["False True forked already_gone True True", "0 True released"])

    def test_forked_processes_draw_tokens_of_their_own(self):
        script = """
locker.lock("drawn").acquire().release()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        for _ in range(20):
            with locker.lock(f"drawn {os.getpid()}") as lease:
                os.write(1, lease.token.encode() + b"\\n")
        sys.exit()
    children.append(child)
print(*(os.waitpid(child, 0)[1] for child in children))
"""
        *tokens, codes = program(script).split("\n")
        self.assertEqual((len(set(tokens)), codes), (160, " ".join("0" * 8)))

    def test_a_lease_is_free_when_the_program_ends(self):
        program("lease = locker.lock('end', ttl=20).acquire()")
        locker.lock("end", wait=5).acquire().release()

    def test_an_event_loop_may_end_before_its_calls(self):
        script = """
import asyncio
async def main():
    asyncio.ensure_future(locker.lock("late", wait=30).acquire_async())
    await asyncio.sleep(0.001)
asyncio.run(main())
print(locker.lock("late", wait=30).acquire().release())
"""
        self.assertEqual(program(script), "released")

    def test_the_program_is_installed(self):
        installed = Path(sys.executable).parent / "quorlock"
        self.assertEqual(kit.PROGRAM, str(installed))
        command = [installed, "run", "installed", "--", "echo", "ours"]
        environment = {**os.environ, "QUORLOCK_NODES": nodes.urls}
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "ours\n")


if __name__ == "__main__":
    unittest.main()
