package quorlock

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var ctx = context.Background()

func TestOneHoldsItAndTheOtherIsToldWho(t *testing.T) {
	lease, err := client.Hold(ctx, "one", TTL(20*time.Second), Owner("ann"), Reason("a test"))
	ok(t, err)
	ok(t, lease.Check())
	ok(t, lease.Extend(ctx))
	if lease.Remaining() < 10*time.Second || lease.Context().Err() != nil {
		t.Fatal("it is ours")
	}
	_, err = client.Hold(ctx, "one", Wait(0))
	held := as[*HeldError](t, err)
	equal(t, []any{held.Holder.Owner, held.Holder.Reason, held.Err.Status, held.Err.Code}, []any{"ann", "a test", 409, Held})
	if held.Left < 10*time.Second {
		t.Fatal(held.Left)
	}
	start := time.Now()
	_, err = client.Hold(ctx, "one", Wait(300*time.Millisecond))
	hasCode(t, err, WaitOver)
	as[*HeldError](t, err)
	if waited := time.Since(start); waited < 300*time.Millisecond || waited > 10*time.Second {
		t.Fatal(waited)
	}
	for range 2 {
		outcome, err := lease.Release(ctx)
		ok(t, err)
		equal(t, outcome, Released)
	}
	if !errors.Is(context.Cause(lease.Context()), ErrReleased) || lease.Remaining() != 0 || lease.Check() != ErrReleased {
		t.Fatal("it was released")
	}
	// Free the moment that it was released.
	must(must(client.Hold(ctx, "one", Wait(0))).Release(ctx))
	// A hold whose lock is gone is not released but lost.
	lease = must(client.Hold(ctx, "one"))
	must(client.Release(ctx, lease.Handle()))
	_, err = lease.Release(ctx)
	lostBy(t, err)
}

func TestWhoeverWaitsGetsItNextWithALargerFence(t *testing.T) {
	first := must(client.Hold(ctx, "next"))
	fences := make(chan uint64, 1)
	go func() {
		second := must(client.Hold(ctx, "next", Wait(long)))
		fences <- second.Fence()
		second.Release(ctx)
	}()
	untilWaits(t, client, "next")
	first.Release(ctx)
	if <-fences <= first.Fence() {
		t.Fatal("fences rise")
	}
}

func TestReadersShareAndKeepAWriterOut(t *testing.T) {
	ann := must(client.Hold(ctx, "shared", Shared(), Owner("ann")))
	bob := must(client.Hold(ctx, "shared", Shared(), Owner("bob")))
	_, err := client.Hold(ctx, "shared", Wait(0))
	readers := as[*HeldError](t, err).Readers
	equal(t, []string{readers[0].Owner, readers[1].Owner}, []string{"ann", "bob"})
	found := must(client.Status(ctx, "shared"))
	equal(t, []any{found.Mode, found.Holder == nil, len(found.Readers), ann.Mode()}, []any{"shared", true, 2, "shared"})
	ann.Release(ctx)
	bob.Release(ctx)
	writer := must(client.Hold(ctx, "shared", Wait(long)))
	equal(t, must(client.Status(ctx, "shared")).Mode, "exclusive")
	writer.Release(ctx)
}

func TestSeveralNamesAreHeldTogetherOrNotAtAll(t *testing.T) {
	both := must(client.HoldAll(ctx, []string{"set b", "set/a"}, Owner("ann")))
	equal(t, both.Name(), "set b")
	equal(t, both.Names(), []string{"set b", "set/a"})
	_, err := client.HoldAll(ctx, []string{"set c", "set/a"}, Wait(0))
	hasCode(t, err, NamesHeld)
	held := as[*HeldError](t, err).Names
	equal(t, []any{len(held), held[0].Name, held[0].Holder.Owner}, []any{1, "set/a", "ann"})
	equal(t, must(client.Status(ctx, "set c")).Held, false)
	both.Release(ctx)
	alone := must(client.HoldAll(ctx, []string{"set/a"}, Wait(long)))
	equal(t, alone.Names(), []string{"set/a"})
	alone.Release(ctx)
	many := make([]string, 17)
	for at := range many {
		many[at] = "set-" + strconv.Itoa(at)
	}
	for _, names := range [][]string{nil, {"twice", "twice"}, many} {
		_, err := client.HoldAll(ctx, names)
		hasCode(t, err, BadRequest)
	}
}

func TestPermitsAreNeverMoreThanSlots(t *testing.T) {
	var mutex sync.Mutex
	var workers sync.WaitGroup
	holding := 0
	for range 5 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for range 3 {
				permit, err := client.Semaphore(ctx, "slots", 2, Wait(long))
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				if holding++; holding > 2 {
					t.Error("more permits than slots")
				}
				mutex.Unlock()
				time.Sleep(5 * time.Millisecond)
				mutex.Lock()
				holding--
				mutex.Unlock()
				permit.Release(ctx)
			}
		}()
	}
	workers.Wait()
	one, two := must(client.Semaphore(ctx, "slots", 2, Wait(long))), must(client.Semaphore(ctx, "slots", 2, Wait(long)))
	equal(t, one.Slot()+two.Slot(), 1)
	_, err := client.Semaphore(ctx, "slots", 2, Wait(0))
	hasCode(t, err, NoPermit)
	as[*HeldError](t, err)
	_, err = client.Semaphore(ctx, "slots", 3, Wait(0))
	equal(t, as[*SlotsDifferError](t, err).Recorded, 2)
	one.Release(ctx)
	two.Release(ctx)
	for _, slots := range []int{0, 1025} {
		_, err := client.Semaphore(ctx, "slots", slots)
		hasCode(t, err, BadRequest)
	}
}

func TestLeasesByTokenCoverReadersSetsAndPermitsAtAnotherSidecarToo(t *testing.T) {
	other := New(newSidecar(t, nodes.urls).url)
	for number, how := range []Option{Shared(), Names("token-b"), Slots(3)} {
		for _, elsewhere := range []*Client{client, other} {
			// Released elsewhere, a name stays claimed here until its deadline: so each has its own.
			lease := must(client.Acquire(ctx, fmt.Sprintf("token-%d", number), TTL(20*time.Second), how))
			longer := must(elsewhere.Extend(ctx, lease.Handle(), TTL(25*time.Second)))
			equal(t, []any{longer.Fence(), longer.Names(), longer.Slot()}, []any{lease.Fence(), lease.Names(), lease.Slot()})
			equal(t, must(elsewhere.Release(ctx, lease.Handle())), Released)
			lostBy(t, lease.Extend(ctx))
			lostBy(t, context.Cause(lease.Context()))
		}
	}
}

func TestOneLeadsAfterAnotherAndFollowersSeeIt(t *testing.T) {
	election := client.Election("chair/1")
	equal(t, must(election.Leader(ctx)), nil)
	watching, stopWatching := context.WithCancel(ctx)
	leaders := make(chan *Leader)
	ended := make(chan error, 1)
	go func() {
		for leader, err := range election.Observe(watching, 0) {
			if err != nil {
				ended <- err
				return
			}
			leaders <- leader
		}
	}()
	first := must(election.Campaign(ctx, "a:1", Owner("ann")))
	leader := must(election.Leader(ctx))
	equal(t, []any{leader.Value, leader.Term, leader.Owner}, []any{"a:1", first.Term(), "ann"})
	equal(t, (<-leaders).Term, first.Term())
	seconds := make(chan *Leadership)
	go func() { seconds <- must(election.Campaign(ctx, "b:2")) }()
	untilWaits(t, client, "chair/1")
	_, err := election.Campaign(ctx, "c:3", Wait(0))
	as[*HeldError](t, err)
	first.Release(ctx)
	second := <-seconds
	if second.Term() <= first.Term() || second.Value() != "b:2" {
		t.Fatal(second)
	}
	seen := <-leaders
	if seen == nil {
		seen = <-leaders // Nobody led for a moment.
	}
	equal(t, []any{seen.Value, seen.Term}, []any{"b:2", second.Term()})
	second.Release(ctx)
	equal(t, <-leaders, nil)
	stopWatching()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for leader, err := range election.Observe(ctx, second.Term()) {
		ok(t, err)
		equal(t, leader, nil)
		break
	}
	_, err = election.Campaign(ctx, "")
	hasCode(t, err, BadRequest)
}

func TestTheEndOfTheContextEndsTheWaitingAndLeavesNoLockBehind(t *testing.T) {
	for _, take := range []func(context.Context, string, ...Option) (*Lease, error){client.Hold, client.Acquire} {
		lease := must(client.Hold(ctx, "given-up", Wait(long)))
		waiting, giveUp := context.WithCancel(ctx)
		failed := make(chan error)
		go func() {
			_, err := take(waiting, "given-up", TTL(30*time.Second), Wait(long))
			failed <- err
		}()
		untilWaits(t, client, "given-up")
		giveUp()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		until(t, func() bool { return must(client.Status(ctx, "given-up")).Waiters == 0 })
		lease.Release(ctx)
		must(must(client.Hold(ctx, "given-up", Wait(0))).Release(ctx))
		_, err := take(waiting, "given-up")
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func TestTheEndOfTheContextReleasesAHold(t *testing.T) {
	holding, end := context.WithCancelCause(ctx)
	lease := must(client.Hold(holding, "ended"))
	why := errors.New("the request is over")
	end(why)
	<-lease.Context().Done()
	equal(t, context.Cause(lease.Context()), why)
	until(t, func() bool { return !must(client.Status(ctx, "ended")).Held })
	outcome, err := lease.Release(holding)
	ok(t, err)
	equal(t, outcome, Released)
	// A lease by token outlives the context of the call, and is released also with one that is over.
	waiting, end2 := context.WithCancel(ctx)
	taken := must(client.Acquire(waiting, "outlives"))
	end2()
	ok(t, taken.Check())
	ok(t, taken.Context().Err())
	equal(t, must(taken.Release(waiting)), Released)
	equal(t, must(client.Status(ctx, "outlives")).Held, false)
}

func TestWithPassesErrorsOnAndLetsGo(t *testing.T) {
	ok(t, client.With(ctx, "work", func(ctx context.Context, lease *Lease) error {
		if lease.Fence() == 0 {
			return errors.New("it has a fence")
		}
		return ctx.Err()
	}))
	ours := errors.New("of the work")
	err := client.With(ctx, "work", func(context.Context, *Lease) error { return ours }, TTL(5*time.Second), Wait(0))
	if !errors.Is(err, ours) {
		t.Fatal(err)
	}
	func() {
		defer func() { equal(t, recover(), any("panic")) }()
		client.With(ctx, "work", func(context.Context, *Lease) error { panic("panic") }, Wait(0))
	}()
	equal(t, must(client.Status(ctx, "work")).Held, false)
	// The lock is kept until the work has ended, also if the context ends before.
	working, end := context.WithCancel(ctx)
	ok(t, client.With(working, "work", func(ctx context.Context, lease *Lease) error {
		end()
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond)
		_, err := client.Hold(context.Background(), "work", Wait(0))
		hasCode(t, err, Held)
		return lease.Check()
	}))
	must(must(client.Hold(ctx, "work", Wait(0))).Release(ctx))
}

func TestItOutlivesItsTTLWhileItIsHeld(t *testing.T) {
	// On a loaded machine an extension may be a second late.
	lease := must(client.Hold(ctx, "kept", TTL(4*time.Second)))
	time.Sleep(5 * time.Second)
	ok(t, lease.Check())
	ok(t, lease.Context().Err())
	must(lease.Release(ctx))
}

func TestForcedAwayItIsLost(t *testing.T) {
	operator := New(sidecar.unix)
	err := client.With(ctx, "forced", func(_ context.Context, lease *Lease) error {
		token := must(operator.Status(ctx, "forced")).Token
		equal(t, must(operator.ForceRelease(ctx, Handle{Name: "forced", Token: token})), Released)
		untilLost(t, lease)
		return nil
	}, TTL(6*time.Second))
	lostBy(t, err)
	if !strings.Contains(err.Error(), "forced") {
		t.Fatal(err)
	}
}

func TestTakenExtendedAndReleasedByToken(t *testing.T) {
	lease := must(client.Acquire(ctx, "token", TTL(20*time.Second), Reason("by token")))
	handle := lease.Handle()
	if !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(handle.Token) {
		t.Fatal("no token")
	}
	if said := fmt.Sprintf("%v %+v %#v %v %#v", lease, lease, lease, handle, handle); strings.Contains(said, handle.Token) {
		t.Fatal("the token is in", said)
	}
	ok(t, lease.Extend(ctx, TTL(25*time.Second)))
	if lease.Remaining() < 20*time.Second {
		t.Fatal(lease.Remaining())
	}
	found := must(client.Status(ctx, "token"))
	equal(t, []any{found.Held, found.Fence, found.Holder.Reason, found.Token}, []any{true, lease.Fence(), "by token", ""})
	equal(t, must(lease.Release(ctx)), Released)
	_, err := client.Release(ctx, handle)
	lostBy(t, err)
	_, err = client.Extend(ctx, handle)
	lostBy(t, err)
	equal(t, must(client.Status(ctx, "token")).Held, false)
}

func TestNobodyElseExtendsALease(t *testing.T) {
	lease := must(client.Acquire(ctx, "short", TTL(time.Second)))
	again := must(client.Acquire(ctx, "short", TTL(20*time.Second), Wait(long)))
	untilLost(t, lease)
	lostBy(t, lease.Extend(ctx))
	_, err := lease.Release(ctx)
	lostBy(t, err)
	if again.Fence() <= lease.Fence() {
		t.Fatal("fences rise")
	}
	must(again.Release(ctx))
}

func TestAnyNameIsAName(t *testing.T) {
	for _, name := range []string{"Straße/東京 #1?%20&x=y", "a/b/../c", ".", "..", "🔒", "%", " ", "a+b;c", strings.Repeat("x", 512)} {
		lease, err := client.Hold(ctx, name, Reason("für alle"))
		ok(t, err)
		found := must(client.Status(ctx, name))
		equal(t, []any{found.Name, found.Held}, []any{name, true})
		lease.Release(ctx)
	}
	lease := must(client.Hold(ctx, "Straße/東京"))
	until(t, func() bool {
		return slices.ContainsFunc(must(client.List(ctx)), func(one LockView) bool { return one.Name == "Straße/東京" })
	})
	lease.Release(ctx)
	if !bytes.Contains(must(client.Overview(ctx)), []byte(`"quorum"`)) {
		t.Fatal("no overview")
	}
}

func TestWhatCannotBeUsedIsToldApart(t *testing.T) {
	handle := Handle{Name: "x", Token: "no token"}
	for _, one := range []struct {
		call func() error
		code Code
	}{
		{func() error { _, err := client.Acquire(ctx, ""); return err }, BadName},
		{func() error { _, err := client.Acquire(ctx, "tab\t"); return err }, BadName},
		{func() error { _, err := client.Acquire(ctx, strings.Repeat("x", 513)); return err }, BadName},
		{func() error { _, err := client.Acquire(ctx, "quorlock:epoch"); return err }, BadName},
		{func() error { _, err := client.Acquire(ctx, "x", TTL(0)); return err }, BadTTL},
		{func() error { _, err := client.Acquire(ctx, "x", TTL(-time.Second)); return err }, BadRequest},
		{func() error { _, err := client.Acquire(ctx, "x", Wait(300*time.Hour)); return err }, BadRequest},
		{func() error { _, err := client.Hold(ctx, "x", TTL(0)); return err }, BadTTL},
		{func() error { _, err := client.Hold(ctx, "new\nline"); return err }, BadName},
		{func() error { _, err := client.Extend(ctx, handle); return err }, BadToken},
		{func() error { _, err := client.Release(ctx, handle); return err }, BadToken},
	} {
		err := one.call()
		hasCode(t, err, one.code)
		if status := as[*Error](t, err).Status; status < 400 || status > 499 {
			t.Fatal(err)
		}
	}
	for _, url := range []string{"localhost:7420", "ftp://x", "unix:relative", "http://x/path", "http://user:secret@x", "http://us er:secret@x"} {
		_, err := New(url).Hold(ctx, "x")
		hasCode(t, err, BadAddress)
		if strings.Contains(err.Error(), "secret") {
			t.Fatal(err)
		}
	}
	guessing := New(sidecar.url, WithToken("guessed-guessed"))
	_, err := guessing.Acquire(ctx, "x")
	hasCode(t, err, Unauthorized)
	if said := fmt.Sprintf("%v %+v %#v", guessing, guessing, guessing); strings.Contains(said, "guessed") {
		t.Fatal("the secret is in", said)
	}
	for _, url := range []string{"http://127.0.0.1:1", "unix:/nowhere/at/all.sock"} {
		_, err := New(url).Acquire(ctx, "x")
		as[*UnreachableError](t, err)
		_, err = New(url).Hold(ctx, "x")
		hasCode(t, err, Unreachable)
	}
}

func TestTokensAreNeverInAddresses(t *testing.T) {
	recorded := newRecorder(t, sidecar.url, nil)
	_, err := New(recorded.url, WithToken("a-secret-of-the-token-file")).Acquire(ctx, "seen")
	hasCode(t, err, Unauthorized)
	through := New(recorded.url)
	hold := must(through.Hold(ctx, "seen"))
	hold.Release(ctx)
	lease := must(through.Acquire(ctx, "seen", Wait(long)))
	ok(t, lease.Extend(ctx))
	must(lease.Release(ctx))
	lines := regexp.MustCompile(`(?:GET|POST) /\S* HTTP/1.1\r\n`).FindAllString(recorded.sent.String(), -1)
	equal(t, len(lines), 6)
	for _, line := range lines {
		for _, secret := range []string{hold.Handle().Token, lease.Handle().Token, "a-secret-of-the-token-file"} {
			if strings.Contains(line, secret) {
				t.Fatal(line)
			}
		}
	}
}

func TestScopes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	ok(t, os.WriteFile(file, []byte("read:read-secret-0123456789\nlock:lock-secret-0123456789\nwrite:write-secret-0123456789\n"), 0o600))
	guarded := newSidecar(t, nodes.urls, "--token-file", file)
	for _, url := range []string{guarded.url, guarded.unix} {
		with := func(scope string) *Client { return New(url, WithToken(scope+"-secret-0123456789")) }
		_, err := New(url).Acquire(ctx, "scoped")
		hasCode(t, err, Unauthorized)
		_, err = with("guessed").Hold(ctx, "scoped")
		hasCode(t, err, Unauthorized)
		_, err = with("read").Acquire(ctx, "scoped")
		hasCode(t, err, Forbidden)
		lease := must(with("lock").Hold(ctx, "scoped"))
		_, err = with("lock").ForceRelease(ctx, lease.Handle())
		hasCode(t, err, Forbidden)
		equal(t, must(with("write").Status(ctx, "scoped")).Token, lease.Handle().Token)
		lease.Release(ctx)
	}
}

func TestAHundredHoldsLoseNoUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counter")
	ok(t, os.WriteFile(file, []byte("0"), 0o600))
	var crowd sync.WaitGroup
	var fences []uint64
	for range 100 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			err := client.With(ctx, "crowd", func(_ context.Context, lease *Lease) error {
				before := must(strconv.Atoi(string(must(os.ReadFile(file)))))
				time.Sleep(time.Millisecond)
				fences = append(fences, lease.Fence())
				return os.WriteFile(file, []byte(strconv.Itoa(before+1)), 0o600)
			}, TTL(20*time.Second), Wait(100*time.Second))
			if err != nil {
				t.Error(err)
			}
		}()
	}
	crowd.Wait()
	equal(t, string(must(os.ReadFile(file))), "100")
	if !slices.IsSorted(fences) || len(slices.Compact(fences)) != 100 {
		t.Fatal("every fence is above the one before")
	}
}

func TestTheEnvironmentNamesTheSidecar(t *testing.T) {
	t.Setenv("QUORLOCK_SIDECAR", sidecar.unix)
	must(must(New("").Hold(ctx, "environment")).Release(ctx))
}

func TestItWorksOverTLS(t *testing.T) {
	dir := t.TempDir()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	certFile, keyFile, roots := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	roots.AppendCertsFromPEM(text)
	ok(t, os.WriteFile(certFile, text, 0o600))
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
	ok(t, os.WriteFile(keyFile, secret, 0o600))
	secure := newSidecar(t, nodes.urls, "--tls-cert", certFile, "--tls-key", keyFile)
	_, err := New(secure.url).Hold(ctx, "secure")
	as[*UnreachableError](t, err)
	caller := New(secure.url, WithTLS(&tls.Config{RootCAs: roots}))
	lease, err := caller.Hold(ctx, "secure")
	ok(t, err)
	equal(t, must(lease.Release(ctx)), Released)
	taken := must(caller.Acquire(ctx, "secure"))
	must(taken.Release(ctx))
}
