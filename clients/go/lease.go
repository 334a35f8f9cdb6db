package quorlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// The sidecar says something every 5 s while a lock is held. Silence for longer means that it is gone.
	silence = 15 * time.Second
	// Timers stand still while the machine sleeps, so the deadline is looked at once a second.
	longestTimer = time.Second
	// Why a lease is lost whose time is over.
	over = "its time ran out and it was not extended"
)

// Lease is a lock that is ours, until its [Lease.Context] ends. It is safe to share.
type Lease struct {
	client  *Client
	handle  Handle
	mode    string
	ttl     time.Duration
	context leaseContext
	cancel  context.CancelCauseFunc
	// stream is that of a hold; nil for a lease by token.
	stream *stream

	mutex sync.Mutex
	fence uint64
	// When it ends on our clock.
	end        time.Duration
	timer      *time.Timer
	quiet      time.Duration
	lost       *LostError
	isReleased bool

	release sync.Once
	outcome Outcome
}

// granted is a lease as the sidecar tells it.
type granted struct {
	times
	Token string   `json:"token"`
	Fence uint64   `json:"fence"`
	TTLMs int64    `json:"ttl_ms"`
	Mode  string   `json:"mode"`
	Names []string `json:"names"`
	Slot  *int     `json:"slot"`
	Value string   `json:"value"`
}

func newLease(ctx context.Context, c *Client, name string, said *granted, asked time.Duration, held *stream) *Lease {
	lease := &Lease{client: c, mode: said.Mode, fence: said.Fence, stream: held, ttl: bounded(said.TTLMs)}
	lease.handle = Handle{Name: name, Token: said.Token, Names: said.Names, Slot: said.Slot}
	if held == nil {
		// It was taken by token, and outlives the call.
		ctx = context.WithoutCancel(ctx)
	}
	inner, cancel := context.WithCancelCause(ctx)
	lease.context, lease.cancel = leaseContext{inner, lease}, cancel
	lease.mutex.Lock()
	defer lease.mutex.Unlock()
	lease.end = said.deadline(asked, c.now()) - early(lease.ttl)
	lease.timer = time.AfterFunc(lease.untilNextLook(), lease.watch)
	return lease
}

// Name is that of the lock, the first one of several.
func (l *Lease) Name() string { return l.handle.Name }

// Names are all that are held together; just one, unless there are several.
func (l *Lease) Names() []string {
	if len(l.handle.Names) == 0 {
		return []string{l.handle.Name}
	}
	return append([]string(nil), l.handle.Names...)
}

// Slot is that of a permit, from 0; -1 for a lock.
func (l *Lease) Slot() int {
	if l.handle.Slot == nil {
		return -1
	}
	return *l.handle.Slot
}

// Mode is "exclusive" or "shared", or empty if the sidecar did not tell.
func (l *Lease) Mode() string { return l.mode }

// Fence increases with every holder: send it with every write, and let what the lock protects refuse smaller ones. It is
// 0 if the lease was extended by a sidecar that did not hand it out, and too few nodes told it.
func (l *Lease) Fence() uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.fence
}

// Handle is what another process needs to extend or release the lease. It contains the token.
func (l *Lease) Handle() Handle { return l.handle }

// String names the lock and its fence, and not the token.
func (l *Lease) String() string {
	return fmt.Sprintf("lease of lock %q, fence %d", l.Name(), l.Fence())
}

// GoString is the same as String.
func (l *Lease) GoString() string { return l.String() }

// Context ends before the deadline, when the lock is lost, or when it is released. context.Cause then gives a *[LostError]
// or [ErrReleased], and for a hold also the cause of the end of the context that it was given.
func (l *Lease) Context() context.Context { return l.context }

// Remaining is for how long the lock is ours, even if the sidecar says no more; never below 0. It is counted from before
// the request, however late the answer was read.
func (l *Lease) Remaining() time.Duration {
	l.look()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lost != nil || l.isReleased {
		return 0
	}
	return max(0, l.end-l.client.now())
}

// Check fails with a [LostError] if the lock is not ours any more, or with [ErrReleased]. Call it before every step that
// must not go wrong.
func (l *Lease) Check() error {
	l.look()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lost != nil {
		return l.lost
	}
	if l.isReleased {
		return ErrReleased
	}
	return nil
}

// Extend keeps the lock for one ttl from now: that of [TTL], else that of the last time. It fails with a [LostError] if
// the lock is lost. After any other error the lease goes on until its deadline. A hold needs no Extend, as the sidecar
// keeps it: Extend then is the same as [Lease.Check].
func (l *Lease) Extend(ctx context.Context, options ...Option) error {
	if err := l.Check(); err != nil || l.stream != nil {
		return err
	}
	said, asked, err := l.client.extend(ctx, l.handle, options)
	if gone := new(LostError); errors.As(err, &gone) {
		l.lose(gone)
		return l.Check()
	}
	if err != nil {
		return err
	}
	l.keep(said.times, asked, bounded(said.TTLMs))
	l.mutex.Lock()
	if said.Fence != 0 {
		l.fence = said.Fence
	}
	l.mutex.Unlock()
	return l.Check()
}

// Release lets go, and waits until the sidecar has done so. If ctx is over already, it waits two seconds at most. A lease
// that was lost gives a [LostError]. A lease that was released gives the same outcome again.
func (l *Lease) Release(ctx context.Context) (Outcome, error) {
	l.look()
	l.mutex.Lock()
	if l.lost != nil {
		defer l.mutex.Unlock()
		return Unconfirmed, l.lost
	}
	l.isReleased = true
	l.timer.Stop()
	l.mutex.Unlock()
	l.cancel(ErrReleased)
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoTime)
		defer cancel()
		ctx = late
	}
	var err error
	l.release.Do(func() {
		if l.stream != nil {
			l.outcome, err = l.letGo(ctx)
		} else {
			l.outcome, err = l.client.Release(ctx, l.handle)
		}
		if err != nil {
			l.outcome = Unconfirmed
		}
	})
	return l.outcome, err
}

// look finds out whether the time is over.
func (l *Lease) look() {
	l.mutex.Lock()
	isOver := l.end <= l.client.now()
	l.mutex.Unlock()
	if isOver {
		l.lose(lostError(l.Name(), over))
	}
}

// watch runs now and then as long as the lease lasts.
func (l *Lease) watch() {
	l.look()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lost != nil || l.isReleased {
		return
	}
	next := l.untilNextLook()
	// Counted in looks: a pause of this process is no silence of the sidecar.
	if l.quiet += next; l.stream != nil && l.quiet > silence+longestTimer {
		go l.lose(lostError(l.Name(), "the sidecar is silent"))
		return
	}
	l.timer.Reset(next)
}

func (l *Lease) untilNextLook() time.Duration {
	return max(min(l.end-l.client.now(), longestTimer), 0)
}

func (l *Lease) heard() {
	l.mutex.Lock()
	l.quiet = 0
	l.mutex.Unlock()
}

// keep moves the end to what the sidecar said.
func (l *Lease) keep(said times, asked, ttl time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ttl = ttl
	l.end = said.deadline(asked, l.client.now()) - early(ttl)
	if l.lost == nil && !l.isReleased {
		l.timer.Reset(l.untilNextLook())
	}
}

func (l *Lease) lose(why *LostError) {
	l.mutex.Lock()
	isFirst := l.lost == nil && !l.isReleased
	if isFirst {
		l.lost = why
		l.timer.Stop()
	}
	l.mutex.Unlock()
	if !isFirst {
		return
	}
	l.cancel(why)
	if l.stream != nil {
		l.stream.line.Close()
	}
}

// loss is nil, or why the lease was lost.
func (l *Lease) loss() error {
	if err := l.Check(); err != ErrReleased {
		return err
	}
	return nil
}

// follow reads the stream of a hold until the lock is lost or let go.
func (l *Lease) follow(told *events) {
	reason := "the sidecar ended the connection"
	for {
		kind, data, err := told.next()
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				reason = "the connection to the sidecar broke: " + err.Error()
			}
			break
		}
		if kind == "extended" {
			var said times
			if err := json.Unmarshal(data, &said); err == nil {
				l.keep(said, l.stream.asked, l.ttl)
			}
			continue
		}
		if kind == "lost" {
			var said struct {
				Reason string `json:"reason"`
			}
			json.Unmarshal(data, &said)
			reason = said.Reason
			break
		}
		if kind == "shutdown" {
			reason = "the sidecar shut down and let go of it"
			break
		}
	}
	close(l.stream.ended)
	l.lose(lostError(l.Name(), reason))
	l.stream.line.Close()
}

// leaseContext looks at the clock whenever it is asked, so that it is right at once after a pause.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c leaseContext) Err() error {
	c.lease.look()
	return c.Context.Err()
}

func (c leaseContext) Done() <-chan struct{} {
	c.lease.look()
	return c.Context.Done()
}
