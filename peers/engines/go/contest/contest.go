// Package contest puts a lock library behind the protocol of peers/README.md.
package contest

import (
	"bufio"
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
)

// lastWait is how long a wait that is under way at the end may still take.
const lastWait = 10 * time.Second

// Order is what the clients shall do.
type Order struct {
	// Host is the host and port of the server.
	Host    string
	Clients int
	// IsOneName is whether all clients use one name.
	IsOneName bool
	TTL       time.Duration
	seconds   float64
	warmup    float64
	hold      time.Duration
	prefix    string
}

// Lock is what one client takes and releases, again and again.
type Lock interface {
	Acquire(context.Context) error
	Release() error
}

// Open makes the lock of one client.
type Open func(client int, name string) (Lock, error)

// Run parses the flags, lets the clients warm up, waits for the word, measures and answers. The version in the
// answer is that of module.
func Run(module string, connect func(Order) (Open, error)) {
	order := parse()
	locks, err := openAll(order, connect)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	measure(order, locks, order.warmup)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	outcome := measure(order, locks, order.seconds)
	outcome.Version = version(module)
	json.NewEncoder(os.Stdout).Encode(outcome)
}

func parse() Order {
	var order Order
	nodes := flag.String("nodes", "", "the URL of the server")
	flag.IntVar(&order.Clients, "clients", 1, "")
	flag.Float64Var(&order.seconds, "seconds", 1, "")
	flag.Float64Var(&order.warmup, "warmup", 0, "")
	workload := flag.String("workload", "own", "own or one")
	holdUs := flag.Int("hold-us", 0, "")
	flag.StringVar(&order.prefix, "prefix", "p", "")
	ttlMs := flag.Int("ttl-ms", 10000, "")
	flag.Parse()
	_, order.Host, _ = strings.Cut(*nodes, "://")
	order.IsOneName = *workload == "one"
	order.hold = time.Duration(*holdUs) * time.Microsecond
	order.TTL = time.Duration(*ttlMs) * time.Millisecond
	return order
}

func openAll(order Order, connect func(Order) (Open, error)) ([]Lock, error) {
	open, err := connect(order)
	if err != nil {
		return nil, err
	}
	locks := make([]Lock, order.Clients)
	for client := range locks {
		name := order.prefix
		if !order.IsOneName {
			name = fmt.Sprintf("%s:%d", order.prefix, client)
		}
		if locks[client], err = open(client, name); err != nil {
			return nil, err
		}
	}
	return locks, nil
}

type outcome struct {
	Version string      `json:"version"`
	Seconds float64     `json:"seconds"`
	Cycles  int64       `json:"cycles"`
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
	// lastError is the cause of the last failed call.
	lastError atomic.Value
}

func measure(order Order, locks []Lock, seconds float64) outcome {
	if seconds <= 0 {
		return outcome{}
	}
	t := &tally{counts: make([]int64, len(locks))}
	start, cpu := time.Now(), cpuUs()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	var all sync.WaitGroup
	for client, lock := range locks {
		all.Go(func() { t.client(lock, client, order.hold, end) })
	}
	time.Sleep(time.Until(end))
	used := cpuUs() - cpu
	all.Wait()
	if cause := t.lastError.Load(); cause != nil {
		fmt.Fprintln(os.Stderr, cause)
	}
	return t.outcome(seconds, used)
}

func (t *tally) client(lock Lock, client int, hold time.Duration, end time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(lastWait))
	defer cancel()
	for {
		asked := time.Now()
		if !asked.Before(end) {
			return
		}
		for {
			err := lock.Acquire(ctx)
			if err == nil {
				break
			}
			t.failed.Add(1)
			t.lastError.Store(err.Error())
			if ctx.Err() != nil {
				t.note(time.Since(asked))
				return
			}
		}
		t.note(time.Since(asked))
		if hold > 0 {
			time.Sleep(hold)
		}
		if err := lock.Release(); err != nil {
			t.failed.Add(1)
			t.lastError.Store(err.Error())
		}
		if time.Now().Before(end) {
			t.counts[client]++
		}
	}
}

// note counts a wait in its bucket: 32 buckets per doubling of microseconds.
func (t *tally) note(wait time.Duration) {
	us := math.Max(float64(wait.Nanoseconds())/1000, 1)
	t.buckets[min(int(math.Log2(us)*32), 1023)].Add(1)
}

func (t *tally) outcome(seconds float64, cpu int64) outcome {
	o := outcome{Seconds: seconds, Failed: t.failed.Load(), CpuUs: cpu, Least: t.counts[0]}
	for _, count := range t.counts {
		o.Cycles += count
		o.Least, o.Most = min(o.Least, count), max(o.Most, count)
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

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return ""
}
