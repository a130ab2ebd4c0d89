package tokenization

import "strings"

// Ids of the special tokens.
const (
	PAD = iota
	BOS
	EOS
	UNK
)

var specials = []string{"<pad>", "<s>", "</s>", "<unk>"}

// Tokenizer is a vocabulary with its normalisation.
type Tokenizer struct {
	normalizers []func(string) string
	split       splitter
	model       interface{ encode(string) []int }
	pieces      []string // the bytes of each token's text; none for special tokens
	stripsSpace bool     // decoding removes the space that was prepended
	known       map[string][]int
}

// Tokenizers holds the tokenizers of a model's two sides: the same one twice if the vocabulary is joint.
type Tokenizers struct{ Source, Target *Tokenizer }

// VocabSize returns the number of tokens, special tokens included.
func (t *Tokenizer) VocabSize() int { return len(t.pieces) }

// Normalize returns the normalised text, with the prepended space.
func (t *Tokenizer) Normalize(text string) string {
	for _, step := range t.normalizers {
		text = step(text)
	}
	return text
}

// Encode returns the ids of a text, without special tokens. It isn't safe for use by several goroutines at once.
func (t *Tokenizer) Encode(text string) []int {
	var ids []int
	t.each(text, func(_ string, found []int) { ids = append(ids, found...) })
	return ids
}

// UnknownWords returns the distinct words (or characters) of a text that aren't in the vocabulary.
func (t *Tokenizer) UnknownWords(text string) []string {
	var words []string
	if _, ok := t.model.(whole); !ok {
		return nil
	}
	t.each(text, func(piece string, found []int) {
		word := strings.TrimFunc(piece, IsSpace)
		if word == "" {
			word = piece
		}
		if found[0] == UNK && !contains(words, word) {
			words = append(words, word)
		}
	})
	return words
}

// WholeCharacters reports whether the pieces are characters, and not words or parts of words.
func (t *Tokenizer) WholeCharacters() bool { return !t.stripsSpace }

const (
	mostKnown = 200_000 // pieces in the cache; when it's full, it's cleared
	longKnown = 40      // bytes; longer pieces rarely repeat
)

// each calls a function with each piece of a text and its ids.
func (t *Tokenizer) each(text string, take func(string, []int)) {
	text = t.Normalize(text)
	for text != "" {
		n := t.split(text)
		piece := text[:n]
		ids, ok := t.known[piece]
		if !ok {
			ids = t.model.encode(piece)
			if len(t.known) >= mostKnown {
				t.known = map[string][]int{}
			}
			if n <= longKnown {
				t.known[strings.Clone(piece)] = ids
			}
		}
		take(piece, ids)
		text = text[n:]
	}
}

// Bytes returns the bytes of ids.
func (t *Tokenizer) Bytes(ids []int) []byte {
	var out []byte
	for _, id := range ids {
		out = append(out, t.pieces[id]...)
	}
	return out
}

// Decode returns the text of ids, without special tokens. Incomplete characters become U+FFFD.
func (t *Tokenizer) Decode(ids []int) string {
	text := ValidUTF8(t.Bytes(ids))
	if t.stripsSpace {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}

// Continue returns the text that ids add after a prompt. An incomplete last character is left out.
func (t *Tokenizer) Continue(prompt, ids []int) string {
	before, after := t.Bytes(prompt), t.Bytes(ids)
	all := append(append([]byte{}, before...), after...)
	text := ValidUTF8(all[:len(all)-incomplete(all)])
	start := ValidUTF8(before[:len(before)-incomplete(before)])
	rest := strings.TrimPrefix(text, start)
	if t.stripsSpace && start == "" {
		rest = strings.TrimPrefix(rest, " ")
	}
	return rest
}

func contains(values []string, value string) bool {
	for _, it := range values {
		if it == value {
			return true
		}
	}
	return false
}
