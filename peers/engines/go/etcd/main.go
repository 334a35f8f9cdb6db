// Command etcd measures etcd's own concurrency.Mutex.
package main

import (
	"context"
	"time"

	"quorlock.test/peers/engines/contest"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	contest.Run("go.etcd.io/etcd/client/v3", connect)
}

// connect opens one connection for all clients. Clients with names of their own share one session. Clients of one
// name have a session each, because a session has one key for a name.
func connect(order contest.Order) (contest.Open, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{order.Host}, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	var session *concurrency.Session
	return func(_ int, name string) (contest.Lock, error) {
		if session == nil || order.IsOneName {
			seconds := max(1, int(order.TTL.Seconds()))
			if session, err = concurrency.NewSession(client, concurrency.WithTTL(seconds)); err != nil {
				return nil, err
			}
		}
		return lock{concurrency.NewMutex(session, "/locks/"+name)}, nil
	}, nil
}

type lock struct{ mutex *concurrency.Mutex }

func (l lock) Acquire(ctx context.Context) error { return l.mutex.Lock(ctx) }

func (l lock) Release() error { return l.mutex.Unlock(context.Background()) }
