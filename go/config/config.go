// Package config reads the settings of a model folder. It rejects by name what this program can't do.
package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"clearhead/errors"
	"clearhead/folder"
)

// Config holds the settings that matter for decoding.
type Config struct {
	Model  Model
	Decode Decode
	Task   string // translate, summarize or generate
	MaxLen int    // data.max_len
}

// Model holds the shape and components of a Transformer (sections 3 and 6.2 of the paper).
type Model struct {
	Topology       string  `json:"topology"`
	SrcVocabSize   int     `json:"src_vocab_size"`
	TgtVocabSize   int     `json:"tgt_vocab_size"`
	DModel         int     `json:"d_model"`
	NHeads         int     `json:"n_heads"`
	NKVHeads       int     `json:"n_kv_heads"`
	DFF            int     `json:"d_ff"`
	NEncoderLayers int     `json:"n_encoder_layers"`
	NDecoderLayers int     `json:"n_decoder_layers"`
	Positions      string  `json:"positions"`
	MaxLen         int     `json:"max_len"`
	Norm           string  `json:"norm"`
	NormEps        float64 `json:"norm_eps"`
	PreNorm        bool    `json:"pre_norm"`
	Activation     string  `json:"activation"`
	FeedForward    string  `json:"feed_forward"`
	Bias           bool    `json:"bias"`
	Tie            string  `json:"tie"`
	Copy           bool    `json:"copy"`
}

// Decode holds the settings of the search (section 6.1).
type Decode struct {
	Beam              int      `json:"beam"`
	Alpha             float64  `json:"alpha"`
	MaxExtra          int      `json:"max_extra"`
	MaxLen            *int     `json:"max_len"`
	MinLen            int      `json:"min_len"`
	MaxRatio          *float64 `json:"max_ratio"`
	MinRatio          float64  `json:"min_ratio"`
	NoRepeatNgram     int      `json:"no_repeat_ngram"`
	RepetitionPenalty float64  `json:"repetition_penalty"`
	Suppress          []string `json:"suppress"`
	Sample            bool     `json:"sample"`
	Unknown           string   `json:"unknown"`
}

// without lists settings that change training only, or that a search for one answer doesn't read.
var without = map[string]bool{
	"model.dropout": true, "model.attention_dropout": true, "model.activation_dropout": true, "model.shift": true,
	"model.flip": true, "model.crop": true, "model.spec_augment": true, "model.speed": true, "decode.engine": true,
	"decode.n_best": true, "decode.diverse": true, "decode.temperature": true, "decode.top_k": true, "decode.top_p": true,
	"decode.min_p": true, "decode.seed": true, "decode.batch_tokens": true,
}

// choices lists the supported values of settings that name a part.
var choices = map[string][]string{
	"model.topology":     {"encoder-decoder", "decoder-only"},
	"model.positions":    {"sinusoidal", "learned", "rotary", "relative", "alibi"},
	"model.norm":         {"layer", "rms"},
	"model.activation":   {"relu", "gelu", "swiglu"},
	"model.feed_forward": {"relu", "gelu", "swiglu"},
	"model.tie":          {"all", "target", "none"},
	"train.task":         {"translate", "summarize", "generate"},
	"decode.unknown":     {"error", "unk"},
}

// Parse reads the content of config.json.
func Parse(data []byte) (Config, error) {
	var file struct {
		FormatVersion *int                       `json:"format_version"`
		Model         map[string]json.RawMessage `json:"model"`
		Decode        map[string]json.RawMessage `json:"decode"`
		Train         struct{ Task string }      `json:"train"`
		Data          struct {
			MaxLen int `json:"max_len"`
		} `json:"data"`
	}
	var config Config
	if err := json.Unmarshal(data, &file); err != nil {
		return config, unreadable(err)
	}
	if err := folder.CheckFormat("config.json", file.FormatVersion); err != nil {
		return config, err
	}
	if err := read("model", file.Model, &config.Model); err != nil {
		return config, err
	}
	if err := read("decode", file.Decode, &config.Decode); err != nil {
		return config, err
	}
	config.Task, config.MaxLen = file.Train.Task, file.Data.MaxLen
	if config.Task == "" {
		config.Task = "translate"
	}
	if config.Model.FeedForward == "" {
		config.Model.FeedForward = config.Model.Activation
	}
	if config.Model.NKVHeads == 0 {
		config.Model.NKVHeads = config.Model.NHeads
	}
	return config, config.check()
}

// read fills a section's fields from the file and, where it lacks a setting, from the defaults.
func read(section string, values map[string]json.RawMessage, fields any) error {
	known, all := fieldNames(section, fields), map[string]json.RawMessage{}
	for name, text := range defaults {
		if prefix := section + "."; strings.HasPrefix(name, prefix) {
			all[strings.TrimPrefix(name, prefix)] = json.RawMessage(text)
		}
	}
	for _, name := range sorted(values) {
		full := section + "." + name
		if !known[full] && !without[full] && !same(string(values[name]), defaults[full]) {
			return unsupported(full, string(values[name]), defaultOf(full))
		}
		all[name] = values[name]
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, fields)
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

func fieldNames(section string, fields any) map[string]bool {
	names, kind := map[string]bool{}, reflect.TypeOf(fields).Elem()
	for i := 0; i < kind.NumField(); i++ {
		names[section+"."+kind.Field(i).Tag.Get("json")] = true
	}
	return names
}

func sorted(values map[string]json.RawMessage) []string {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// same compares two JSON values. A setting without a default, which a newer Clearhead may have, must be null.
func same(text, expected string) bool {
	if expected == "" {
		expected = "null"
	}
	var a, b any
	return json.Unmarshal([]byte(text), &a) == nil && json.Unmarshal([]byte(expected), &b) == nil && reflect.DeepEqual(a, b)
}

func defaultOf(name string) string {
	if text, ok := defaults[name]; ok {
		return text
	}
	return "a setting of this version"
}

func unreadable(err error) error {
	return &errors.Error{What: fmt.Sprintf("config.json can't be read: %v", err), Expected: "the file that training wrote",
		Name: "config.json"}
}

func unsupported(name, value, expected string) error {
	return &errors.Error{What: fmt.Sprintf("%s=%s isn't supported by the Go reader", name, value), Expected: expected,
		Fix: "use `clearhead` instead", Name: name}
}

func (c Config) check() error {
	m := c.Model
	parts := map[string]string{
		"model.topology": m.Topology, "model.positions": m.Positions, "model.norm": m.Norm, "model.activation": m.Activation,
		"model.feed_forward": m.FeedForward, "model.tie": m.Tie, "train.task": c.Task, "decode.unknown": c.Decode.Unknown,
	}
	for _, name := range []string{"model.topology", "train.task", "model.positions", "model.norm", "model.activation",
		"model.feed_forward", "model.tie", "decode.unknown"} {
		if !contains(choices[name], parts[name]) {
			return unsupported(name, fmt.Sprintf("%q", parts[name]), strings.Join(choices[name], ", "))
		}
	}
	if generates := m.Topology == "decoder-only"; generates != (c.Task == "generate") {
		return unsupported("train.task", fmt.Sprintf("%q", c.Task), fmt.Sprintf("a task that fits model.topology=%q", m.Topology))
	}
	return c.checkNumbers()
}

func (c Config) checkNumbers() error {
	m, d := c.Model, c.Decode
	for _, it := range []struct {
		name  string
		value int
		fits  bool
		what  string
	}{
		{"model.d_model", m.DModel, m.DModel >= 1, "at least 1"},
		{"model.n_heads", m.NHeads, m.NHeads >= 1 && m.DModel%m.NHeads == 0, "a divisor of model.d_model"},
		{"model.n_kv_heads", m.NKVHeads, m.NKVHeads >= 1 && m.NHeads%m.NKVHeads == 0, "a divisor of model.n_heads"},
		{"model.d_ff", m.DFF, m.DFF >= 1, "at least 1"},
		{"model.max_len", m.MaxLen, m.MaxLen >= 1, "at least 1"},
		{"model.tgt_vocab_size", m.TgtVocabSize, m.TgtVocabSize >= 4, "at least 4"},
		{"model.n_decoder_layers", m.NDecoderLayers, m.NDecoderLayers >= 1, "at least 1"},
		{"model.n_encoder_layers", m.NEncoderLayers, m.NEncoderLayers >= 1 || m.Topology == "decoder-only", "at least 1"},
		{"decode.beam", d.Beam, d.Beam >= 1 && d.Beam <= 1000, "1 to 1000"},
	} {
		if !it.fits {
			return &errors.Error{What: fmt.Sprintf("%s=%d can't be used", it.name, it.value), Expected: it.what, Name: it.name}
		}
	}
	if m.Positions == "rotary" && m.DModel/m.NHeads%2 != 0 {
		return &errors.Error{What: fmt.Sprintf("model.positions=\"rotary\" doesn't work with heads of odd width %d", m.DModel/m.NHeads),
			Expected: "an even model.d_model / model.n_heads", Name: "model.positions"}
	}
	return nil
}

func contains(values []string, value string) bool {
	for _, it := range values {
		if it == value {
			return true
		}
	}
	return false
}
