//go:build !linux

package quorlock

import "time"

var clock longerClock

// bootTime goes on while the machine sleeps.
func bootTime() time.Duration { return clock.now() }
