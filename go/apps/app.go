// Package apps applies models: raw text in, raw text out.
package apps

import (
	"fmt"
	"strings"

	"clearhead/config"
	"clearhead/decode"
	"clearhead/errors"
	"clearhead/folder"
	"clearhead/model"
	"clearhead/tokenization"
)

// Line is one line of input. Damaged lines contain U+FFFD for bytes that aren't UTF-8.
type Line struct {
	Number  int
	Text    string
	Damaged bool
}

// App is a model with its tokenizer and settings.
type App interface {
	// Answer answers each line, and returns what to print: text, or JSON.
	Answer(lines []Line, asJSON bool) ([]string, error)
	// Separator is printed between two texts.
	Separator() string
}

// Options are choices of the command line.
type Options struct {
	Beam    int // 0: that of the model's settings
	Threads int
	Say     func(string) // prints a warning
}

// Load reads a model folder.
func Load(path string, options Options) (App, error) {
	files, err := folder.Read(path)
	if err != nil {
		return nil, err
	}
	settings, err := config.Parse(files.Config)
	if err != nil {
		return nil, err
	}
	tokenizers, err := tokenization.Parse(files.Tokenizer)
	if err != nil {
		return nil, err
	}
	if err := checkSizes(tokenizers, settings); err != nil {
		return nil, err
	}
	weights, err := folder.ParseSafetensors(files.Weights)
	if err != nil {
		return nil, err
	}
	if err := settle(&settings, options); err != nil {
		return nil, err
	}
	rules, err := rulesOf(settings, tokenizers.Target)
	if err != nil {
		return nil, err
	}
	if settings.Task == "generate" {
		decoder, err := model.BuildDecoder(settings.Model, weights)
		session := decode.PromptSession{Model: decoder, Config: settings.Decode, MaxLen: settings.Model.MaxLen, Rules: rules,
			Threads: options.Threads}
		return &languageModel{session, tokenizers.Target, beginning(settings), options.Say}, err
	}
	built, err := model.BuildEncoderDecoder(settings.Model, weights)
	session := decode.Session{Model: built, Config: settings.Decode, MaxLen: settings.Model.MaxLen,
		Start: settings.Model.Start(), Rules: rules, Threads: options.Threads}
	return &translator{session, tokenizers, settings, options.Say}, err
}

// beginning returns the tokens before every text that the model reads.
func beginning(c config.Config) []int {
	if c.Model.Begin {
		return []int{tokenization.BOS}
	}
	return nil
}

// checkSizes fails if a vocabulary belongs to another model.
func checkSizes(tokenizers tokenization.Tokenizers, c config.Config) error {
	sizes := []struct {
		name            string
		found, expected int
	}{
		{"model.src_vocab_size", tokenizers.Source.VocabSize(), c.Model.SrcVocabSize},
		{"model.tgt_vocab_size", tokenizers.Target.VocabSize(), c.Model.TgtVocabSize},
	}
	if c.Model.Topology == "decoder-only" {
		sizes = sizes[1:]
	}
	for _, it := range sizes {
		if it.found != it.expected {
			return &errors.Error{What: fmt.Sprintf("tokenizer.json has %d tokens, but the model was trained with %d", it.found,
				it.expected), Expected: fmt.Sprintf("the tokenizer of this model, with %s=%d", it.name, it.expected),
				Fix: "restore the folder from its source or a backup", Name: it.name}
		}
	}
	return nil
}

// settle applies the options. A language model takes the most likely tokens, even if its settings sample.
func settle(c *config.Config, options Options) error {
	if c.Task == "generate" {
		c.Decode.Sample, c.Decode.Beam = false, 1
	}
	if options.Beam > 0 {
		c.Decode.Sample, c.Decode.Beam = false, options.Beam
	}
	if c.Decode.Sample {
		return &errors.Error{What: "decode.sample=true isn't supported by the Go reader", Expected: "a search",
			Fix: "pass --beam 4, or --beam 1 for greedy search", Name: "decode.sample"}
	}
	return nil
}

func rulesOf(c config.Config, target *tokenization.Tokenizer) (decode.Rules, error) {
	var suppress []int
	for _, piece := range c.Decode.Suppress {
		id, err := target.TokenID(piece)
		if err != nil {
			return decode.Rules{}, err
		}
		suppress = append(suppress, id)
	}
	return decode.NewRules(c.Decode, suppress), nil
}

func warnOfBytes(line Line, say func(string)) {
	if line.Damaged {
		say(fmt.Sprintf("line %d isn't UTF-8; bytes that can't be decoded are read as U+FFFD", line.Number))
	}
}

// isBlank reports whether a text is whitespace, as Python's str.strip sees it.
func isBlank(text string) bool {
	return strings.TrimFunc(text, isPythonSpace) == ""
}

func isPythonSpace(char rune) bool {
	return '\x1c' <= char && char <= '\x1f' || tokenization.IsSpace(char)
}
