package quorlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
)

const (
	defaultURL  = "http://127.0.0.1:7420"
	defaultPort = "7420"
)

// address is where the sidecar listens.
type address struct {
	// text is for messages.
	text, network, target, host string
	tls                         *tls.Config
}

func parseAddress(text string, config *tls.Config) (address, error) {
	bad := func(detail string) (address, error) {
		return address{}, &Error{Code: BadAddress, Detail: detail}
	}
	if path, isUnix := strings.CutPrefix(text, "unix:"); isUnix {
		path = strings.TrimPrefix(path, "//")
		if !strings.HasPrefix(path, "/") {
			return bad(fmt.Sprintf("%q names no socket: unix:/run/quorlock.sock", text))
		}
		return address{text: text, network: "unix", target: path, host: "localhost"}, nil
	}
	parts, err := url.Parse(text)
	if err == nil && (parts.User != nil || parts.RawQuery != "") {
		return bad("a token does not belong into the address: quorlock.New(url, quorlock.WithToken(token))")
	}
	if err != nil || (parts.Scheme != "http" && parts.Scheme != "https") || parts.Hostname() == "" || strings.Trim(parts.Path, "/") != "" {
		// The text may contain a secret that the parser did not find.
		return bad("the address is no sidecar: http://127.0.0.1:7420 or unix:/run/quorlock.sock")
	}
	port := parts.Port()
	if port == "" {
		port = defaultPort
	}
	host := net.JoinHostPort(parts.Hostname(), port)
	found := address{text: parts.Scheme + "://" + host, network: "tcp", target: host, host: host}
	if parts.Scheme == "https" {
		if config == nil {
			config = &tls.Config{}
		}
		found.tls = config.Clone()
		if found.tls.ServerName == "" {
			found.tls.ServerName = parts.Hostname()
		}
		found.tls.NextProtos = nil // HTTP/1.1: a hold is a connection.
	}
	return found, nil
}

// line is a connection whose half can be ended.
type line interface {
	net.Conn
	CloseWrite() error
}

func (a address) dial(ctx context.Context) (line, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, a.network, a.target)
	if err != nil {
		return nil, err
	}
	if a.tls == nil {
		return conn.(line), nil
	}
	secure := tls.Client(conn, a.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}
