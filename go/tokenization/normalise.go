// Package tokenization converts text to token ids and back, as clearhead/tokenization does.
//
//	text -> Unicode form, case, whitespace -> prepend a space -> split into pieces -> vocabulary
package tokenization

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// nfc returns the canonical composition of a text.
func nfc(text string) string { return composed(text, canonicalDecompositions) }

// nfkc returns the compatibility composition of a text.
func nfkc(text string) string { return composed(text, compatibilityDecompositions) }

// composed decomposes a text, orders its combining marks, and composes it.
func composed(text string, decompositions []runeText) string {
	if isASCII(text) {
		return text
	}
	chars := decomposed(text, decompositions)
	for start := 0; start < len(chars); start++ {
		end := start
		for end < len(chars) && combiningClass(chars[end]) != 0 {
			end++
		}
		marks := chars[start:end]
		sort.SliceStable(marks, func(i, j int) bool { return combiningClass(marks[i]) < combiningClass(marks[j]) })
		if end > start {
			start = end - 1
		}
	}
	return recomposed(chars)
}

func decomposed(text string, decompositions []runeText) []rune {
	chars := make([]rune, 0, len(text))
	for _, char := range text {
		if syllables <= char && char < syllables+nLeading*nVowels*nTrailing {
			chars = append(chars, decomposeHangul(char)...)
		} else if parts, ok := mapped(decompositions, char); ok {
			chars = append(chars, []rune(parts)...)
		} else {
			chars = append(chars, char)
		}
	}
	return chars
}

// recomposed composes each character with the last starter, unless a mark between them blocks it.
func recomposed(chars []rune) string {
	out, starter, last := make([]rune, 0, len(chars)), -1, uint8(0)
	for _, char := range chars {
		class := combiningClass(char)
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || last != 0 && last < class) {
			if whole, ok := compose(out[starter], char); ok {
				out[starter] = whole
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		out, last = append(out, char), class
	}
	return string(out)
}

// lowered returns the lower case of each character, whatever the characters around it.
func lowered(text string) string {
	var out strings.Builder
	for _, char := range text {
		switch lower, ok := mapped(lowercase, char); {
		case ok:
			out.WriteString(lower)
		default:
			out.WriteRune(char)
		}
	}
	return out.String()
}

// folded replaces each run of whitespace by a space.
func folded(text string) string {
	var out strings.Builder
	inside := false
	for _, char := range text {
		space := IsSpace(char)
		switch {
		case space && !inside:
			out.WriteByte(' ')
		case !space:
			out.WriteRune(char)
		}
		inside = space
	}
	return out.String()
}

func isASCII(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// byteLetters writes each byte as one printable character, as in GPT-2.
var byteLetters = func() (letters [256]rune) {
	next := rune(0x100)
	for b := range letters {
		if 0x21 <= b && b < 0x7F || 0xA1 <= b && b < 0xAD || 0xAE <= b {
			letters[b] = rune(b)
		} else {
			letters[b] = next
			next++
		}
	}
	return letters
}()

var letterBytes = func() (bytes [0x200]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, letter := range byteLetters {
		bytes[letter] = int16(b)
	}
	return bytes
}()

// pieceBytes returns the bytes of text that a piece represents.
func pieceBytes(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, letter := range piece {
		if int(letter) >= len(letterBytes) || letterBytes[letter] < 0 {
			return piece // from another program's vocabulary
		}
		out = append(out, byte(letterBytes[letter]))
	}
	return string(out)
}
