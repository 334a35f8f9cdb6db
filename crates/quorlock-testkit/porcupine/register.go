package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// registerState is the protected value and the highest fence that the resource has seen.
type registerState struct {
	value   string
	highest uint64
}

// registerModel is a value that accepts no fence lower than one that it has seen, and no write that is
// based on another value than the current one. It is empty at first.
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
	shown := registerState{register.value, max(register.highest, *op.Fence)}
	switch op.Op {
	case opShow:
		return op.Ok == nil || *op.Ok == accepts, shown
	case opRead:
		return op.Value == nil || *op.Value == register.value, register
	}
	isBasedOnIt := *op.BasedOn == register.value
	written := registerState{*op.Value, *op.Fence}
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
