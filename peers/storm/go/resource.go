package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// resource is what the locks protect: a value for each name on a server that is always up. Each is written as
// ID<PARENT: the write, and the write whose value was read before.
type resource struct {
	connection net.Conn
	replies    *bufio.Reader
}

func open(socket string) *resource {
	connection, err := net.Dial("unix", socket)
	check(err)
	return &resource{connection, bufio.NewReader(connection)}
}

// read returns the ID of the last write.
func (r *resource) read(name string) string {
	id, _, _ := strings.Cut(r.ask("GET", "plain:"+name), "<")
	return id
}

func (r *resource) write(name, id, parent string) {
	r.ask("SET", "plain:"+name, id+"<"+parent)
}

func (r *resource) ask(words ...string) string {
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	_, err := io.WriteString(r.connection, request)
	check(err)
	line, err := r.replies.ReadString('\n')
	check(err)
	if line[0] != '$' || line[1] == '-' {
		return ""
	}
	length, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	check(err)
	text := make([]byte, length+2)
	_, err = io.ReadFull(r.replies, text)
	check(err)
	return string(text[:length])
}
