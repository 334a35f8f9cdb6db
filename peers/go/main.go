// Command redsync puts redsync with go-redis behind the protocol of peers/README.md.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	nodes       = flag.String("nodes", "", "URLs, separated by commas")
	clients     = flag.Int("clients", 1, "")
	seconds     = flag.Float64("seconds", 1, "")
	warmup      = flag.Float64("warmup", 0, "")
	workload    = flag.String("workload", "own", "own or one")
	holdUs      = flag.Int("hold-us", 0, "")
	prefix      = flag.String("prefix", "p", "")
	ttlMs       = flag.Int("ttl-ms", 10000, "")
	nodeTimeout = flag.Int("node-timeout-ms", 0, "0: the library's own")
	ledgerPath  = flag.String("ledger", "", "a file that whoever holds the lock signs")
	failFast    = flag.Bool("fail-fast", false, "")
)

// patience is how long a wait that is under way at the end may still take.
const patience = 10 * time.Second

type outcome struct {
	Version string      `json:"version"`
	Seconds float64     `json:"seconds"`
	Cycles  int64       `json:"cycles"`
	Handoff *int64      `json:"handoffs,omitempty"`
	Failed  int64       `json:"failed"`
	Least   int64       `json:"least"`
	Most    int64       `json:"most"`
	CpuUs   int64       `json:"cpu_us"`
	Acquire [][2]uint64 `json:"acquire"`
}

type tally struct {
	buckets [1024]atomic.Uint64
	failed  atomic.Int64
	counts  []int64
	// Cycles where another client had the lock before.
	handoffs atomic.Int64
}

// ledger is signed by whoever holds the lock, in whichever process.
var ledger *os.File

func main() {
	flag.Parse()
	if *ledgerPath != "" {
		file, err := os.OpenFile(*ledgerPath, os.O_RDWR, 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		ledger = file
	}
	locks := redsync.New(pools()...)
	run(locks, *warmup)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	json.NewEncoder(os.Stdout).Encode(run(locks, *seconds))
}

func pools() []redsyncredis.Pool {
	var pools []redsyncredis.Pool
	for _, url := range strings.Split(*nodes, ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
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
	return pools
}

func run(locks *redsync.Redsync, seconds float64) outcome {
	if seconds <= 0 {
		return outcome{}
	}
	t := &tally{counts: make([]int64, *clients)}
	start, cpu := time.Now(), cpuUs()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	var all sync.WaitGroup
	for client := range *clients {
		all.Add(1)
		go func() {
			defer all.Done()
			t.client(locks, client, end)
		}()
	}
	time.Sleep(time.Until(end))
	used := cpuUs() - cpu
	all.Wait()
	return t.outcome(seconds, used)
}

func (t *tally) client(locks *redsync.Redsync, client int, end time.Time) {
	name := *prefix
	if *workload == "own" {
		name = fmt.Sprintf("%s:%d", *prefix, client)
	}
	options := []redsync.Option{redsync.WithExpiry(time.Duration(*ttlMs) * time.Millisecond)}
	if *failFast {
		options = append(options, redsync.WithFailFast(true))
	}
	if *nodeTimeout > 0 {
		options = append(options, redsync.WithTimeoutFactor(float64(*nodeTimeout)/float64(*ttlMs)))
	}
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(patience))
	defer cancel()
	for {
		asked := time.Now()
		if !asked.Before(end) {
			return
		}
		mutex := locks.NewMutex(name, options...)
		for mutex.LockContext(ctx) != nil {
			t.failed.Add(1)
			if ctx.Err() != nil {
				t.note(time.Since(asked))
				return
			}
		}
		t.note(time.Since(asked))
		isHandoff := ledger != nil && sign(client)
		if *holdUs > 0 {
			time.Sleep(time.Duration(*holdUs) * time.Microsecond)
		}
		mutex.Unlock()
		if time.Now().Before(end) {
			t.counts[client]++
			if isHandoff {
				t.handoffs.Add(1)
			}
		}
	}
}

// sign signs the ledger; true if the last who did was somebody else.
func sign(client int) bool {
	name := []byte(fmt.Sprintf("%8d%8d", os.Getpid(), client))
	last := make([]byte, len(name))
	if n, _ := ledger.ReadAt(last, 0); n == len(name) && bytes.Equal(last, name) {
		return false
	}
	ledger.WriteAt(name, 0)
	return true
}

// note counts a wait in its bucket: 32 buckets per doubling of microseconds.
func (t *tally) note(wait time.Duration) {
	us := math.Max(float64(wait.Nanoseconds())/1000, 1)
	t.buckets[min(int(math.Log2(us)*32), 1023)].Add(1)
}

func (t *tally) outcome(seconds float64, cpu int64) outcome {
	o := outcome{Version: version(), Seconds: seconds, Failed: t.failed.Load(), CpuUs: cpu, Least: t.counts[0]}
	for _, count := range t.counts {
		o.Cycles += count
		o.Least, o.Most = min(o.Least, count), max(o.Most, count)
	}
	if ledger != nil {
		handoffs := t.handoffs.Load()
		o.Handoff = &handoffs
	}
	for bucket := range t.buckets {
		if count := t.buckets[bucket].Load(); count > 0 {
			o.Acquire = append(o.Acquire, [2]uint64{uint64(bucket), count})
		}
	}
	return o
}

func cpuUs() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}

func version() string {
	found := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			found[dep.Path] = strings.TrimPrefix(dep.Version, "v")
		}
	}
	return found["github.com/go-redsync/redsync/v4"] + " go-redis " + found["github.com/redis/go-redis/v9"]
}
