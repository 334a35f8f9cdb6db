package quorlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	quorlock "github.com/quorlock/quorlock/clients/go"
)

func pay(ctx context.Context, fence uint64) error {
	fmt.Println("paid", fence > 0)
	return ctx.Err()
}

// useTestSidecar names the sidecar of the tests in the environment.
func useTestSidecar() func() {
	os.Setenv("QUORLOCK_SIDECAR", quorlock.SidecarOfTests())
	return func() { os.Unsetenv("QUORLOCK_SIDECAR") }
}

func Example() {
	defer useTestSidecar()()
	ctx := context.Background()

	client := quorlock.New("") // as QUORLOCK_SIDECAR says, else http://127.0.0.1:7420

	err := client.With(ctx, "invoice:42", func(ctx context.Context, lease *quorlock.Lease) error {
		if err := pay(ctx, lease.Fence()); err != nil { // let the database refuse an older fence
			return err
		}
		return lease.Check() // a *LostError as soon as the lock is not ours any more
	}, quorlock.TTL(20*time.Second), quorlock.Wait(10*time.Second))
	fmt.Println(err)
	// Output:
	// paid true
	// <nil>
}

func ExampleClient_Acquire() {
	defer useTestSidecar()()
	ctx := context.Background()

	client := quorlock.New("")
	lease, err := client.Acquire(ctx, "invoice:42", quorlock.Wait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Acquire(ctx, "invoice:42")
	var held *quorlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner != "", "for", held.Left > 0)
	}
	fmt.Println(lease.Extend(ctx))
	fmt.Println(lease.Release(ctx))
	// Output:
	// held by true for true
	// <nil>
	// released <nil>
}

func ExampleElection() {
	defer useTestSidecar()()
	ctx := context.Background()

	election := quorlock.New("").Election("scheduler")
	led, err := election.Campaign(ctx, "10.0.0.7:80") // waits until it leads
	if err != nil {
		fmt.Println(err)
		return
	}
	defer led.Release(ctx)
	for leader, err := range election.Observe(ctx, 0) { // nil: nobody leads any more
		if err != nil {
			fmt.Println(err)
		} else if leader != nil {
			fmt.Println(leader.Value, leader.Term == led.Term())
		}
		break
	}
	// Output:
	// 10.0.0.7:80 true
}
