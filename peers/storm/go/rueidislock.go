package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLibrary locks on one server: the library votes on keys of one Redis or one Redis Cluster, not on servers that
// are independent of each other.
type rueidisLibrary struct {
	locker rueidislock.Locker
	wait   time.Duration
}

func newRueidis(o order) library {
	options := rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress:       []string{strings.TrimPrefix(o.urls[0], "redis://")},
			ForceSingleClient: true,
		},
		// As its documentation says for one server of at least 7.0.5.
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    o.ttl,
		// Otherwise the lock ends at a time of the client's clock, and is over at once on a server whose clock is ahead
		// by more than the ttl.
		FallbackSETPX: true,
	}
	locker, err := rueidislock.NewLocker(options)
	for err != nil {
		// The server is not reachable at the moment.
		time.Sleep(o.nodeTimeout)
		locker, err = rueidislock.NewLocker(options)
	}
	return &rueidisLibrary{locker, o.wait}
}

func (l *rueidisLibrary) acquire(name string) lock {
	// The deadline of the context would be that of the lock, so the wait ends by a cancellation.
	ctx, giveUp := context.WithCancel(context.Background())
	waiting := time.AfterFunc(l.wait, giveUp)
	held, release, err := l.locker.WithContext(ctx, name)
	if err != nil {
		giveUp()
		return nil
	}
	if !waiting.Stop() {
		release()
		return nil
	}
	result := &rueidisLock{held: held, end: func() { release(); giveUp() }}
	go result.announceLoss()
	return result
}

type rueidisLock struct {
	held       context.Context
	end        func()
	mutex      sync.Mutex
	isReleased bool
}

func (l *rueidisLock) announceLoss() {
	<-l.held.Done()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.isReleased {
		report("lost %d", now())
	}
}

func (l *rueidisLock) left() time.Duration {
	if l.held.Err() != nil {
		return 0
	}
	return unlimited
}

// extend has nothing to do: the library extends by itself.
func (l *rueidisLock) extend() bool { return false }

func (l *rueidisLock) release() {
	l.mutex.Lock()
	l.isReleased = true
	l.mutex.Unlock()
	l.end()
}
