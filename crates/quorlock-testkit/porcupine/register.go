package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// registerState is the protected value, the fence of the last write, and the highest fence that the
// resource has seen.
type registerState struct {
	value   string
	written uint64
	highest uint64
}

// registerModel is a value that accepts no writer whose fence is lower than one that it has seen, no
// reader whose fence is lower than that of the last write, and no write that is based on another value
// than the current one. It is empty at first.
var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, _ any) (bool, any) {
		return stepRegister(state.(registerState), input.(operation))
	},
	DescribeState: func(state any) string {
		register := state.(registerState)
		return fmt.Sprintf("value %q, highest fence %d", register.value, register.highest)
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
}

func stepRegister(register registerState, op operation) (bool, registerState) {
	accepts := *op.Fence >= register.highest
	shown := registerState{register.value, register.written, max(register.highest, *op.Fence)}
	switch op.Op {
	case opShow:
		return op.Ok == nil || *op.Ok == accepts, shown
	case opRead:
		return op.Value == nil || *op.Value == register.value, register
	case opSharedRead:
		if *op.Fence < register.written {
			return op.Ok == nil || !*op.Ok, register
		}
		// A reader that died before the answer may have been seen.
		return op.Ok == nil || *op.Ok && *op.Value == register.value, shown
	}
	isBasedOnIt := *op.BasedOn == register.value
	written := registerState{*op.Value, *op.Fence, *op.Fence}
	switch {
	case op.Ok == nil && accepts && isBasedOnIt:
		return true, written
	case op.Ok == nil:
		// The client died before it knew the answer: this is a write that changed nothing.
		return true, register
	case *op.Ok:
		return accepts && isBasedOnIt, written
	default:
		return !accepts, register
	}
}

// registerOperations makes operations of the model.
func registerOperations(lines []operation) (operations []porcupine.Operation) {
	for _, op := range lines {
		operations = append(operations, timed(op, op.calledAt()))
	}
	return operations
}
