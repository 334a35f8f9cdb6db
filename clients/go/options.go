package quorlock

import (
	"crypto/tls"
	"net/url"
	"strconv"
	"time"
)

// ClientOption is a setting of [New].
type ClientOption func(*Client)

// WithToken shows a secret of the sidecar's token file. Without it, QUORLOCK_SIDECAR_TOKEN is shown.
func WithToken(token string) ClientOption { return func(c *Client) { c.token = token } }

// WithOwner says who we are, for people who ask who holds a lock.
func WithOwner(owner string) ClientOption { return func(c *Client) { c.owner = owner } }

// WithTimeout bounds how long the sidecar may take beyond what it was asked to wait: 10 s.
func WithTimeout(timeout time.Duration) ClientOption { return func(c *Client) { c.timeout = timeout } }

// WithTLS is for https, if the certificates of this machine are not enough, or the sidecar wants one of ours.
func WithTLS(config *tls.Config) ClientOption { return func(c *Client) { c.tls = config } }

// Option is a setting of one lock.
type Option func(*wanted)

// TTL is how long the lock lasts without being extended.
func TTL(ttl time.Duration) Option { return func(w *wanted) { w.TTLMs = inMs(ttl) } }

// Wait is how long to wait at most: 10 s for [Client.Hold], nothing for [Client.Acquire], an hour for a campaign.
func Wait(wait time.Duration) Option { return func(w *wanted) { w.WaitMs = inMs(wait) } }

// Owner says who we are, for people who ask who holds the lock.
func Owner(owner string) Option { return func(w *wanted) { w.Owner = owner } }

// Reason says why, for people who ask who holds the lock.
func Reason(reason string) Option { return func(w *wanted) { w.Reason = reason } }

// Shared holds the lock together with others that share it.
func Shared() Option { return func(w *wanted) { w.Mode = "shared" } }

// Names are further ones to hold together with the lock: all or none.
func Names(names ...string) Option { return func(w *wanted) { w.Names = names } }

// Slots asks for a permit of a semaphore with so many slots.
func Slots(slots int) Option { return func(w *wanted) { w.Slots = &slots } }

// wanted is the body of an acquire, and the query of a hold or campaign.
type wanted struct {
	TTLMs  *int64   `json:"ttl_ms,omitempty"`
	WaitMs *int64   `json:"wait_ms,omitempty"`
	Owner  string   `json:"owner,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Mode   string   `json:"mode,omitempty"`
	Names  []string `json:"names,omitempty"`
	Slots  *int     `json:"slots,omitempty"`
}

func (c *Client) wanted(wait time.Duration, options []Option) *wanted {
	w := &wanted{Owner: c.owner, WaitMs: inMs(wait)}
	for _, option := range options {
		option(w)
	}
	return w
}

// timeoutOf is how long an answer may take.
func (c *Client) timeoutOf(w *wanted) time.Duration { return c.timeout + bounded(*w.WaitMs) }

func (w *wanted) query() url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"owner": w.Owner, "reason": w.Reason, "mode": w.Mode} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if w.TTLMs != nil {
		query.Set("ttl_ms", strconv.FormatInt(*w.TTLMs, 10))
	}
	query.Set("wait_ms", strconv.FormatInt(*w.WaitMs, 10))
	if w.Slots != nil {
		query.Set("slots", strconv.Itoa(*w.Slots))
	}
	for _, name := range w.Names {
		query.Add("names", name)
	}
	return query
}

// inMs rounds up: who asks for a little must not get nothing.
func inMs(duration time.Duration) *int64 {
	ms := int64((duration + time.Millisecond - 1) / time.Millisecond)
	return &ms
}
