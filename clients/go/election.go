package quorlock

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// Election has several candidates, of whom one leads at a time.
type Election struct {
	client *Client
	name   string
}

// Election is the one of that name.
func (c *Client) Election(name string) *Election { return &Election{c, name} }

// Leadership is a won election. It ends as a hold does: stop leading when its context ends.
type Leadership struct {
	*Lease
	value string
}

// Term is above that of every leader before. Send it with every command to followers.
func (l *Leadership) Term() uint64 { return l.Fence() }

// Value is what was published.
func (l *Leadership) Value() string { return l.value }

// Campaign waits until we lead, an hour at most without [Wait], and publishes value, such as our address. It leads until
// [Lease.Release] or the end of ctx.
func (e *Election) Campaign(ctx context.Context, value string, options ...Option) (*Leadership, error) {
	wanted := e.client.wanted(longestWait, options)
	query := wanted.query()
	query.Set("value", value)
	path := pathOf("elections", e.name, "/campaign?", query.Encode())
	lease, err := e.client.open(ctx, e.name, path, e.client.timeoutOf(wanted), true)
	if err != nil {
		return nil, err
	}
	return &Leadership{lease, value}, nil
}

// Leader is who leads now; nil if nobody does.
func (e *Election) Leader(ctx context.Context) (*Leader, error) {
	var found struct {
		Leader *Leader `json:"leader"`
	}
	_, err := e.client.ask(ctx, http.MethodGet, pathOf("elections", e.name), e.name, nil, e.client.timeout, &found)
	return found.Leader, err
}

// Observe gives the current leader, and each that follows, by rising terms; nil when nobody leads any more. With after it
// goes on behind that term. It ends with an error, also when ctx does: then go on after the last term that you saw.
//
//	for leader, err := range client.Election("scheduler").Observe(ctx, 0) { ... }
func (e *Election) Observe(ctx context.Context, after uint64) iter.Seq2[*Leader, error] {
	return func(yield func(*Leader, error) bool) {
		path := pathOf("elections", e.name, "/observe")
		if after > 0 {
			path += "?after=" + strconv.FormatUint(after, 10)
		}
		sent, err := e.client.send(ctx, http.MethodGet, path, nil, e.client.timeout)
		if err != nil {
			yield(nil, err)
			return
		}
		defer sent.line.Close()
		defer context.AfterFunc(ctx, func() { sent.line.Close() })()
		if err := sent.refusal(e.client, ctx, e.name); err != nil {
			yield(nil, err)
			return
		}
		listen := func() { sent.line.SetDeadline(time.Now().Add(silence)) }
		listen()
		told := eventsOf(sent, listen)
		for {
			kind, data, err := told.next()
			if err != nil {
				yield(nil, e.client.failed(ctx, err))
				return
			}
			var leader *Leader
			if kind == "leader" {
				leader = &Leader{}
				err = json.Unmarshal(data, leader)
			} else if kind != "vacant" {
				continue
			}
			if err != nil {
				yield(nil, &Error{Code: BadAnswer, Detail: "the sidecar told no leader: " + err.Error()})
				return
			}
			if !yield(leader, nil) {
				return
			}
		}
	}
}
