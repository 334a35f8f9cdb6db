// Command redsync-driver puts redsync behind the line protocol of interop/README.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	locks := redsync.New(pools(os.Args[1:])...)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 3 && words[0] == "lock":
			fmt.Println(lock(locks, words[1], words[2]))
		case len(words) == 3 && words[0] == "unlock":
			fmt.Println(unlock(locks, words[1], words[2]))
		case len(words) == 1 && words[0] == "quit":
			return
		default:
			fmt.Println("error unknown line")
		}
	}
}

func pools(urls []string) []redsyncredis.Pool {
	var pools []redsyncredis.Pool
	for _, url := range urls {
		options, err := redis.ParseURL(url)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	return pools
}

func lock(locks *redsync.Redsync, name, ttl string) string {
	millis, err := strconv.Atoi(ttl)
	if err != nil {
		return "error " + err.Error()
	}
	mutex := locks.NewMutex(name, redsync.WithExpiry(time.Duration(millis)*time.Millisecond), redsync.WithTries(1))
	if err := mutex.TryLock(); err != nil {
		return "held"
	}
	return "ok " + mutex.Value()
}

func unlock(locks *redsync.Redsync, name, value string) string {
	released, _ := locks.NewMutex(name, redsync.WithValue(value)).Unlock()
	if released {
		return "ok"
	}
	return "no"
}
