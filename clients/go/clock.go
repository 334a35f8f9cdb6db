package quorlock

import (
	"sync"
	"time"
)

const (
	// The clocks of two machines may run apart by this much of the time that they measure. A sidecar belongs on the
	// machine of its callers; on another a hold ends for us after about a thousand ttls.
	driftDivisor = 1000
	// How far apart two readings of one clock may seem to be, as the sidecar rounds to milliseconds.
	rounding = 10 * time.Millisecond
	// No time that a sidecar names is longer.
	longestTime = 366 * 24 * time.Hour
	// A lease ends this part of its ttl before its deadline, and not more than mostEarly before it.
	earlyDivisor = 20
	mostEarly    = 250 * time.Millisecond
)

// times is what a lease or an event says of its end.
type times struct {
	RemainingMs    int64 `json:"remaining_ms"`
	RequestAgeMs   int64 `json:"request_age_ms"`
	DeadlineBootMs int64 `json:"deadline_boot_ms"`
}

// deadline is when a lock ends on our clock. It is never later than the real end, however late we read what the sidecar
// said: we sent the request at asked, the sidecar got it after that, and counted the rest when it was so old.
func (t times) deadline(asked, now time.Duration) time.Duration {
	age, left := bounded(t.RequestAgeMs), bounded(t.RemainingMs)
	arrived := time.Duration(t.DeadlineBootMs)*time.Millisecond - left - age
	// On our own clock, the request arrived between our sending it and our reading of what was said.
	if isOurClock := asked-rounding <= arrived && arrived <= now-age+rounding; !isOurClock {
		age -= age / driftDivisor
	}
	return asked + age + left
}

// early is how long before its deadline a lease ends.
func early(ttl time.Duration) time.Duration { return min(ttl/earlyDivisor, mostEarly) }

// bounded is that many milliseconds, and never so many that sums overflow.
func bounded(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), int64(longestTime/time.Millisecond))) * time.Millisecond
}

// longerClock is one that may stand still while the machine sleeps, put forward whenever the calendar has leapt ahead of
// it. It never goes back.
type longerClock struct {
	mutex     sync.Mutex
	isRunning bool
	ahead     time.Duration
	slept     time.Duration
}

// The calendar has leapt if it gained so much between two readings; less is the grain of both clocks.
const leap = 50 * time.Millisecond

var processStart = time.Now()

func (c *longerClock) now() time.Duration {
	now := time.Now()
	return c.read(now.Sub(processStart), time.Duration(now.UnixNano()))
}

func (c *longerClock) read(monotonic, calendar time.Duration) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	ahead := calendar - monotonic
	if gained := ahead - c.ahead; c.isRunning && gained > leap {
		c.slept += gained
	}
	c.ahead, c.isRunning = ahead, true
	return monotonic + c.slept
}
