package tokenization

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"clearhead/errors"
)

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
