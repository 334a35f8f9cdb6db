package quorlock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// The most that one answer may have.
	longestAnswer = 16 << 20
	// The most that one line of an event, or the head of an answer, may have.
	longestLine = 1 << 20
	// How long the sidecar may take to let go.
	letGoTime = 2 * time.Second
)

// exchange is one request on a connection of its own, and the answer to it.
type exchange struct {
	line   line
	answer *http.Response
	// asked is from before the request was sent. Every deadline is counted from here.
	asked time.Duration
	limit *limitedReader
}

// send writes a request and reads the head of the answer, within timeout. The end of ctx
// hangs up gently: the answer can still be read for a moment.
func (c *Client) send(ctx context.Context, method, path string, body any, timeout time.Duration) (*exchange, error) {
	if c.badAddress != nil {
		return nil, c.badAddress
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("quorlock: %w", err)
	}
	request, err := c.request(method, path, body)
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.address.dial(dialing)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	sent := &exchange{line: conn, limit: &limitedReader{from: conn, left: longestAnswer}}
	conn.SetDeadline(time.Now().Add(timeout))
	stop := context.AfterFunc(ctx, func() {
		conn.CloseWrite()
		conn.SetDeadline(time.Now().Add(letGoTime))
	})
	defer stop()
	sent.asked = c.now()
	// If it cannot be written, the sidecar may have refused it already: then the answer is there.
	unsent := request.Write(conn)
	sent.answer, err = http.ReadResponse(bufio.NewReader(sent.limit), request)
	if err != nil {
		conn.Close()
		return nil, c.failed(ctx, errors.Join(unsent, err))
	}
	return sent, nil
}

func (c *Client) request(method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("quorlock: %w", err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, "http://"+c.address.host+path, content)
	if err != nil {
		return nil, &Error{Code: BadAddress, Detail: err.Error()}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// ask is a whole exchange. found gets the answer.
func (c *Client) ask(ctx context.Context, method, path, name string, body any, timeout time.Duration, found any) (time.Duration, error) {
	sent, err := c.send(ctx, method, path, body, timeout)
	if err != nil {
		return 0, err
	}
	defer sent.line.Close()
	if err := sent.refusal(c, ctx, name); err != nil {
		return 0, err
	}
	said, err := io.ReadAll(sent.answer.Body)
	if err != nil {
		return 0, c.failed(ctx, err)
	}
	if err := json.Unmarshal(said, found); err != nil {
		return 0, &Error{Code: BadAnswer, Status: http.StatusOK, Detail: "the sidecar answered what it should not: " + err.Error()}
	}
	return sent.asked, nil
}

// refusal is the problem that the sidecar answered, if it did.
func (e *exchange) refusal(c *Client, ctx context.Context, name string) error {
	if e.answer.StatusCode == http.StatusOK {
		return nil
	}
	said, err := io.ReadAll(e.answer.Body)
	if err != nil {
		return c.failed(ctx, err)
	}
	return problemError(name, e.answer.StatusCode, said)
}

// failed tells the end of ctx from a sidecar that does not answer.
func (c *Client) failed(ctx context.Context, cause error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("quorlock: %w", err)
	}
	detail := fmt.Sprintf("the sidecar at %s does not answer: %v", c.address.text, cause)
	return &UnreachableError{Err: &Error{Code: Unreachable, Detail: detail}, Cause: cause}
}

// limitedReader reads no more than what is left of a bound, which can be renewed.
type limitedReader struct {
	from io.Reader
	left int
}

func (r *limitedReader) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errors.New("the sidecar sent more than fits")
	}
	read, err := r.from.Read(into[:min(len(into), r.left)])
	r.left -= read
	return read, err
}

func pathOf(place, name string, rest ...string) string {
	quoted := url.PathEscape(name)
	if name == "." || name == ".." {
		// It would be taken for a step in the path.
		quoted = strings.ReplaceAll(name, ".", "%2E")
	}
	return "/v1/" + place + "/" + quoted + strings.Join(rest, "")
}
