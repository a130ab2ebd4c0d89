package tokenization

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

type golden struct {
	Name      string
	Tokenizer json.RawMessage
	Texts     []string
	IDs       [][]int
	Broken    [][]int
	Decoded   []string
	Pieces    []string
	Unknown   [][]string
}

func goldens(t *testing.T) []golden {
	folder := os.Getenv("CLEARHEAD_GOLDENS")
	if folder == "" {
		t.Skip("CLEARHEAD_GOLDENS isn't set; tests/go/test_go_goldens.py computes the values")
	}
	data, err := os.ReadFile(filepath.Join(folder, "tokenizers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestEncodesAndDecodesAsPython(t *testing.T) {
	for _, it := range goldens(t) {
		t.Run(it.Name, func(t *testing.T) {
			both, err := Parse(it.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			tokenizer := both.Source
			for id, expected := range it.Pieces {
				if piece := tokenizer.Pieces([]int{id})[0]; piece != expected {
					t.Errorf("piece %d: %q, expected %q", id, piece, expected)
				}
			}
			for i, text := range it.Texts {
				if ids := tokenizer.Encode(text); len(ids)+len(it.IDs[i]) > 0 && !reflect.DeepEqual(ids, it.IDs[i]) {
					t.Errorf("%+q: %q, expected %q", text, tokenizer.Pieces(ids), tokenizer.Pieces(it.IDs[i]))
				}
			}
			for i, unknown := range it.Unknown {
				if found := tokenizer.UnknownWords(it.Texts[i]); len(found) != len(unknown) {
					t.Errorf("%+q: unknown words %q, expected %q", it.Texts[i], found, unknown)
				}
			}
			for i, ids := range append(it.IDs, it.Broken...) {
				if text := tokenizer.Decode(ids); text != it.Decoded[i] {
					t.Errorf("%v: %+q, expected %+q", ids, text, it.Decoded[i])
				}
			}
		})
	}
}
