package quorlock

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// stream is the connection with which a hold lasts.
type stream struct {
	line  line
	asked time.Duration
	// ended is closed when nothing more comes.
	ended chan struct{}
}

// open asks for a stream that holds a lock or leads, and waits for its first event. isBound: the end of ctx releases.
func (c *Client) open(ctx context.Context, name, path string, timeout time.Duration, isBound bool) (*Lease, error) {
	sent, err := c.send(ctx, "GET", path, nil, timeout)
	if err != nil {
		return nil, err
	}
	if err := sent.refusal(c, ctx, name); err != nil {
		sent.line.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { sent.line.Close() })
	var lease *Lease
	told := eventsOf(sent, func() {
		if lease != nil {
			lease.heard()
		}
	})
	kind, data, err := told.next()
	if !stop() || err != nil {
		sent.line.Close()
		return nil, c.failed(ctx, err)
	}
	var said granted
	if err := json.Unmarshal(data, &said); err != nil || (kind != "held" && kind != "leading") {
		sent.line.Close()
		return nil, &Error{Code: BadAnswer, Detail: "the sidecar ended the stream before it held " + name}
	}
	sent.line.SetDeadline(time.Time{})
	lease = newLease(ctx, c, name, &said, sent.asked, &stream{line: sent.line, asked: sent.asked, ended: make(chan struct{})})
	go lease.follow(told)
	if isBound {
		// On the context of the lease, so that ctx forgets it when the lease ends.
		context.AfterFunc(lease.context.Context, func() {
			if ctx.Err() != nil {
				lease.Release(ctx)
			}
		})
	}
	return lease, nil
}

// letGo releases by token, as only that tells the outcome, and ends the connection.
func (l *Lease) letGo(ctx context.Context) (Outcome, error) {
	defer l.stream.line.Close()
	short, cancel := context.WithTimeout(ctx, letGoTime)
	defer cancel()
	outcome, err := l.client.Release(short, l.handle)
	if gone := new(LostError); err == nil || errors.As(err, &gone) {
		return outcome, err
	}
	// The sidecar lets go before it ends its half of the connection.
	l.stream.line.CloseWrite()
	select {
	case <-l.stream.ended:
	case <-short.Done():
	}
	return Unconfirmed, nil
}
