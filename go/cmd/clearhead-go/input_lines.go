package main

import (
	"bytes"
	"fmt"
	"io"

	"clearhead/apps"
	"clearhead/tokenization"
)

const (
	block = 1 << 16 // bytes per read: the capacity of a pipe
	most  = 1000    // lines per group
)

// eachGroup calls a function with the lines that have arrived so far. A program that sends a single line gets its
// answer at once, and many lines are answered as a batch. Lines end with LF or CR LF.
func eachGroup(in io.Reader, answer func([]apps.Line) error) error {
	number, rest, buffer := 0, []byte(nil), make([]byte, block)
	for {
		n, err := in.Read(buffer)
		rest = append(rest, buffer[:n]...)
		ended := err == io.EOF
		if err != nil && !ended {
			return fmt.Errorf("can't read standard input: %w", err)
		}
		var lines []apps.Line
		for len(rest) > 0 {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole && !ended {
				break
			}
			number++
			lines, rest = append(lines, lineOf(number, line)), after
		}
		for len(lines) > 0 {
			group := lines
			if len(group) > most {
				group = group[:most]
			}
			if err := answer(group); err != nil {
				return err
			}
			lines = lines[len(group):]
		}
		if ended {
			return nil
		}
	}
}

// lineOf decodes a line without its final CR. On the first line, it also removes a byte order mark.
func lineOf(number int, data []byte) apps.Line {
	data = bytes.TrimSuffix(data, []byte("\r"))
	if number == 1 {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	text := tokenization.ValidUTF8(data)
	return apps.Line{Number: number, Text: text, Damaged: text != string(data)}
}
