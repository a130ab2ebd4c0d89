package tokenization

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

func pieces(split splitter, text string) string {
	var found []string
	for text != "" {
		n := split(text)
		found, text = append(found, text[:n]), text[n:]
	}
	return strings.Join(found, "|")
}

func TestSplits(t *testing.T) {
	for text, expected := range map[string][2]string{
		" l'homme":     {" l'|homme", " l'|homme"},
		" don't":       {" don't", " don't"},
		" Qu’il a 42?": {" Qu’|il| a| 4|2|?", " Qu’|il| a| 42|?"},
		"  x":          {" | x", " | x"},
		" a ":          {" a| ", " a| "},
		" ...":         {" ...", " .|.|."},
		" rock 'n'":    {" rock| '|n|'", " rock| '|n|'"},
	} {
		if found := pieces(splitSubwords, text); found != expected[0] {
			t.Errorf("subwords of %q: %q, expected %q", text, found, expected[0])
		}
		if found := pieces(splitWords, text); found != expected[1] {
			t.Errorf("words of %q: %q, expected %q", text, found, expected[1])
		}
	}
}

func TestBytesThatAreNoCharacterBecomeOneReplacement(t *testing.T) {
	for data, expected := range map[string]string{
		"a\xffb": "a\ufffdb", "\xf0\x9f\x99": "\ufffd", "\xf0\x9f\xff": "\ufffd\ufffd", "\xed\xa0\x80": "\ufffd\ufffd\ufffd",
		"\xc3": "\ufffd", "\xc0\xaf": "\ufffd\ufffd", "\xe2\x82\xac": "€", "\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
	} {
		if found := ValidUTF8([]byte(data)); found != expected {
			t.Errorf("%q: %+q, expected %+q", data, found, expected)
		}
	}
}

// TestMergesInTheOrderLearned compares the heap with a search through all pairs.
func TestMergesInTheOrderLearned(t *testing.T) {
	dice := rand.New(rand.NewSource(0))
	known, ranks := []string{"a", "b", "c"}, map[pair]int{}
	for len(known) < 40 {
		left, right := known[dice.Intn(len(known))], known[dice.Intn(len(known))]
		if _, ok := ranks[pair{left, right}]; !ok {
			ranks[pair{left, right}] = len(ranks)
			known = append(known, left+right)
		}
	}
	ids := map[string]int{}
	for id, text := range known {
		ids[text] = id
	}
	model := bpe{ids, ranks}
	for n := 0; n < 500; n++ {
		text := ""
		for i := 0; i <= n%30; i++ {
			text += known[dice.Intn(3)]
		}
		if found, expected := model.encode(text), merged(model, text); fmt.Sprint(found) != fmt.Sprint(expected) {
			t.Fatalf("%s: %v, expected %v", text, found, expected)
		}
	}
}

func merged(model bpe, text string) []int {
	parts := strings.Split(text, "")
	for {
		best, at := len(model.ranks), -1
		for i := 0; i+1 < len(parts); i++ {
			if rank, ok := model.ranks[pair{parts[i], parts[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	var ids []int
	for _, part := range parts {
		ids = append(ids, model.ids[part])
	}
	return ids
}

func TestDamagedFilesAreErrors(t *testing.T) {
	dice := rand.New(rand.NewSource(0))
	whole := []byte(`{"normalizer": {"normalizers": []}, "pre_tokenizer": {"pretokenizers": [{"type": "Split", "pattern":
		{"Regex": "[\\s\\S]"}}, {"type": "ByteLevel"}]}, "decoder": {"decoders": [{"type": "ByteLevel"}]}, "model": {"type":
		"Unigram", "vocab": [["<pad>", 0], ["<s>", 0], ["</s>", 0], ["<unk>", 0], ["a", -1], ["b", -2.5]]}}`)
	if _, err := Parse(whole); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 20_000; n++ {
		damaged := append([]byte{}, whole...)
		for i := 0; i <= n%3; i++ {
			damaged[dice.Intn(len(damaged))] = "0123456789-\"[]{},:abc "[dice.Intn(22)]
		}
		if both, err := Parse(damaged); err == nil { // no panic, and a usable tokenizer
			both.Source.Decode(both.Source.Encode("ab c"))
		}
	}
}
