package tokenization

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"clearhead/errors"
)

// TokenID returns the id of a token in its printable form.
func (t *Tokenizer) TokenID(piece string) (int, error) {
	for id := range t.pieces {
		if t.Pieces([]int{id})[0] == piece {
			return id, nil
		}
	}
	return 0, &errors.Error{What: fmt.Sprintf("the token %q isn't in the vocabulary", piece),
		Expected: "a token as `translate --json` prints it", Name: "token"}
}

// Pieces returns ids in printable form: "▁" for a space, escapes for unprintable and incomplete characters.
func (t *Tokenizer) Pieces(ids []int) []string {
	shown := make([]string, len(ids))
	for i, id := range ids {
		if id < len(specials) {
			shown[i] = specials[id]
		} else {
			shown[i] = displayForm(t.pieces[id])
		}
	}
	return shown
}

func displayForm(text string) string {
	var out strings.Builder
	for text != "" {
		char, size := utf8.DecodeRuneInString(text)
		switch {
		case char == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case char == ' ':
			out.WriteRune('▁')
		case !inRanges(unprintableRanges, char):
			out.WriteRune(char)
		default:
			out.WriteString(escape(char))
		}
		text = text[size:]
	}
	return out.String()
}

// escape returns Python's escape of an unprintable character.
func escape(char rune) string {
	switch char {
	case '\t':
		return `\t`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	}
	switch {
	case char < 0x100:
		return fmt.Sprintf(`\x%02x`, char)
	case char < 0x10000:
		return fmt.Sprintf(`\u%04x`, char)
	}
	return fmt.Sprintf(`\U%08x`, char)
}
