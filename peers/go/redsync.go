package main

import (
	"context"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLibrary is redsync with go-redis.
type redsyncLibrary struct {
	locks   *redsync.Redsync
	options []redsync.Option
}

func newRedsync() (library, error) {
	var pools []redsyncredis.Pool
	for _, url := range strings.Split(*nodes, ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		options.PoolSize = min(*clients, 100)
		options.MinIdleConns = options.PoolSize
		if *nodeTimeout > 0 {
			limit := time.Duration(*nodeTimeout) * time.Millisecond
			options.ReadTimeout, options.WriteTimeout, options.DialTimeout = limit, limit, limit
			options.MaxRetries = -1
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	options := []redsync.Option{redsync.WithExpiry(time.Duration(*ttlMs) * time.Millisecond)}
	if *failFast {
		options = append(options, redsync.WithFailFast(true))
	}
	if *nodeTimeout > 0 {
		options = append(options, redsync.WithTimeoutFactor(float64(*nodeTimeout)/float64(*ttlMs)))
	}
	return &redsyncLibrary{redsync.New(pools...), options}, nil
}

func (l *redsyncLibrary) version() string {
	return versionOf("github.com/go-redsync/redsync/v4") + " go-redis " + versionOf("github.com/redis/go-redis/v9")
}

func (l *redsyncLibrary) lock(ctx context.Context, name string) (func(), error) {
	mutex := l.locks.NewMutex(name, l.options...)
	return func() { mutex.Unlock() }, mutex.LockContext(ctx)
}
