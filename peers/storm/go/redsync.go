package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLibrary has redsync's own retries: 32 tries, 50 to 250 ms apart.
type redsyncLibrary struct {
	locks *redsync.Redsync
	ttl   time.Duration
}

// silence is the log of go-redis, which has a line for every connection that is refused.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func newRedsync(o order) library {
	redis.SetLogger(silence{})
	var nodes []pools.Pool
	for _, url := range o.urls {
		options, err := redis.ParseURL(url)
		check(err)
		// go-redis does not follow the time limit that redsync sets for a node unless it has one of its own.
		options.DialTimeout, options.ReadTimeout, options.WriteTimeout = o.nodeTimeout, o.nodeTimeout, o.nodeTimeout
		options.MaxRetries = -1
		nodes = append(nodes, goredis.NewPool(redis.NewClient(options)))
	}
	return &redsyncLibrary{redsync.New(nodes...), o.ttl}
}

func (l *redsyncLibrary) acquire(name string) lock {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(l.ttl))
	if mutex.Lock() != nil {
		return nil
	}
	return redsyncLock{mutex}
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) left() time.Duration { return time.Until(l.mutex.Until()) }

func (l redsyncLock) extend() bool {
	isExtended, err := l.mutex.Extend()
	return isExtended && err == nil
}

func (l redsyncLock) release() { l.mutex.Unlock() }
