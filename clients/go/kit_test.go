package quorlock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Five real Redis servers and real sidecars for the tests. QUORLOCK_PROGRAM names the built program.

// No wait in here is meant to last so long; a loaded machine is.
const long = 30 * time.Second

var (
	nodes   *testNodes
	sidecar *testSidecar
	client  *Client
)

func TestMain(m *testing.M) {
	if role := os.Getenv("QUORLOCK_TEST_CALLER"); role != "" {
		callers[role](New(os.Getenv("QUORLOCK_TEST_URL")))
		return
	}
	os.Exit(func() int {
		nodes = startNodes()
		defer nodes.stop()
		sidecar = startSidecar(nodes.urls)
		defer sidecar.stop()
		client = New(sidecar.url)
		// On a loaded machine the nodes may need a moment after their start.
		for tries := 0; tries < 30; tries++ {
			lease, err := client.Hold(context.Background(), "first")
			if err == nil {
				lease.Release(context.Background())
				break
			}
		}
		return m.Run()
	}())
}

func program() string {
	if found := os.Getenv("QUORLOCK_PROGRAM"); found != "" {
		return found
	}
	return filepath.Join("..", "..", "target", "debug", "quorlock")
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func cleanEnvironment(more ...string) []string {
	var clean []string
	for _, one := range os.Environ() {
		if !strings.HasPrefix(one, "QUORLOCK_") {
			clean = append(clean, one)
		}
	}
	return append(clean, more...)
}

func start(command *exec.Cmd) *bufio.Reader {
	out := must(command.StdoutPipe())
	if err := command.Start(); err != nil {
		panic(fmt.Sprintf("%v: build it with `cargo build -p quorlock-cli`", err))
	}
	return bufio.NewReader(out)
}

// testNodes are five servers.
type testNodes struct {
	command *exec.Cmd
	urls    string
	pids    []int
}

func startNodes() *testNodes {
	command := exec.Command(program(), "dev", "--json")
	command.Env = cleanEnvironment()
	var told struct {
		Environment map[string]string
		Nodes       []struct{ PID int }
	}
	if err := json.Unmarshal(must(start(command).ReadBytes('\n')), &told); err != nil {
		panic(err)
	}
	found := &testNodes{command: command, urls: told.Environment["QUORLOCK_NODES"]}
	for _, node := range told.Nodes {
		found.pids = append(found.pids, node.PID)
	}
	return found
}

// kill kills the next ones.
func (n *testNodes) kill(count int) {
	for _, pid := range n.pids[:count] {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	n.pids = n.pids[count:]
}

func (n *testNodes) stop() {
	n.command.Process.Signal(syscall.SIGTERM)
	n.command.Wait()
}

// testSidecar is one on a free port and a unix socket.
type testSidecar struct {
	command        *exec.Cmd
	dir, url, unix string
}

func startSidecar(urls string, more ...string) *testSidecar {
	dir := must(os.MkdirTemp("", "quorlock-client-"))
	config := filepath.Join(dir, "quorlock.toml")
	// For a loaded machine.
	if err := os.WriteFile(config, []byte("node_timeout = \"240ms\"\n"), 0o600); err != nil {
		panic(err)
	}
	unix := "unix:" + filepath.Join(dir, "s.sock")
	words := append([]string{"serve", "--quiet", "--listen", "127.0.0.1:0", "--listen", unix}, more...)
	command := exec.Command(program(), words...)
	command.Env = cleanEnvironment("QUORLOCK_NODES="+urls, "QUORLOCK_CONFIG="+config)
	lines := start(command)
	first := strings.Fields(must(lines.ReadString('\n')))
	must(lines.ReadString('\n'))
	return &testSidecar{command, dir, first[len(first)-1], unix}
}

func newSidecar(t *testing.T, urls string, more ...string) *testSidecar {
	found := startSidecar(urls, more...)
	t.Cleanup(found.stop)
	return found
}

func (s *testSidecar) signal(number syscall.Signal) { s.command.Process.Signal(number) }

func (s *testSidecar) stop() {
	s.command.Process.Kill()
	s.command.Wait()
	os.RemoveAll(s.dir)
}

// recorder passes bytes on to a sidecar or a server, and keeps what was sent and answered.
type recorder struct {
	listener       net.Listener
	url            string
	mutex          sync.Mutex
	sent, answered bytes.Buffer
	open           []net.Conn
	isStopped      bool
}

func newRecorder(t *testing.T, url string, change func([]byte) []byte) *recorder {
	r := &recorder{listener: must(net.Listen("tcp", "127.0.0.1:0"))}
	r.url = "http://" + r.listener.Addr().String()
	_, to, _ := strings.Cut(url, "://")
	go func() {
		for {
			caller, err := r.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				caller.Close()
				continue
			}
			if !r.keep(caller, server) {
				return
			}
			go r.pass(caller, server, &r.sent, nil)
			go r.pass(server, caller, &r.answered, change)
		}
	}()
	t.Cleanup(r.stop)
	return r
}

// keep reports false, and closes the connections, if the recorder was stopped while they came about.
func (r *recorder) keep(connections ...net.Conn) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.isStopped {
		for _, one := range connections {
			one.Close()
		}
		return false
	}
	r.open = append(r.open, connections...)
	return true
}

func (r *recorder) pass(from, to net.Conn, kept *bytes.Buffer, change func([]byte) []byte) {
	data := make([]byte, 65536)
	for {
		read, err := from.Read(data)
		if err != nil {
			to.(*net.TCPConn).CloseWrite()
			return
		}
		r.mutex.Lock()
		kept.Write(data[:read])
		r.mutex.Unlock()
		said := data[:read]
		if change != nil {
			said = change(said)
		}
		to.Write(said)
	}
}

func (r *recorder) hasAnswered() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.answered.String()
}

func (r *recorder) stop() {
	r.listener.Close()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.isStopped = true
	for _, one := range r.open {
		one.Close()
	}
}

var bootClock = regexp.MustCompile(`("deadline_boot_ms":)(\d)`)

// otherBootClock is an answer as a sidecar on another machine gives it, which was started at another time.
func otherBootClock(said []byte) []byte {
	return bootClock.ReplaceAllFunc(said, func(found []byte) []byte {
		last := len(found) - 1
		if found[last] == '9' {
			return append(found[:last:last], '1')
		}
		return append(found[:last:last], '9')
	})
}

// wires are the way from one sidecar to some nodes, which can be cut for most of them.
type wires struct {
	recorders []*recorder
	urls      string
}

func newWires(t *testing.T, count int) *wires {
	w, urls := &wires{}, strings.Split(nodes.urls, ",")
	for at := range urls[:count] {
		w.recorders = append(w.recorders, newRecorder(t, urls[at], nil))
		urls[at] = strings.Replace(w.recorders[at].url, "http:", "redis:", 1)
	}
	w.urls = strings.Join(urls, ",")
	return w
}

func (w *wires) cut() {
	for _, one := range w.recorders {
		one.stop()
	}
}

// caller is a program that uses the client, in a process of its own that can be paused.
type caller struct {
	command *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
}

func newCaller(t *testing.T, role, url string) *caller {
	command := exec.Command(must(os.Executable()))
	command.Env = cleanEnvironment("QUORLOCK_TEST_CALLER="+role, "QUORLOCK_TEST_URL="+url)
	command.Stderr = os.Stderr
	in := must(command.StdinPipe())
	found := &caller{command, in, start(command)}
	t.Cleanup(found.stop)
	return found
}

func (c *caller) line() string {
	said, _ := c.out.ReadString('\n')
	return strings.TrimSpace(said)
}

func (c *caller) tell(line string) { fmt.Fprintln(c.in, line) }

// pause returns when it stands still.
func (c *caller) pause(t *testing.T) {
	c.command.Process.Signal(syscall.SIGSTOP)
	until(t, func() bool {
		stat := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.command.Process.Pid))))
		return strings.HasPrefix(stat[strings.LastIndex(stat, ") ")+2:], "T")
	})
}

func (c *caller) resume() { c.command.Process.Signal(syscall.SIGCONT) }

func (c *caller) stop() {
	c.command.Process.Kill()
	c.command.Wait()
}

func until(t *testing.T, isSo func() bool) {
	t.Helper()
	for start := time.Now(); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > long {
			t.Fatal("it did not come about")
		}
	}
}

func untilWaits(t *testing.T, at *Client, name string) {
	t.Helper()
	until(t, func() bool { return must(at.Status(context.Background(), name)).Waiters == 1 })
}

func untilLost(t *testing.T, lease *Lease) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(long):
		t.Fatal("it was not lost")
	}
	lostBy(t, context.Cause(lease.Context()))
	lostBy(t, lease.Check())
	if left := lease.Remaining(); left != 0 {
		t.Errorf("%v left", left)
	}
}

func lostBy(t *testing.T, err error) {
	t.Helper()
	as[*LostError](t, err)
	hasCode(t, err, Lost)
}

func hasCode(t *testing.T, err error, code Code) {
	t.Helper()
	if CodeOf(err) != code {
		t.Fatalf("%v instead of %s", err, code)
	}
}

func as[T error](t *testing.T, err error) T {
	t.Helper()
	var found T
	if !errors.As(err, &found) {
		t.Fatalf("%T: %v", err, err)
	}
	return found
}

func equal[T any](t *testing.T, is, expected T) {
	t.Helper()
	if !reflect.DeepEqual(is, expected) {
		t.Fatalf("%v instead of %v", is, expected)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
