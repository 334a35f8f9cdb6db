package quorlock

import (
	"encoding/json"
	"time"
)

// Holder is who holds a lock.
type Holder struct {
	Owner string `json:"owner"`
	PID   int    `json:"pid"`
	// Since is Unix time in milliseconds.
	Since  int64  `json:"since"`
	Reason string `json:"reason"`
	// Foreign: another program than quorlock took it.
	Foreign bool `json:"foreign"`
}

// Reader is one of those who share a lock.
type Reader struct {
	Owner string `json:"owner"`
	PID   int    `json:"pid"`
	// Since is Unix time in milliseconds.
	Since  int64  `json:"since"`
	Reason string `json:"reason"`
	Fence  uint64 `json:"fence"`
	// Token is only for callers of scope `write`, and only from [Client.Status].
	Token string `json:"token"`
}

// HeldName is a name that others hold, exclusively (Holder) or shared (Readers).
type HeldName struct {
	Name        string   `json:"name"`
	Holder      *Holder  `json:"holder"`
	Readers     []Reader `json:"readers"`
	RemainingMs int64    `json:"remaining_ms"`
}

// LockView is what the nodes say of one lock.
type LockView struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Mode is "exclusive", "shared", or empty if it is free.
	Mode    string   `json:"mode"`
	Holder  *Holder  `json:"holder"`
	Readers []Reader `json:"readers"`
	// Fence is 0 if nobody knows it.
	Fence       uint64 `json:"fence"`
	RemainingMs int64  `json:"remaining_ms"`
	Votes       int    `json:"votes"`
	Nodes       int    `json:"nodes"`
	Quorum      int    `json:"quorum"`
	Waiters     int    `json:"waiters"`
	// Here: this sidecar lent it.
	Here bool `json:"here"`
	// Token is only for callers of scope `write`, and only from [Client.Status].
	Token string `json:"token"`
	// Semaphore and Slot are set if it is a slot.
	Semaphore string          `json:"semaphore"`
	Slot      *int            `json:"slot"`
	NodeViews json.RawMessage `json:"node_views"`
}

// Remaining is the time after which it is free unless it is extended.
func (v *LockView) Remaining() time.Duration { return bounded(v.RemainingMs) }

// Leader is who leads an election. It may be old when you read it: compare terms, which only rise.
type Leader struct {
	Value string `json:"value"`
	Term  uint64 `json:"term"`
	Owner string `json:"owner"`
	PID   int    `json:"pid"`
	// Since is Unix time in milliseconds.
	Since int64 `json:"since"`
}
