package model

import (
	"fmt"
	"strings"

	"clearhead/config"
	"clearhead/errors"
	"clearhead/folder"
)

// assembly builds modules from a configuration and the weights of a file. Only this file maps settings to types. The
// first problem is kept in err, and the modules after it are empty.
type assembly struct {
	config  config.Model
	weights *folder.Safetensors
	err     error
}

// BuildEncoderDecoder returns the model of the paper.
func BuildEncoderDecoder(c config.Model, weights *folder.Safetensors) (EncoderDecoder, error) {
	a := &assembly{config: c, weights: weights}
	a.count("encoder.blocks.", "model.n_encoder_layers", c.NEncoderLayers)
	a.count("decoder.blocks.", "model.n_decoder_layers", c.NDecoderLayers)
	source, target := []string{"encoder.embedding.weight"}, []string{"decoder.embedding.weight"} // names of one matrix
	if c.Tie != "none" {
		target = append(target, "decoder.projection.weight")
	}
	if c.Tie == "all" {
		source = append(source, target...)
		target = source
	}
	encoder := Encoder{Embedding: Embedding{a.matrix(c.SrcVocabSize, c.DModel, source...)}}
	encoder.Positions = a.positions("encoder.", true)
	for i := 0; i < c.NEncoderLayers && a.err == nil; i++ {
		encoder.Blocks = append(encoder.Blocks, a.encoderBlock(fmt.Sprintf("encoder.blocks.%d.", i)))
	}
	encoder.Norm = a.finalNorm("encoder.norm")
	embedding := encoder.Embedding
	if c.Tie != "all" {
		embedding = Embedding{a.matrix(c.TgtVocabSize, c.DModel, target...)}
	}
	built := EncoderDecoder{encoder, a.decoder("decoder.", embedding, true)}
	return built, a.finish()
}

// BuildDecoder returns a language model.
func BuildDecoder(c config.Model, weights *folder.Safetensors) (Decoder, error) {
	a := &assembly{config: c, weights: weights}
	a.count("blocks.", "model.n_decoder_layers", c.NDecoderLayers)
	names := []string{"embedding.weight"}
	if c.Tie != "none" {
		names = append(names, "projection.weight")
	}
	built := a.decoder("", Embedding{a.matrix(c.TgtVocabSize, c.DModel, names...)}, false)
	return built, a.finish()
}

func (a *assembly) decoder(prefix string, embedding Embedding, cross bool) Decoder {
	c := a.config
	decoder := Decoder{Embedding: embedding, Positions: a.positions(prefix, false)}
	for i := 0; i < c.NDecoderLayers && a.err == nil; i++ {
		decoder.Blocks = append(decoder.Blocks, a.decoderBlock(fmt.Sprintf("%sblocks.%d.", prefix, i), cross))
	}
	decoder.Norm = a.finalNorm(prefix + "norm")
	decoder.Projection = Linear{Weight: embedding.Weight} // a tied projection has no bias
	if c.Tie == "none" {
		decoder.Projection = a.linear(prefix+"projection", c.DModel, c.TgtVocabSize, true)
	}
	if c.Copy {
		decoder.Pointer = &Pointer{a.linear(prefix+"pointer.gate", c.DModel, 1, true)}
	}
	return decoder
}

func (a *assembly) encoderBlock(prefix string) EncoderBlock {
	return EncoderBlock{
		Attention:   a.selfAttention(prefix + "attention."),
		FeedForward: a.feedForward(prefix + "feed_forward."),
		AddNorm1:    a.addNorm(prefix + "add_norm_1."),
		AddNorm2:    a.addNorm(prefix + "add_norm_2."),
	}
}

func (a *assembly) decoderBlock(prefix string, cross bool) DecoderBlock {
	block := DecoderBlock{
		Attention:   a.selfAttention(prefix + "attention."),
		FeedForward: a.feedForward(prefix + "feed_forward."),
		AddNorm1:    a.addNorm(prefix + "add_norm_1."),
		AddNorm3:    a.addNorm(prefix + "add_norm_3."),
	}
	if cross {
		block.CrossAttention = a.crossAttention(prefix + "cross_attention.")
		block.AddNorm2 = a.addNorm(prefix + "add_norm_2.")
	}
	return block
}

func (a *assembly) selfAttention(prefix string) SelfAttention {
	c := a.config
	shared := c.NKVHeads * (c.DModel / c.NHeads)
	return SelfAttention{
		NHeads: c.NHeads, NKVHeads: c.NKVHeads,
		QKV: a.linear(prefix+"qkv", c.DModel, c.DModel+2*shared, c.Bias),
		Out: a.linear(prefix+"out", c.DModel, c.DModel, c.Bias),
	}
}

func (a *assembly) crossAttention(prefix string) *CrossAttention {
	c := a.config
	shared := c.NKVHeads * (c.DModel / c.NHeads)
	return &CrossAttention{
		NHeads: c.NHeads, NKVHeads: c.NKVHeads,
		Q:   a.linear(prefix+"q", c.DModel, c.DModel, c.Bias),
		KV:  a.linear(prefix+"kv", c.DModel, 2*shared, c.Bias),
		Out: a.linear(prefix+"out", c.DModel, c.DModel, c.Bias),
	}
}

func (a *assembly) feedForward(prefix string) FeedForward {
	c := a.config
	outer := a.linear(prefix+"outer", c.DFF, c.DModel, c.Bias)
	switch c.FeedForward {
	case "swiglu":
		return SwiGLU{a.linear(prefix+"inner", c.DModel, 2*c.DFF, c.Bias), outer}
	case "gelu":
		return Activated{a.linear(prefix+"inner", c.DModel, c.DFF, c.Bias), outer, gelu}
	default:
		return Activated{a.linear(prefix+"inner", c.DModel, c.DFF, c.Bias), outer, relu}
	}
}

func (a *assembly) positions(prefix string, twoSided bool) Positions {
	c := a.config
	switch c.Positions {
	case "learned":
		return Learned{Table: a.matrix(c.MaxLen, c.DModel, prefix+"positions.table")}
	case "rotary":
		return Rotary{DHead: c.DModel / c.NHeads}
	case "relative":
		return Relative{Table: a.matrix(buckets, c.NHeads, prefix+"positions.table"), TwoSided: twoSided}
	case "alibi":
		return Alibi{Slopes: alibiSlopes(c.NHeads), TwoSided: twoSided}
	default:
		return Sinusoidal{}
	}
}

func (a *assembly) addNorm(prefix string) AddNorm {
	return AddNorm{a.norm(prefix + "norm"), a.config.PreNorm}
}

// finalNorm returns the norm at the end of a pre-norm stack. A post-norm stack needs none.
func (a *assembly) finalNorm(name string) Norm {
	if a.config.PreNorm {
		return a.norm(name)
	}
	return identity{}
}

func (a *assembly) norm(name string) Norm {
	weight := a.vector(a.config.DModel, name+".weight")
	if a.config.Norm == "rms" {
		return RMSNorm{weight, a.config.NormEps}
	}
	return LayerNorm{weight, a.vector(a.config.DModel, name+".bias"), a.config.NormEps}
}

func (a *assembly) linear(name string, in, out int, bias bool) Linear {
	linear := Linear{Weight: a.matrix(out, in, name+".weight")}
	if bias {
		linear.Bias = a.vector(out, name+".bias")
	}
	return linear
}

func (a *assembly) matrix(rows, cols int, names ...string) Matrix {
	return Matrix{rows, cols, a.take([]int{rows, cols}, names...)}
}

func (a *assembly) vector(n int, name string) []float32 { return a.take([]int{n}, name) }

func (a *assembly) take(shape []int, names ...string) []float32 {
	if a.err != nil {
		return nil
	}
	tensor, err := a.weights.Take(shape, names...)
	a.err = err
	return tensor.Data
}

// count checks the number of blocks, which the names of the weights contain.
func (a *assembly) count(prefix, setting string, expected int) {
	found := map[string]bool{}
	for _, name := range a.weights.Names(prefix) {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), ".")
		found[number] = true
	}
	if len(found) != expected && a.err == nil {
		a.err = &errors.Error{What: fmt.Sprintf("%s=%d, but the weights have %d blocks", setting, expected, len(found)),
			Fix: "restore config.json and model.safetensors from the same model", Name: setting}
	}
}

// finish returns the first problem: one found before, or a weight that no module took.
func (a *assembly) finish() error {
	if a.err != nil {
		return a.err
	}
	if unused := a.weights.Unused(); len(unused) > 0 {
		return &errors.Error{What: fmt.Sprintf("the weight %s is unknown to the model", unused[0]),
			Fix: "restore config.json and model.safetensors from the same model", Name: unused[0]}
	}
	return nil
}
