package quorlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Code is the sidecar's word for what went wrong. It is stable.
type Code string

// The codes of the sidecar, and three of this package.
const (
	BadRequest     Code = "bad_request"
	BadName        Code = "bad_name"
	BadToken       Code = "bad_token"
	BadTTL         Code = "bad_ttl"
	Unauthorized   Code = "unauthorized"
	Forbidden      Code = "forbidden"
	NotFound       Code = "not_found"
	WaitOver       Code = "wait_over"
	Held           Code = "held"
	NamesHeld      Code = "names_held"
	NoPermit       Code = "no_permit"
	SlotsDiffer    Code = "slots_differ"
	Contended      Code = "contended"
	Lost           Code = "lost"
	TooManyWaiters Code = "too_many_waiters"
	TooManyNames   Code = "too_many_names"
	NoQuorum       Code = "no_quorum"
	TooSlow        Code = "too_slow"
	Full           Code = "full"
	ShuttingDown   Code = "shutting_down"

	// Unreachable: the sidecar does not answer.
	Unreachable Code = "unreachable"
	// BadAddress: [New] got an address that names no sidecar.
	BadAddress Code = "bad_address"
	// BadAnswer: what answers is no sidecar.
	BadAnswer Code = "bad_answer"
)

// ErrReleased is the cause of the end of a lease's context after [Lease.Release].
var ErrReleased = errors.New("quorlock: the lease was released")

// Error says what went wrong, and what to do about it. Every error of the sidecar contains one (errors.As).
type Error struct {
	Code   Code
	Detail string
	// Status is that of HTTP, 0 if there was no answer.
	Status int
	// Problem is all that the sidecar said.
	Problem json.RawMessage
}

func (e *Error) Error() string { return fmt.Sprintf("quorlock: %s (%s)", e.Detail, e.Code) }

// CodeOf is the code of an error of this package, and empty for any other error.
func CodeOf(err error) Code {
	var found *Error
	if errors.As(err, &found) {
		return found.Code
	}
	return ""
}

// HeldError says that other clients have the lock. Its code is [Held], [WaitOver], [NamesHeld] or [NoPermit].
type HeldError struct {
	Err *Error
	// Holder is nil if the lock is shared, or if nobody knows.
	Holder *Holder
	// Left is the time after which it is free unless it is extended; 0 if that is not known.
	Left time.Duration
	// Readers are those who share the lock, if that keeps us out.
	Readers []Reader
	// Names are those of several that others have.
	Names []HeldName
}

func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error].
func (e *HeldError) Unwrap() error { return e.Err }

// LostError says that the lock is not ours any more, or never was. Stop what it protected.
type LostError struct {
	Err  *Error
	Name string
}

func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error].
func (e *LostError) Unwrap() error { return e.Err }

// NoQuorumError says that too few nodes can vote, so no client gets a lock. Its code is [NoQuorum] or [TooSlow].
type NoQuorumError struct {
	Err *Error
	// Nodes say why they could not vote.
	Nodes []NodeCause
}

func (e *NoQuorumError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error].
func (e *NoQuorumError) Unwrap() error { return e.Err }

// NodeCause is what one node said, or why it said nothing.
type NodeCause struct {
	Node  string `json:"node"`
	Said  string `json:"said"`
	Cause string `json:"cause"`
}

// SlotsDifferError says that the semaphore is in use with another number of slots.
type SlotsDifferError struct {
	Err *Error
	// Recorded is the number of slots that the nodes know.
	Recorded int
}

func (e *SlotsDifferError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error].
func (e *SlotsDifferError) Unwrap() error { return e.Err }

// UnreachableError says that the sidecar does not answer.
type UnreachableError struct {
	Err   *Error
	Cause error
}

func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error] and the cause.
func (e *UnreachableError) Unwrap() []error { return []error{e.Err, e.Cause} }

func lostError(name, reason string) *LostError {
	detail := fmt.Sprintf("lock %q was lost: %s", name, reason)
	return &LostError{Err: &Error{Code: Lost, Detail: detail}, Name: name}
}

// problemError is the typed error for a problem that the sidecar answered.
func problemError(name string, status int, body []byte) error {
	var said struct {
		Code        Code        `json:"code"`
		Title       string      `json:"title"`
		Detail      string      `json:"detail"`
		Holder      *Holder     `json:"holder"`
		RemainingMs *int64      `json:"remaining_ms"`
		Readers     []Reader    `json:"readers"`
		Held        []HeldName  `json:"held"`
		Nodes       []NodeCause `json:"nodes"`
		Recorded    int         `json:"recorded"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Code == "" {
		return &Error{Code: BadAnswer, Status: status, Detail: fmt.Sprintf("status %d without a problem that is known", status)}
	}
	detail := said.Detail
	if detail == "" {
		detail = said.Title
	}
	base := &Error{Code: said.Code, Status: status, Detail: detail, Problem: body}
	switch said.Code {
	case Held, WaitOver, NamesHeld, NoPermit:
		return &HeldError{Err: base, Holder: said.Holder, Left: milliseconds(said.RemainingMs), Readers: said.Readers, Names: said.Held}
	case Lost:
		return &LostError{Err: base, Name: name}
	case NoQuorum, TooSlow:
		return &NoQuorumError{Err: base, Nodes: said.Nodes}
	case SlotsDiffer:
		return &SlotsDifferError{Err: base, Recorded: said.Recorded}
	}
	return base
}

func milliseconds(ms *int64) time.Duration {
	if ms == nil {
		return 0
	}
	return bounded(*ms)
}
