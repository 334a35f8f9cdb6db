// Command storm puts a Go library behind the protocol of a storm's client; see peers/README.md.
//
// usage: storm redsync|rueidislock ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// order is what the harness asks for.
type order struct {
	id          string
	resource    string
	ttl         time.Duration
	nodeTimeout time.Duration
	wait        time.Duration
	urls        []string
}

// library acquires locks with the retries of a lock library.
type library interface {
	// acquire returns nil if the library gave up.
	acquire(name string) lock
}

// lock is a lock that the library says is held.
type lock interface {
	// left is how long it is still held by the library's own account.
	left() time.Duration
	// extend is true if the lock was extended. A library that keeps its locks alive has nothing to do.
	extend() bool
	release()
}

// unlimited is the validity of a lock that the library keeps until it is released or reported as lost.
const unlimited = 24 * time.Hour

var names = []string{"a", "b", "c"}

const recoveryLimit = 60 * time.Second

var isRecovering atomic.Bool

func main() {
	if len(os.Args) < 9 {
		fmt.Fprintln(os.Stderr, "usage: storm LIBRARY ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...")
		os.Exit(2)
	}
	words := os.Args[2:]
	o := order{
		id: words[0], resource: words[2], ttl: millis(words[3]), nodeTimeout: millis(words[4]), wait: millis(words[5]),
		urls: words[6:],
	}
	seed, err := strconv.ParseUint(words[1], 10, 64)
	check(err)
	go followOrders()
	client := &client{order: o, random: rand.New(rand.NewSource(int64(seed))), values: open(o.resource)}
	switch os.Args[1] {
	case "redsync":
		client.library = newRedsync(o)
	case "rueidislock":
		client.library = newRueidis(o)
	default:
		fmt.Fprintln(os.Stderr, "unknown library", os.Args[1])
		os.Exit(2)
	}
	for !isRecovering.Load() {
		client.cycle(names[client.random.Intn(len(names))])
	}
	for _, name := range names {
		client.recover(name)
	}
	report("done")
	select {}
}

// followOrders ends the process with its input.
func followOrders() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		isRecovering.Store(true)
	}
	os.Exit(0)
}

type client struct {
	order
	library library
	random  *rand.Rand
	values  *resource
	writes  int
}

func (c *client) cycle(name string) {
	if held := c.acquire(name); held != nil {
		c.workUnder(name, held)
		c.release(held)
	}
	time.Sleep(c.upTo(10 * time.Millisecond))
}

func (c *client) acquire(name string) lock {
	called := now()
	report("calling acquire %d", called)
	held := c.library.acquire(name)
	report("returned %d", now())
	if held == nil {
		report("refused")
		return nil
	}
	// Read before what is left, so that a pause between makes the time shorter and never longer.
	noted := now()
	report("granted %s 0 - %d %d %d", name, called, noted, noted+max(held.left().Microseconds(), 0))
	return held
}

// workUnder reads, thinks, writes, again and again, while the library says that the lock is held.
// Mostly short; now and then beyond the ttl.
func (c *client) workUnder(name string, held lock) {
	longest, step := 15*time.Millisecond, 5*time.Millisecond
	if c.random.Intn(100) < 2 {
		longest, step = 2*c.ttl, 80*time.Millisecond
	}
	until := time.Now().Add(time.Millisecond + c.upTo(longest))
	for time.Now().Before(until) && held.left() > 0 {
		parent := c.values.read(name)
		time.Sleep(c.upTo(step))
		if held.left() <= 0 {
			// It writes all the same: a program cannot check and write in one step.
			report("late")
		}
		c.writes++
		c.values.write(name, fmt.Sprintf("%s.%d", c.id, c.writes), parent)
		if time.Now().Before(until) && held.left() < c.ttl/2 {
			report("calling extend %d", now())
			isExtended := held.extend()
			report("returned %d", now())
			if noted := now(); isExtended {
				report("extended %d %d", noted, noted+max(held.left().Microseconds(), 0))
			}
		}
	}
}

func (c *client) release(held lock) {
	report("releasing %d %t", now(), held.left() <= 0)
	report("calling release %d", now())
	held.release()
	report("returned %d", now())
}

func (c *client) recover(name string) {
	start := time.Now()
	held := c.acquire(name)
	for held == nil && time.Since(start) < recoveryLimit {
		held = c.acquire(name)
	}
	report("recovered %s %t", name, held != nil)
	if held != nil {
		c.release(held)
	}
}

func (c *client) upTo(most time.Duration) time.Duration {
	return time.Duration(c.random.Int63n(int64(most) + 1))
}

var output sync.Mutex

func report(format string, words ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", words...)
}

// now is the monotonic clock in microseconds: the same in all processes of a machine.
func now() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano() / 1000
}

func millis(text string) time.Duration {
	number, err := strconv.Atoi(text)
	check(err)
	return time.Duration(number) * time.Millisecond
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
