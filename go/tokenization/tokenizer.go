package tokenization

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"clearhead/errors"
)

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

type stage struct {
	Type          string
	Normalizers   []stage
	Pretokenizers []stage
	Decoders      []stage
	Pattern       struct{ Regex string }
	Content       string
	Prepend       string
}

type file struct {
	AddedTokens  []struct{ Content string } `json:"added_tokens"`
	Normalizer   stage
	PreTokenizer stage `json:"pre_tokenizer"`
	Decoder      stage
	Model        struct {
		Type    string
		Vocab   json.RawMessage
		Merges  []json.RawMessage
		UnkID   *int     `json:"unk_id"`
		Dropout *float64 `json:"dropout"`
		Ignore  bool     `json:"ignore_merges"`
		Prefix  string   `json:"continuing_subword_prefix"`
		Suffix  string   `json:"end_of_word_suffix"`
	}
}

// Parse reads the content of tokenizer.json: one tokenizer, or {"source": ..., "target": ...}.
func Parse(data []byte) (Tokenizers, error) {
	var sides struct{ Source, Target json.RawMessage }
	if err := json.Unmarshal(data, &sides); err != nil {
		return Tokenizers{}, damaged("it isn't JSON: %v", err)
	}
	if sides.Source == nil || sides.Target == nil {
		one, err := parseOne(data)
		return Tokenizers{one, one}, err
	}
	source, err := parseOne(sides.Source)
	if err != nil {
		return Tokenizers{}, err
	}
	target, err := parseOne(sides.Target)
	return Tokenizers{source, target}, err
}

func parseOne(data []byte) (*Tokenizer, error) {
	var found file
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, damaged("%v", err)
	}
	tokenizer := &Tokenizer{known: map[string][]int{}}
	for _, read := range []func(file) error{tokenizer.readNormalizer, tokenizer.readSplitter, tokenizer.readDecoder,
		tokenizer.readModel} {
		if err := read(found); err != nil {
			return nil, err
		}
	}
	for _, added := range found.AddedTokens {
		if !contains(specials, added.Content) {
			return nil, unsupported("added token", added.Content)
		}
	}
	return tokenizer, nil
}

func (t *Tokenizer) readNormalizer(found file) error {
	for _, it := range found.Normalizer.Normalizers {
		switch {
		case it.Type == "NFC":
			t.normalizers = append(t.normalizers, nfc)
		case it.Type == "NFKC":
			t.normalizers = append(t.normalizers, nfkc)
		case it.Type == "Lowercase":
			t.normalizers = append(t.normalizers, lowered)
		case it.Type == "Replace" && it.Pattern.Regex == `\s+` && it.Content == " ":
			t.normalizers = append(t.normalizers, folded)
		case it.Type == "Strip":
			t.normalizers = append(t.normalizers, func(text string) string { return strings.TrimFunc(text, IsSpace) })
		case it.Type == "Prepend" && it.Prepend == " ":
			t.normalizers = append(t.normalizers, prepended)
		default:
			return unsupported("normalizer", it.Type)
		}
	}
	return nil
}

// prepended gives a word at the start of a text the same token as elsewhere.
func prepended(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

func (t *Tokenizer) readSplitter(found file) error {
	stages := found.PreTokenizer.Pretokenizers
	if len(stages) != 2 || stages[0].Type != "Split" || stages[1].Type != "ByteLevel" {
		return unsupported("pre-tokenizer", found.PreTokenizer.Type)
	}
	known := false
	if t.split, known = splitters[stages[0].Pattern.Regex]; !known {
		return unsupported("pattern of the pre-tokenizer", stages[0].Pattern.Regex)
	}
	return nil
}

func (t *Tokenizer) readDecoder(found file) error {
	for i, it := range found.Decoder.Decoders {
		if expected := []string{"ByteLevel", "Strip"}; i >= len(expected) || it.Type != expected[i] {
			return unsupported("decoder", it.Type)
		}
		t.stripsSpace = it.Type == "Strip"
	}
	return nil
}

func (t *Tokenizer) readModel(found file) error {
	model := found.Model
	if model.Dropout != nil || model.Ignore || model.Prefix != "" || model.Suffix != "" {
		return unsupported("vocabulary", model.Type+" with dropout, ignore_merges, a prefix or a suffix")
	}
	switch model.Type {
	case "BPE", "WordLevel":
		var vocabulary map[string]int
		if err := json.Unmarshal(model.Vocab, &vocabulary); err != nil {
			return damaged("its vocabulary can't be read: %v", err)
		}
		ids, err := t.readPieces(vocabulary)
		t.model = whole{ids}
		if err == nil && model.Type == "BPE" {
			t.model, err = readMerges(ids, model.Merges)
		}
		return err
	case "Unigram":
		return t.readUnigram(model.Vocab)
	}
	return unsupported("vocabulary", model.Type)
}

// readPieces fills the pieces, and returns the id of each text that isn't a special token.
func (t *Tokenizer) readPieces(vocabulary map[string]int) (map[string]int, error) {
	names := make([]string, len(vocabulary))
	for piece, id := range vocabulary {
		if id < 0 || id >= len(names) || names[id] != "" {
			return nil, damaged("the id %d of %q is out of order", id, piece)
		}
		names[id] = piece
	}
	return t.setPieces(names)
}

func (t *Tokenizer) setPieces(names []string) (map[string]int, error) {
	if len(names) < len(specials) || strings.Join(names[:len(specials)], " ") != strings.Join(specials, " ") {
		return nil, damaged("its first tokens aren't %s", strings.Join(specials, ", "))
	}
	ids := make(map[string]int, len(names))
	t.pieces = make([]string, len(names))
	for id, name := range names[len(specials):] {
		text := pieceBytes(name)
		t.pieces[id+len(specials)], ids[text] = text, id+len(specials)
	}
	return ids, nil
}

// readMerges reads pairs of pieces, each a list of two or one string with a space between them.
func readMerges(ids map[string]int, merges []json.RawMessage) (bpe, error) {
	model := bpe{ids, make(map[pair]int, len(merges))}
	for rank, text := range merges {
		var both []string
		if bytes.HasPrefix(text, []byte(`"`)) {
			var joined string
			if err := json.Unmarshal(text, &joined); err != nil {
				return model, damaged("its merges can't be read: %v", err)
			}
			both = strings.Split(joined, " ")
		} else if err := json.Unmarshal(text, &both); err != nil {
			return model, damaged("its merges can't be read: %v", err)
		}
		if len(both) != 2 {
			return model, damaged("a merge has %d parts", len(both))
		}
		model.ranks[pair{pieceBytes(both[0]), pieceBytes(both[1])}] = rank
	}
	return model, nil
}

func (t *Tokenizer) readUnigram(data json.RawMessage) error {
	var rows [][2]any
	if err := json.Unmarshal(data, &rows); err != nil {
		return damaged("its vocabulary can't be read: %v", err)
	}
	names, scores := make([]string, len(rows)), make([]float64, len(rows))
	lowest := 0.0
	for i, row := range rows {
		name, isText := row[0].(string)
		score, isNumber := row[1].(float64)
		if !isText || !isNumber {
			return damaged("entry %d of its vocabulary isn't a piece with a score", i)
		}
		names[i], scores[i] = name, score
		if score < lowest {
			lowest = score
		}
	}
	ids, err := t.setPieces(names)
	longest := 0
	for text := range ids {
		if len(text) > longest {
			longest = len(text)
		}
	}
	t.model = unigram{ids, scores, longest, lowest - 10}
	return err
}

func damaged(problem string, values ...any) error {
	return &errors.Error{What: "tokenizer.json is damaged: " + fmt.Sprintf(problem, values...),
		Fix: "restore it from a copy of the model folder", Name: "tokenizer.json"}
}

func unsupported(what, value string) error {
	return &errors.Error{What: fmt.Sprintf("tokenizer.json has the %s %q, which the Go reader doesn't support", what, value),
		Expected: "a tokenizer that Clearhead trained", Fix: "use `clearhead` instead", Name: "tokenizer.json"}
}

func contains(values []string, value string) bool {
	for _, it := range values {
		if it == value {
			return true
		}
	}
	return false
}

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
