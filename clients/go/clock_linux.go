package quorlock

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

var fallback longerClock

// bootTime reads CLOCK_BOOTTIME, which goes on while the machine sleeps.
func bootTime() time.Duration {
	var at syscall.Timespec
	// The package syscall has no function for it.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&at)), 0)
	if errno != 0 {
		return fallback.now()
	}
	return time.Duration(at.Nano())
}
