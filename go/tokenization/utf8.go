package tokenization

import (
	"strings"
	"unicode/utf8"
)

// ValidUTF8 decodes bytes. As in Python, each longest start of a character that isn't completed becomes one U+FFFD.
func ValidUTF8(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	var out strings.Builder
	for len(data) > 0 {
		char, size := utf8.DecodeRune(data)
		if char == utf8.RuneError && size == 1 {
			size = maximalStart(data)
		}
		out.WriteRune(char)
		data = data[size:]
	}
	return out.String()
}

// maximalStart returns the number of bytes that a valid character could start with, at least 1.
func maximalStart(data []byte) int {
	n := 1
	for n < len(data) && n < 4 && isStart(data[:n+1]) {
		n++
	}
	return n
}

// isStart reports whether bytes are the start of a valid character, without its last byte.
func isStart(data []byte) bool {
	first, second := data[0], data[1]
	length := 0
	low, high := byte(0x80), byte(0xBF)
	switch {
	case 0xC2 <= first && first <= 0xDF:
		length = 2
	case 0xE0 <= first && first <= 0xEF:
		length = 3
	case 0xF0 <= first && first <= 0xF4:
		length = 4
	}
	switch first {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	if len(data) >= length || second < low || second > high {
		return false
	}
	for _, b := range data[2:] {
		if b < 0x80 || b > 0xBF {
			return false
		}
	}
	return true
}

// incomplete returns the number of bytes at the end that start a character without completing it.
func incomplete(data []byte) int {
	for n := 1; n <= 3 && n <= len(data); n++ {
		tail := data[len(data)-n:]
		if n == 1 && 0xC2 <= tail[0] && tail[0] <= 0xF4 || n > 1 && isStart(tail) {
			return n
		}
	}
	return 0
}
