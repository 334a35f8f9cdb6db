package quorlock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"
)

const (
	defaultTimeout  = 10 * time.Second
	defaultHoldWait = 10 * time.Second
	// How long a candidate campaigns at most with one request.
	longestWait = time.Hour
)

// Client knows where the sidecar is, and who asks. It is cheap, has nothing to close, and is safe to share.
type Client struct {
	address    address
	badAddress error
	token      string
	owner      string
	timeout    time.Duration
	tls        *tls.Config
	now        func() time.Duration
}

// New is a client of the sidecar at "http://127.0.0.1:7420" or "unix:/run/quorlock.sock". If url is empty, QUORLOCK_SIDECAR
// names it. New does not connect; calls of a client with an address that names no sidecar fail with [BadAddress].
func New(url string, options ...ClientOption) *Client {
	client := &Client{timeout: defaultTimeout, token: os.Getenv("QUORLOCK_SIDECAR_TOKEN"), now: bootTime}
	for _, option := range options {
		option(client)
	}
	if url == "" {
		url = os.Getenv("QUORLOCK_SIDECAR")
	}
	if url == "" {
		url = defaultURL
	}
	client.address, client.badAddress = parseAddress(url, client.tls)
	return client
}

// String names the sidecar, and not the token.
func (c *Client) String() string { return "quorlock sidecar at " + c.address.text }

// GoString is the same as String.
func (c *Client) GoString() string { return c.String() }

// Hold waits for the lock, and holds it until [Lease.Release] or the end of ctx. The sidecar keeps it alive while this
// process lives, and frees it when the process is gone.
//
// It fails with a [HeldError], [NoQuorumError], [UnreachableError] or [Error], or with the error of ctx.
func (c *Client) Hold(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return c.hold(ctx, name, options, true)
}

func (c *Client) hold(ctx context.Context, name string, options []Option, isBound bool) (*Lease, error) {
	wanted := c.wanted(defaultHoldWait, options)
	path := pathOf("locks", name, "/hold?", wanted.query().Encode())
	return c.open(ctx, name, path, c.timeoutOf(wanted), isBound)
}

// HoldAll is [Client.Hold] for 1 to 16 names together, with one fence: all or none. Their order does not matter.
func (c *Client) HoldAll(ctx context.Context, names []string, options ...Option) (*Lease, error) {
	if len(names) == 0 {
		return nil, &Error{Code: BadRequest, Detail: "give 1 to 16 names"}
	}
	return c.Hold(ctx, names[0], append(options[:len(options):len(options)], Names(names[1:]...))...)
}

// Semaphore is [Client.Hold] for a permit, of which there are so many as slots. All clients must give the same number.
func (c *Client) Semaphore(ctx context.Context, name string, slots int, options ...Option) (*Lease, error) {
	return c.Hold(ctx, name, append(options[:len(options):len(options)], Slots(slots))...)
}

// With runs work while it holds the lock. The context of work is that of the lease: it ends before the lock is lost.
// When ctx ends, so does that context, but the lock is kept until work returns.
//
// With gives the error of work, and a [LostError] if the lock was lost meanwhile (errors.As finds both).
func (c *Client) With(ctx context.Context, name string, work func(context.Context, *Lease) error, options ...Option) error {
	lease, err := c.hold(ctx, name, options, false)
	if err != nil {
		return err
	}
	defer lease.Release(ctx) // Also if the work panics.
	if err = work(lease.Context(), lease); err != nil {
		return errors.Join(err, lease.loss())
	}
	_, err = lease.Release(ctx)
	return err
}

// Acquire takes the lock for one ttl. Extend it in time, and release it: it does not end with this process. ctx bounds
// only the waiting, for which you also give [Wait]; without it a lock that is held is refused at once.
func (c *Client) Acquire(ctx context.Context, name string, options ...Option) (*Lease, error) {
	wanted := c.wanted(0, options)
	var said granted
	asked, err := c.ask(ctx, http.MethodPost, pathOf("locks", name, "/acquire"), name, wanted, c.timeoutOf(wanted), &said)
	if err != nil {
		return nil, err
	}
	lease := newLease(ctx, c, name, &said, asked, nil)
	if err := ctx.Err(); err != nil {
		// Nobody waits for it any more.
		lease.Release(ctx)
		return nil, err
	}
	return lease, nil
}

// Handle is what [Client.Extend] and [Client.Release] need of a lease, in this or another process.
type Handle struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	// Names are all that the lease covers, if there are several.
	Names []string `json:"names,omitempty"`
	// Slot is that of a permit.
	Slot *int `json:"slot,omitempty"`
}

// String names the lock, and not the token.
func (h Handle) String() string { return "handle of lock " + h.Name }

// GoString is the same as String.
func (h Handle) GoString() string { return h.String() }

// body is what a call with a token sends. Another sidecar than the one that gave the lease needs what it covers.
func (h Handle) body(ttl *int64) any {
	var others []string
	for _, name := range h.Names {
		if name != h.Name {
			others = append(others, name)
		}
	}
	return struct {
		Token string   `json:"token"`
		TTLMs *int64   `json:"ttl_ms,omitempty"`
		Names []string `json:"names,omitempty"`
		Slot  *int     `json:"slot,omitempty"`
	}{h.Token, ttl, others, h.Slot}
}

// Extend keeps a lease for one ttl from now, also one that another process took. Of options only [TTL] matters; without
// it, it is that of the last time. It fails with a [LostError] if the lock is not held under that token.
func (c *Client) Extend(ctx context.Context, handle Handle, options ...Option) (*Lease, error) {
	said, asked, err := c.extend(ctx, handle, options)
	if err != nil {
		return nil, err
	}
	return newLease(ctx, c, handle.Name, said, asked, nil), nil
}

func (c *Client) extend(ctx context.Context, handle Handle, options []Option) (*granted, time.Duration, error) {
	said, wanted := &granted{}, c.wanted(0, options)
	path := pathOf("locks", handle.Name, "/extend")
	asked, err := c.ask(ctx, http.MethodPost, path, handle.Name, handle.body(wanted.TTLMs), c.timeout, said)
	return said, asked, err
}

// Outcome says how a release ended.
type Outcome string

const (
	// Released: a majority of nodes confirmed it.
	Released Outcome = "released"
	// Unconfirmed: too few nodes answered. The lock is free when its ttl is over, if not before.
	Unconfirmed Outcome = "unconfirmed"
)

// Release lets go of a lease, also of one that another process took. It fails with a [LostError] if it was gone.
func (c *Client) Release(ctx context.Context, handle Handle) (Outcome, error) {
	return c.release(ctx, handle, "/release")
}

// ForceRelease takes the lock away from who holds it under that token, which [Client.Status] shows to scope `write`.
func (c *Client) ForceRelease(ctx context.Context, handle Handle) (Outcome, error) {
	return c.release(ctx, handle, "/force-release")
}

func (c *Client) release(ctx context.Context, handle Handle, verb string) (Outcome, error) {
	var said struct {
		Outcome Outcome `json:"outcome"`
	}
	_, err := c.ask(ctx, http.MethodPost, pathOf("locks", handle.Name, verb), handle.Name, handle.body(nil), c.timeout, &said)
	if err == nil && said.Outcome != Released {
		return Unconfirmed, nil
	}
	return said.Outcome, err
}

// Status says who holds the lock, also if nobody does.
func (c *Client) Status(ctx context.Context, name string) (*LockView, error) {
	found := &LockView{}
	_, err := c.ask(ctx, http.MethodGet, pathOf("locks", name), name, nil, c.timeout, found)
	return found, err
}

// List gives the locks that are held, by any client.
func (c *Client) List(ctx context.Context) ([]LockView, error) {
	var found struct {
		Locks []LockView `json:"locks"`
	}
	_, err := c.ask(ctx, http.MethodGet, "/v1/locks", "", nil, c.timeout, &found)
	return found.Locks, err
}

// Overview gives nodes, locks and warnings, as the sidecar's dashboard shows them.
func (c *Client) Overview(ctx context.Context) (json.RawMessage, error) {
	var found json.RawMessage
	_, err := c.ask(ctx, http.MethodGet, "/v1/overview", "", nil, c.timeout, &found)
	return found, err
}
