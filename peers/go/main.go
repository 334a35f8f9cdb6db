// Command contestant puts redsync or rueidislock behind the protocol of peers/README.md.
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
)

var (
	libraryName = flag.String("library", "redsync", "redsync or rueidislock")
	nodes       = flag.String("nodes", "", "URLs, separated by commas")
	clients     = flag.Int("clients", 1, "")
	seconds     = flag.Float64("seconds", 1, "")
	warmup      = flag.Float64("warmup", 0, "")
	workload    = flag.String("workload", "own", "own or one")
	holdUs      = flag.Int("hold-us", 0, "")
	prefix      = flag.String("prefix", "p", "")
	ttlMs       = flag.Int("ttl-ms", 10000, "")
	nodeTimeout = flag.Int("node-timeout-ms", 0, "0: the library's own")
	ledgerPath  = flag.String("ledger", "", "a file that the holder of the lock signs")
	failFast    = flag.Bool("fail-fast", false, "redsync returns at the quorum")
)

// library is what is measured.
type library interface {
	version() string
	// lock is one call of the library for name; the returned function releases the lock.
	lock(ctx context.Context, name string) (release func(), err error)
}

// lastWait is how long a wait that is under way at the end may still take.
const lastWait = 10 * time.Second

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

// ledger is signed by the holder of the lock, in any process.
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
	locks, err := open(*libraryName)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	run(locks, *warmup)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	json.NewEncoder(os.Stdout).Encode(run(locks, *seconds))
}

func open(name string) (library, error) {
	switch name {
	case "redsync":
		return newRedsync()
	case "rueidislock":
		return newRueidislock()
	}
	return nil, fmt.Errorf("no library %q", name)
}

func run(locks library, seconds float64) outcome {
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
	return t.outcome(locks.version(), seconds, used)
}

func (t *tally) client(locks library, client int, end time.Time) {
	name := *prefix
	if *workload == "own" {
		name = fmt.Sprintf("%s:%d", *prefix, client)
	}
	// A deadline would be that of the lock for rueidislock, so the wait ends by a cancellation.
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	defer time.AfterFunc(time.Until(end.Add(lastWait)), giveUp).Stop()
	for {
		asked := time.Now()
		if !asked.Before(end) {
			return
		}
		release, err := locks.lock(ctx, name)
		for ; err != nil; release, err = locks.lock(ctx, name) {
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
		release()
		if time.Now().Before(end) {
			t.counts[client]++
			if isHandoff {
				t.handoffs.Add(1)
			}
		}
	}
}

// sign signs the ledger; true if another client signed it last.
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

func (t *tally) outcome(version string, seconds float64, cpu int64) outcome {
	o := outcome{Version: version, Seconds: seconds, Failed: t.failed.Load(), CpuUs: cpu, Least: t.counts[0]}
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

// versionOf is the version of a module in this program.
func versionOf(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == path {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return "unknown"
}
