package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// The kinds of operations that README.md describes.
const (
	opAcquire      = "acquire"
	opAdopt        = "adopt"
	opExtend       = "extend"
	opDowngrade    = "downgrade"
	opEnd          = "end"
	opForceRelease = "force-release"
	opForget       = "forget"
	opShow         = "show"
	opRead         = "read"
	opSharedRead   = "shared-read"
	opWrite        = "write"
)

// never is the return time of an operation without one.
const never = math.MaxInt64

// maxLine is the longest line that a history may have, in bytes.
const maxLine = 1 << 20

// operation is one line of a history.
type operation struct {
	World   uint64  `json:"world"`
	Op      string  `json:"op"`
	Client  *int    `json:"client"`
	Name    *string `json:"name"`
	Fence   *uint64 `json:"fence"`
	Shared  bool    `json:"shared"`
	Call    *int64  `json:"call"`
	Return  *int64  `json:"return"`
	Ok      *bool   `json:"ok"`
	Value   *string `json:"value"`
	BasedOn *string `json:"based_on"`
}

// resource is one lock of one world, and the value that it protects.
type resource struct {
	world uint64
	name  string
}

// history is what happened to each resource, in the order of the file.
type history struct {
	lines    int
	order    []resource
	locks    map[resource][]operation
	accesses map[resource][]operation
	forgets  map[uint64][]operation
}

func read(from io.Reader) (*history, error) {
	h := &history{
		locks:    map[resource][]operation{},
		accesses: map[resource][]operation{},
		forgets:  map[uint64][]operation{},
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		h.lines++
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("line %d: %w", h.lines, err)
		}
		if err := h.add(op); err != nil {
			return nil, fmt.Errorf("line %d: %w", h.lines, err)
		}
	}
	return h, lines.Err()
}

func (h *history) add(op operation) error {
	if op.Call != nil && op.Return != nil && *op.Return < *op.Call {
		return fmt.Errorf("%s returns before its call", op.Op)
	}
	if op.Op == opForget {
		h.forgets[op.World] = append(h.forgets[op.World], op)
		return nil
	}
	if op.Name == nil || op.Fence == nil {
		return fmt.Errorf("%s needs a name and a fence", op.Op)
	}
	at := resource{op.World, *op.Name}
	if h.locks[at] == nil && h.accesses[at] == nil {
		h.order = append(h.order, at)
	}
	switch op.Op {
	case opAcquire, opAdopt, opExtend, opDowngrade, opEnd, opForceRelease:
		h.locks[at] = append(h.locks[at], op)
	case opShow:
		h.accesses[at] = append(h.accesses[at], op)
	case opRead, opSharedRead, opWrite:
		if !op.hasValues() {
			return fmt.Errorf("%s needs its values", op.Op)
		}
		h.accesses[at] = append(h.accesses[at], op)
	default:
		return fmt.Errorf("unknown operation %q", op.Op)
	}
	return nil
}

// hasValues is whether an access to the protected value has all that its kind needs.
func (op operation) hasValues() bool {
	switch op.Op {
	case opRead:
		return op.Value != nil || op.Return == nil
	case opSharedRead:
		return op.Ok == nil || *op.Ok == (op.Value != nil)
	default:
		return op.Value != nil && op.BasedOn != nil
	}
}

// calledAt is the call time, or the start of the history if it is unknown.
func (op operation) calledAt() int64 {
	if op.Call == nil {
		return 0
	}
	return *op.Call
}

// returnedAt is the return time, or never.
func (op operation) returnedAt() int64 {
	if op.Return == nil {
		return never
	}
	return *op.Return
}

func (op operation) String() string {
	who := "a client"
	if op.Client != nil {
		who = fmt.Sprintf("client %d", *op.Client)
	}
	what := op.Op
	if op.Shared {
		what += " shared"
	}
	text := fmt.Sprintf("%s: %s with fence %d, from %s to %s", who, what, *op.Fence, moment(op.Call), moment(op.Return))
	if op.BasedOn != nil {
		text += fmt.Sprintf(", based on %q", *op.BasedOn)
	}
	if op.Value != nil {
		text += fmt.Sprintf(", value %q", *op.Value)
	}
	if op.Ok != nil {
		text += fmt.Sprintf(", accepted: %t", *op.Ok)
	}
	return text
}

func moment(nanoseconds *int64) string {
	if nanoseconds == nil {
		return "?"
	}
	return fmt.Sprintf("%.6f s", float64(*nanoseconds)/1e9)
}
