// Command consul measures the lock of Consul's Go client, api.Lock.
package main

import (
	"context"
	"flag"
	"net/http"

	"quorlock.test/peers/engines/contest"

	"github.com/hashicorp/consul/api"
)

var keepSessions = flag.Bool("keep-sessions", false, "give the locks a session that exists, instead of one for each Lock")

func main() {
	contest.Run("github.com/hashicorp/consul/api", connect)
}

// connect uses one api.Client, which keeps a connection for each request that clients can have under way: a locked
// key is watched by a request of its own.
//
// With -keep-sessions, clients with names of their own share one session. Clients of one name have a session each,
// because Consul gives a key to its own session again.
func connect(order contest.Order) (contest.Open, error) {
	config := api.DefaultConfig()
	config.Address = order.Host
	config.Transport.MaxIdleConns = 4 * order.Clients
	config.Transport.MaxIdleConnsPerHost = 4 * order.Clients
	config.HttpClient = &http.Client{Transport: config.Transport}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	ttl := order.TTL.String()
	session := ""
	return func(_ int, name string) (contest.Lock, error) {
		if *keepSessions && (session == "" || order.IsOneName) {
			if session, err = newSession(client, ttl); err != nil {
				return nil, err
			}
		}
		handle, err := client.LockOpts(&api.LockOptions{Key: "locks/" + name, Session: session, SessionTTL: ttl})
		return lock{handle}, err
	}, nil
}

// newSession creates a session and renews it until the process ends.
func newSession(client *api.Client, ttl string) (string, error) {
	session, _, err := client.Session().Create(&api.SessionEntry{Name: "peers", TTL: ttl}, nil)
	if err == nil {
		go client.Session().RenewPeriodic(ttl, session, nil, make(chan struct{}))
	}
	return session, err
}

type lock struct{ handle *api.Lock }

func (l lock) Acquire(ctx context.Context) error {
	lost, err := l.handle.Lock(ctx.Done())
	if err == nil && lost == nil {
		return context.Cause(ctx)
	}
	return err
}

func (l lock) Release() error { return l.handle.Unlock() }
