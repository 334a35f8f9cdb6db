// Command porcupine-check checks histories of quorlock with porcupine; see README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The exit codes.
const (
	exitOrdered   = 0
	exitUnordered = 1
	exitUsage     = 2
	exitUnknown   = 3
)

func main() {
	limit := flag.Duration("limit", time.Minute, "time limit for each lock and for each value")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: porcupine-check [-limit 60s] FILE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(exitUsage)
	}
	h, err := open(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "porcupine-check:", err)
		os.Exit(exitUsage)
	}
	r := &report{limit: *limit}
	for _, at := range h.order {
		r.check(h, at)
	}
	os.Exit(r.print(h))
}

func open(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file)
}

// report is what was checked so far.
type report struct {
	limit                                 time.Duration
	locks, acquires, unpromised, accesses int
	operations                            int
	unordered, unknown                    int
}

func (r *report) check(h *history, at resource) {
	operations, unpromised := lockOperations(h.locks[at], h.forgets[at.world])
	r.locks++
	r.unpromised += unpromised
	for _, op := range operations {
		if op.Input.(operation).Op == opAcquire {
			r.acquires++
		}
	}
	r.order(fmt.Sprintf("world %d, lock %q", at.world, at.name), lockModel, operations)
	lines := h.accesses[at]
	r.accesses += len(lines)
	r.order(fmt.Sprintf("world %d, value of %q", at.world, at.name), registerModel, registerOperations(lines))
}

// order lets porcupine search for an order of the operations.
func (r *report) order(what string, model porcupine.Model, operations []porcupine.Operation) {
	r.operations += len(operations)
	result, info := porcupine.CheckOperationsVerbose(model, operations, r.limit)
	switch result {
	case porcupine.Illegal:
		r.unordered++
		fmt.Printf("%s: NO ORDER\n%s", what, explain(model, operations, info))
	case porcupine.Unknown:
		r.unknown++
		fmt.Printf("%s: UNKNOWN after %s\n", what, r.limit)
	}
}

func (r *report) print(h *history) int {
	fmt.Printf("lines read                %d\n", h.lines)
	fmt.Printf("worlds and locks          %d\n", r.locks)
	fmt.Printf("operations checked        %d\n", r.operations)
	fmt.Printf("acquires                  %d\n", r.acquires)
	fmt.Printf("... exclusion not promised %d\n", r.unpromised)
	fmt.Printf("accesses to values        %d\n", r.accesses)
	fmt.Printf("without an order          %d\n", r.unordered)
	fmt.Printf("unknown (time limit)      %d\n", r.unknown)
	switch {
	case r.unordered > 0:
		return exitUnordered
	case r.unknown > 0:
		return exitUnknown
	case r.acquires == 0:
		fmt.Println("nothing to check")
		return exitUsage
	}
	fmt.Println("ok")
	return exitOrdered
}

// shown is how many operations an explanation has before the place where the order ends.
const shown = 4

// explain shows the longest order that was found, and the operations that cannot follow it.
func explain(model porcupine.Model, operations []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	text, state, isOrdered := &strings.Builder{}, model.Init(), map[int]bool{}
	for place, id := range longest {
		isOrdered[id] = true
		_, state = model.Step(state, operations[id].Input, nil)
		if place >= len(longest)-shown {
			fmt.Fprintf(text, "  %s\n", operations[id].Input)
		}
	}
	fmt.Fprintf(text, "  %d of %d operations have an order; then: %s\n", len(longest), len(operations), model.DescribeState(state))
	if next := earliest(model, state, operations, isOrdered); next != nil {
		fmt.Fprintf(text, "  could follow, but is later: %s\n", next.Input)
	}
	for _, id := range blocked(operations, isOrdered) {
		fmt.Fprintf(text, "  cannot follow: %s\n", operations[id].Input)
	}
	return text.String()
}

// earliest is the first operation without a place that the model accepts next, if there is one.
func earliest(model porcupine.Model, state any, operations []porcupine.Operation, isOrdered map[int]bool) (next *porcupine.Operation) {
	for id, op := range operations {
		canFollow, _ := model.Step(state, op.Input, nil)
		if canFollow && !isOrdered[id] && (next == nil || op.Call < next.Call) {
			next = &op
		}
	}
	return next
}

// blocked are the operations that were called before the first of those without a place returned.
func blocked(operations []porcupine.Operation, isOrdered map[int]bool) (ids []int) {
	first := int64(never)
	for id, op := range operations {
		if !isOrdered[id] {
			first = min(first, op.Return)
		}
	}
	for id, op := range operations {
		if !isOrdered[id] && op.Call <= first && op.Return < never {
			ids = append(ids, id)
		}
	}
	return ids
}
