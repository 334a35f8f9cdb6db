package quorlock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Clients that stand still, and sidecars and nodes that fail: nobody counts on a lock that is over.

var callers = map[string]func(*Client){
	"takes": func(at *Client) {
		lease := must(at.Acquire(ctx, "late", TTL(2*time.Second), Wait(60*time.Second)))
		fmt.Println(lease.Context().Err() != nil, lease.Remaining(), CodeOf(lease.Check()))
	},
	"holds": func(at *Client) {
		hold := must(at.Hold(ctx, "stale", TTL(4*time.Second)))
		fmt.Println("held")
		bufio.NewReader(os.Stdin).ReadString('\n')
		isHeldByContext := hold.Context().Err() == nil
		passed := 0
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
			if hold.Check() == nil {
				passed++
			}
		}
		fmt.Println(isHeldByContext, passed, hold.Remaining(), CodeOf(context.Cause(hold.Context())))
	},
	"waits for ever": func(at *Client) {
		must(at.Hold(ctx, "killed", TTL(30*time.Second)))
		fmt.Println("held")
		time.Sleep(time.Hour)
	},
}

func TestALeaseThatEndedBeforeItsAnswerWasReadHasNoTimeLeft(t *testing.T) {
	first := must(client.Acquire(ctx, "late", TTL(20*time.Second)))
	caller := newCaller(t, "takes", sidecar.url)
	untilWaits(t, client, "late")
	caller.pause(t)
	must(first.Release(ctx))
	until(t, func() bool { return must(client.Status(ctx, "late")).Fence > first.Fence() })
	second := must(client.Acquire(ctx, "late", TTL(20*time.Second), Wait(long)))
	caller.resume()
	equal(t, caller.line(), "true 0s lost")
	ok(t, second.Check())
	must(second.Release(ctx))
}

func TestALeaseHasTheTimeThatItHasAfterAWait(t *testing.T) {
	first := must(client.Acquire(ctx, "waited", TTL(3*time.Second)))
	if left := first.Remaining(); left < 2*time.Second || left > 3*time.Second {
		t.Fatal(left)
	}
	second := must(client.Acquire(ctx, "waited", TTL(20*time.Second), Wait(long)))
	if left := second.Remaining(); left < 18*time.Second || left > 20*time.Second {
		t.Fatal(left)
	}
	untilLost(t, first)
	must(second.Release(ctx))
}

func TestASidecarWithAnotherBootClockServesAsWell(t *testing.T) {
	far := New(newRecorder(t, sidecar.url, otherBootClock).url)
	first := must(far.Acquire(ctx, "far", TTL(2*time.Second)))
	second := must(far.Acquire(ctx, "far", TTL(20*time.Second), Wait(long)))
	untilLost(t, first)
	if left := second.Remaining(); left < 18*time.Second || left > 20*time.Second {
		t.Fatal(left)
	}
	hold := must(far.Hold(ctx, "far-hold", TTL(4*time.Second)))
	time.Sleep(5 * time.Second)
	ok(t, hold.Check())
	if left := hold.Remaining(); left > 4*time.Second {
		t.Fatal(left)
	}
	hold.Release(ctx)
	must(second.Release(ctx))
}

func TestClocksOfTwoMachinesMayRunApart(t *testing.T) {
	now := 1000 * time.Second
	asked := now - 100*time.Second
	said := times{RequestAgeMs: 100_000, RemainingMs: 5_000, DeadlineBootMs: (asked + 105*time.Second).Milliseconds() + 1}
	equal(t, said.deadline(asked, now), asked+105*time.Second)
	// A thousandth of the time that was measured on two clocks.
	said.DeadlineBootMs = 9_000_000_000
	equal(t, said.deadline(asked, now), asked+105*time.Second-100*time.Millisecond)
	// What no sidecar says is no time.
	said = times{RequestAgeMs: -1, RemainingMs: -5, DeadlineBootMs: -1 << 63}
	equal(t, said.deadline(asked, now), asked)
}

func TestTheClockGoesOnWhileTheMachineSleeps(t *testing.T) {
	var clock longerClock
	equal(t, clock.read(5*time.Second, 1000*time.Second), 5*time.Second)
	equal(t, clock.read(6*time.Second, 1001*time.Second), 6*time.Second)
	// Only the calendar went on: the machine slept.
	equal(t, clock.read(7*time.Second, 1062*time.Second), 67*time.Second)
	// The calendar was set back.
	equal(t, clock.read(8*time.Second, 500*time.Second), 68*time.Second)
	equal(t, clock.read(9*time.Second, 561*time.Second), 129*time.Second)
	if first := bootTime(); bootTime() < first || first <= 0 {
		t.Fatal("the clock goes on")
	}
}

func TestAMachineThatSleptOverTheDeadlineIsToldSoonAfterItWakes(t *testing.T) {
	slept := New(sidecar.url)
	hold := must(slept.Hold(ctx, "slept", TTL(30*time.Second)))
	lease := must(slept.Acquire(ctx, "slept too", TTL(30*time.Second)))
	// The clock of the machine went on for an hour, and that of timers did not.
	hold.mutex.Lock()
	lease.mutex.Lock()
	slept.now = func() time.Duration { return bootTime() + time.Hour }
	hold.mutex.Unlock()
	lease.mutex.Unlock()
	start := time.Now()
	untilLost(t, hold)
	untilLost(t, lease)
	if time.Since(start) > 6*time.Second {
		t.Fatal("too late")
	}
}

func TestAnEventThatWasReadLateExtendsNothing(t *testing.T) {
	frozen := newSidecar(t, nodes.urls)
	recorded := newRecorder(t, frozen.url, nil)
	caller := newCaller(t, "holds", recorded.url)
	equal(t, caller.line(), "held")
	caller.pause(t)
	extensions := func() int { return strings.Count(recorded.hasAnswered(), "event: extended") }
	before := extensions()
	until(t, func() bool { return extensions() > before })
	frozen.signal(syscall.SIGSTOP)
	next := must(client.Hold(ctx, "stale", Wait(long)))
	caller.tell("go on")
	caller.resume()
	equal(t, caller.line(), "false 0 0s lost")
	ok(t, next.Check())
	next.Release(ctx)
}

func TestAHoldIsLostWhenItsLastDeadlineIsOverEvenIfCommentsCome(t *testing.T) {
	between := newWires(t, 3)
	frozen := newSidecar(t, between.urls)
	recorded := newRecorder(t, frozen.url, nil)
	hold := must(New(recorded.url).Hold(ctx, "commented", TTL(6*time.Second)))
	between.cut()
	until(t, func() bool {
		said := recorded.hasAnswered()
		return strings.Count(said[max(strings.LastIndex(said, "event: extended"), 0):], ": alive\n") >= 2
	})
	frozen.signal(syscall.SIGSTOP)
	next := must(client.Hold(ctx, "commented", Wait(long)))
	if hold.Context().Err() == nil {
		t.Fatal("another has it")
	}
	untilLost(t, hold)
	next.Release(ctx)
}

func TestItIsLostWhenMostNodesDie(t *testing.T) {
	mortal := startNodes()
	t.Cleanup(mortal.stop)
	caller := New(newSidecar(t, mortal.urls).url)
	lease := must(caller.Hold(ctx, "mortal", TTL(4*time.Second)))
	mortal.kill(2)
	time.Sleep(time.Second)
	ok(t, lease.Check()) // Two of five may fail.
	mortal.kill(1)
	untilLost(t, lease)
	_, err := caller.Acquire(ctx, "mortal")
	equal(t, len(as[*NoQuorumError](t, err).Nodes), 5)
}

func TestASidecarThatEndsIsNoticed(t *testing.T) {
	for number, reason := range map[syscall.Signal]string{syscall.SIGKILL: "sidecar", syscall.SIGTERM: "shut down"} {
		mortal := newSidecar(t, nodes.urls)
		caller := New(mortal.url)
		lease := must(caller.Hold(ctx, "orphan", TTL(4*time.Second), Wait(long)))
		start := time.Now()
		mortal.signal(number)
		untilLost(t, lease)
		if time.Since(start) > 10*time.Second || !strings.Contains(lease.Check().Error(), reason) {
			t.Fatal(time.Since(start), lease.Check())
		}
		_, err := lease.Release(ctx)
		lostBy(t, err)
		mortal.command.Wait()
		_, err = caller.Acquire(ctx, "orphan")
		as[*UnreachableError](t, err)
		must(must(client.Hold(ctx, "orphan", Wait(long))).Release(ctx)) // Free after its ttl, or at once.
	}
}

func TestAFrozenSidecarIsGivenUpBeforeOthersHaveTheLock(t *testing.T) {
	frozen := newSidecar(t, nodes.urls)
	lease := must(New(frozen.url).Hold(ctx, "frozen", TTL(2*time.Second)))
	given := make(chan time.Time, 1)
	context.AfterFunc(lease.Context(), func() { given <- time.Now() })
	frozen.signal(syscall.SIGSTOP)
	next := must(client.Hold(ctx, "frozen", Wait(long)))
	had := time.Now()
	if !(<-given).Before(had) {
		t.Fatal("the signal comes before another has the lock")
	}
	untilLost(t, lease)
	if next.Fence() <= lease.Fence() {
		t.Fatal("fences rise")
	}
	next.Release(ctx)
}

func TestAFrozenSidecarDoesNotHoldUpARelease(t *testing.T) {
	frozen := newSidecar(t, nodes.urls)
	caller := New(frozen.url, WithTimeout(time.Second))
	hold := must(caller.Hold(ctx, "stuck", TTL(20*time.Second)))
	lease := must(caller.Acquire(ctx, "stuck too", TTL(20*time.Second)))
	frozen.signal(syscall.SIGSTOP)
	outcome, err := hold.Release(ctx)
	ok(t, err)
	equal(t, outcome, Unconfirmed)
	outcome, err = lease.Release(ctx)
	equal(t, outcome, Unconfirmed)
	as[*UnreachableError](t, err)
}

func TestAKilledHolderFreesItAtOnce(t *testing.T) {
	caller := newCaller(t, "waits for ever", sidecar.url)
	equal(t, caller.line(), "held")
	caller.stop()
	start := time.Now()
	must(must(client.Hold(ctx, "killed", Wait(long))).Release(ctx))
	if time.Since(start) > 10*time.Second {
		t.Fatal("far below the ttl of 30 s")
	}
}

func TestTheLimitsOfTheSidecarHaveTheirOwnErrors(t *testing.T) {
	caller := New(newSidecar(t, nodes.urls, "--max-waiters", "1", "--max-new-names", "1").url)
	lease := must(caller.Hold(ctx, "limited"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		must(must(caller.Hold(ctx, "limited", Wait(long))).Release(ctx))
	}()
	untilWaits(t, caller, "limited")
	_, err := caller.Acquire(ctx, "limited", Wait(time.Second))
	hasCode(t, err, TooManyWaiters)
	lease.Release(ctx)
	<-done
	for number := 0; number < 200; number++ {
		_, err = caller.Acquire(ctx, fmt.Sprintf("limited-%d", number), TTL(time.Second))
		// On a loaded machine nodes may be too slow now and then.
		if code := CodeOf(err); code != "" && code != NoQuorum && code != TooSlow {
			break
		}
	}
	hasCode(t, err, TooManyNames)
}
