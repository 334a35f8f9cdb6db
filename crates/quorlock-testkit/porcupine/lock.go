package main

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// lockState is who has the lock, by fence, and the highest fence so far.
type lockState struct {
	// holders are several only if the lock is shared.
	holders  []uint64
	isShared bool
	highest  uint64
}

// lockModel is a lock that one client has alone, or that clients share, with fences that rise.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		return stepLock(state.(lockState), input.(operation))
	},
	Equal: func(one, other any) bool {
		a, b := one.(lockState), other.(lockState)
		return a.isShared == b.isShared && a.highest == b.highest && slices.Equal(a.holders, b.holders)
	},
	DescribeState: func(state any) string {
		lock := state.(lockState)
		switch {
		case len(lock.holders) == 0:
			return fmt.Sprintf("free, highest fence %d", lock.highest)
		case lock.isShared:
			return fmt.Sprintf("shared by fences %d, highest fence %d", lock.holders, lock.highest)
		default:
			return fmt.Sprintf("held with fence %d", lock.holders[0])
		}
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
}

// stepLock does not change `lock`: the search goes on from it in several ways.
func stepLock(lock lockState, op operation) (bool, lockState) {
	place := slices.Index(lock.holders, *op.Fence)
	switch op.Op {
	case opAcquire:
		isFree := len(lock.holders) == 0 || lock.isShared && op.Shared
		// Fences rise, so the holders stay in order.
		holders := append(slices.Clone(lock.holders), *op.Fence)
		return isFree && *op.Fence > lock.highest, lockState{holders, op.Shared, *op.Fence}
	case opAdopt, opExtend:
		return place >= 0, lock
	case opDowngrade:
		return place >= 0 && !lock.isShared, lockState{lock.holders, true, lock.highest}
	default:
		if place < 0 {
			return false, lock
		}
		holders := slices.Delete(slices.Clone(lock.holders), place, place+1)
		return true, lockState{holders, lock.isShared && len(holders) > 0, lock.highest}
	}
}

// hold is all that is known of the lock of one fence.
type hold struct {
	acquires []operation
	uses     []operation
	// downgrades are the moments from which others can share it.
	downgrades []operation
	// lastEnd is the last known moment at which one of its holders had it; nil if none is.
	lastEnd *operation
	// forced is the first moment from which a client may have released it by force.
	forced *operation
}

// lockOperations makes operations of the model: those of each hold, and one end of it.
func lockOperations(lines, forgets []operation) (operations []porcupine.Operation, unpromised int) {
	holds, order := map[uint64]*hold{}, []uint64{}
	for _, op := range lines {
		if holds[*op.Fence] == nil {
			holds[*op.Fence] = &hold{}
			order = append(order, *op.Fence)
		}
		holds[*op.Fence].add(op)
	}
	for _, fence := range order {
		ofHold, isPromised := holds[fence].operations(forgets)
		operations = append(operations, ofHold...)
		if !isPromised {
			unpromised++
		}
	}
	return operations, unpromised
}

func (h *hold) add(op operation) {
	switch op.Op {
	case opAcquire:
		h.acquires = append(h.acquires, op)
	case opAdopt, opExtend:
		h.uses = append(h.uses, op)
	case opDowngrade:
		h.downgrades = append(h.downgrades, op)
	case opForceRelease:
		if h.forced == nil || op.calledAt() < h.forced.calledAt() {
			h.forced = &op
		}
	case opEnd:
		if h.lastEnd == nil || op.calledAt() > h.lastEnd.calledAt() {
			h.lastEnd = &op
		}
	}
}

// operations returns the operations of the hold, and whether exclusion is promised until its last end.
//
// After a forced release, and from the moment at which servers may have forgotten the lock, other
// clients may have it: its end may come at once, and later uses of it are not checked.
func (h *hold) operations(forgets []operation) (operations []porcupine.Operation, isPromised bool) {
	if len(h.acquires) == 0 {
		if len(h.uses) == 0 {
			return nil, true
		}
		// Its acquire is not in the file, because its client died first: it came at some time before.
		acquire := h.uses[0]
		acquire.Op, acquire.Call = opAcquire, nil
		h.acquires = append(h.acquires, acquire)
	}
	acquire := h.acquires[0]
	end, limit := h.end(acquire), int64(never)
	if h.forced != nil {
		limit = h.forced.calledAt()
	}
	for _, forget := range forgets {
		if forget.calledAt() <= end.calledAt() && acquire.calledAt() <= forget.returnedAt() {
			limit = min(limit, max(forget.calledAt(), acquire.calledAt()))
		}
	}
	isPromised = limit >= end.calledAt()
	for _, op := range h.acquires {
		operations = append(operations, timed(op, op.calledAt()))
	}
	for _, op := range h.uses {
		// One without a call says only that the lock was still held, as its end does.
		if op.Call != nil && op.returnedAt() <= limit {
			operations = append(operations, timed(op, *op.Call))
		}
	}
	for _, op := range h.downgrades {
		if op.returnedAt() <= limit {
			operations = append(operations, timed(op, op.calledAt()))
		}
	}
	limit = min(limit, end.calledAt())
	end.Call = &limit
	returned := limit
	for _, op := range operations {
		returned = max(returned, op.Return)
	}
	// It comes as soon as it can: a lock that ends later keeps more clients out, and lets none in.
	end.Return = &returned
	return append(operations, timed(end, limit)), isPromised
}

// end is the last end of the hold. A hold of which no end is known may end at any time.
func (h *hold) end(acquire operation) operation {
	if h.lastEnd == nil {
		return operation{Op: opEnd, Client: acquire.Client, Name: acquire.Name, Fence: acquire.Fence, Call: acquire.Call}
	}
	end := *h.lastEnd
	if end.Call == nil {
		end.Call = acquire.Call
	}
	end.Return = nil
	return end
}

// timed is the operation of the model that is not before `call`.
func timed(op operation, call int64) porcupine.Operation {
	client := 0
	if op.Client != nil {
		client = *op.Client
	}
	return porcupine.Operation{ClientId: client, Input: op, Call: call, Return: max(call, op.returnedAt())}
}
