package config

import (
	"fmt"
	"strings"

	"clearhead/errors"
)

func (c Config) check() error {
	m := c.Model
	parts := map[string]string{
		"model.topology": m.Topology, "model.positions": m.Positions, "model.norm": m.Norm,
		"model.feed_forward": m.FeedForward, "model.tie": m.Tie, "train.task": c.Task, "decode.unknown": c.Decode.Unknown,
	}
	for _, name := range []string{"model.topology", "train.task", "model.positions", "model.norm", "model.feed_forward", "model.tie", "decode.unknown"} {
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
		{"model.n_heads", m.NHeads, m.NHeads >= 1 && m.DHead != 0, "a divisor of model.d_model"},
		{"model.n_kv_heads", m.NKVHeads, m.NKVHeads >= 1 && m.NHeads%m.NKVHeads == 0, "a divisor of model.n_heads"},
		{"model.d_head", m.DHead, m.DHead >= 1, "at least 1"},
		{"model.window", m.Window, m.Window >= 0, "at least 1"},
		{"model.d_ff", m.DFF, m.DFF >= 1, "at least 1"},
		{"model.max_len", m.MaxLen, m.MaxLen >= 1, "at least 1"},
		{"model.tgt_vocab_size", m.TgtVocabSize, m.TgtVocabSize >= 4, "at least 4"},
		{"model.n_decoder_layers", m.NDecoderLayers, m.NDecoderLayers >= 1, "at least 1"},
		{"model.n_encoder_layers", m.NEncoderLayers, m.NEncoderLayers >= 1 || m.Topology == "decoder-only", "at least 1"},
		{"model.start_id", m.Start(), m.Start() >= 0 && m.Start() < m.TgtVocabSize, "an id below model.tgt_vocab_size"},
		{"decode.beam", d.Beam, d.Beam >= 1 && d.Beam <= 1000, "1 to 1000"},
	} {
		if !it.fits {
			return &errors.Error{What: fmt.Sprintf("%s=%d can't be used", it.name, it.value), Expected: it.what, Name: it.name}
		}
	}
	if m.Positions == "rotary" && m.DHead%2 != 0 {
		return &errors.Error{What: fmt.Sprintf("model.positions=\"rotary\" doesn't work with heads of odd width %d", m.DHead),
			Expected: "an even width", Name: "model.positions"}
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
