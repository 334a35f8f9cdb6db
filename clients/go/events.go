package quorlock

import (
	"bufio"
	"errors"
	"strings"
)

// events reads server-sent events, one after another.
type events struct {
	lines *bufio.Reader
	// heard is called for every line, comments too.
	heard func()
}

func eventsOf(sent *exchange, heard func()) *events {
	sent.limit.left = longestLine
	return &events{lines: bufio.NewReader(sent.answer.Body), heard: func() {
		// Each line may be so long, and there is no end of lines.
		sent.limit.left = longestLine
		heard()
	}}
}

// next gives kind and data of the next event. The error is io.EOF if the sidecar ended the stream in order.
func (e *events) next() (string, []byte, error) {
	kind, data := "message", []string(nil)
	for size := 0; size < longestLine; {
		text, err := e.lines.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		e.heard()
		size += len(text)
		text = strings.TrimRight(text, "\r\n")
		if text == "" {
			if data != nil {
				return kind, []byte(strings.Join(data, "\n")), nil
			}
			kind, size = "message", 0
			continue
		}
		key, value, _ := strings.Cut(text, ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "event":
			kind = value
		case "data":
			data = append(data, value)
		}
	}
	return "", nil, errors.New("the sidecar sent too long an event")
}
