// Package quorlock takes locks from the quorlock sidecar (`quorlock serve`), with nothing but the standard library.
//
//	client := quorlock.New("http://127.0.0.1:7420") // or "unix:/run/quorlock.sock"
//
//	err := client.With(ctx, "invoice:42", func(ctx context.Context, lease *quorlock.Lease) error {
//		return pay(ctx, lease.Fence()) // ctx is cancelled before the lock is lost
//	}, quorlock.TTL(30*time.Second), quorlock.Wait(10*time.Second))
//
// [Client.Hold] holds a lock while a connection to the sidecar is open. The lock is free as soon as this process is gone.
// [Client.Acquire] takes a lock by token, for locks that outlive a connection. Nobody extends it but you.
//
// # Deadlines
//
// A lease ends for this package at its deadline, counted from before the request was sent. So a process that was paused
// at any point does not rely on a lock that is over. [Lease.Check], [Lease.Remaining] and the Err of [Lease.Context] read
// the clock at each call. They are right at once after a pause. The Done channel follows as soon as its timer has run,
// within a second after the machine slept.
//
// The monotonic clock of Go stands still while a Linux or macOS machine sleeps. So this package reads CLOCK_BOOTTIME on
// Linux. On other systems it reads the monotonic clock, and puts it forward when the calendar has leapt ahead of it.
//
// A lease ends a twentieth of its ttl before its deadline, 250 ms at most, so that work can stop in time. Only the fence
// protects a write that is on its way: send it with every write, and let the storage refuse a lower one.
package quorlock
