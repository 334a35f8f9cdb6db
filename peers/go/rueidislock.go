package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockLibrary locks on one server: the library votes on keys of one Redis or one Redis Cluster, not on servers that
// are independent of each other.
type rueidislockLibrary struct{ locker rueidislock.Locker }

func newRueidislock() (library, error) {
	urls := strings.Split(*nodes, ",")
	if len(urls) != 1 {
		return nil, errors.New("rueidislock has no quorum of independent servers")
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress:       []string{strings.TrimPrefix(urls[0], "redis://")},
			ForceSingleClient: true,
		},
		// As its documentation says for one server of at least 7.0.5.
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    time.Duration(*ttlMs) * time.Millisecond,
	})
	return &rueidislockLibrary{locker}, err
}

func (l *rueidislockLibrary) version() string { return versionOf("github.com/redis/rueidis") }

func (l *rueidislockLibrary) lock(ctx context.Context, name string) (func(), error) {
	_, release, err := l.locker.WithContext(ctx, name)
	return release, err
}
