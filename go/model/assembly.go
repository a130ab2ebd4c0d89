package model

import (
	"fmt"
	"math"
	"strings"

	"clearhead/config"
	"clearhead/errors"
	"clearhead/folder"
)

// assembly builds modules from a configuration and the weights of a file. Only this file and
// assembly_parts.go map settings to types. The
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
	if a.tiedProjection() {
		target = append(target, "decoder.projection.weight")
	}
	shared := c.Tie == "all" || c.Tie == "embeddings"
	if shared {
		source = append(source, target...)
	}
	encoder := Encoder{Embedding: a.embedding(c.SrcVocabSize, source...), Positions: a.positions("encoder.", true)}
	encoder.EmbeddingNorm = a.optionalNorm("encoder.embedding_norm", c.EmbeddingNorm)
	for i := 0; i < c.NEncoderLayers && a.err == nil; i++ {
		encoder.Blocks = append(encoder.Blocks, a.encoderBlock(fmt.Sprintf("encoder.blocks.%d.", i)))
	}
	encoder.Norm = a.finalNorm("encoder.norm")
	embedding := encoder.Embedding
	if !shared {
		embedding = a.embedding(c.TgtVocabSize, target...)
	}
	built := EncoderDecoder{encoder, a.decoder("decoder.", embedding, true)}
	return built, a.finish()
}

// BuildDecoder returns a language model.
func BuildDecoder(c config.Model, weights *folder.Safetensors) (Decoder, error) {
	a := &assembly{config: c, weights: weights}
	a.count("blocks.", "model.n_decoder_layers", c.NDecoderLayers)
	names := []string{"embedding.weight"}
	if a.tiedProjection() {
		names = append(names, "projection.weight")
	}
	built := a.decoder("", a.embedding(c.TgtVocabSize, names...), false)
	return built, a.finish()
}

func (a *assembly) decoder(prefix string, embedding Embedding, cross bool) Decoder {
	c := a.config
	decoder := Decoder{Embedding: embedding, Positions: a.positions(prefix, false), Window: c.Window}
	decoder.EmbeddingNorm = a.optionalNorm(prefix+"embedding_norm", c.EmbeddingNorm)
	for i := 0; i < c.NDecoderLayers && a.err == nil; i++ {
		decoder.Blocks = append(decoder.Blocks, a.decoderBlock(fmt.Sprintf("%sblocks.%d.", prefix, i), cross))
	}
	decoder.Norm = a.finalNorm(prefix + "norm")
	decoder.LogitScale = float32(c.LogitScale)
	decoder.Projection = a.projection(prefix+"projection", embedding)
	if c.Copy {
		decoder.Pointer = &Pointer{a.linear(prefix+"pointer.gate", c.DModel, 1, true)}
	}
	return decoder
}

func (a *assembly) embedding(size int, names ...string) Embedding {
	scale := math.Sqrt(float64(a.config.DModel))
	if a.config.EmbeddingScale != nil {
		scale = *a.config.EmbeddingScale
	}
	return Embedding{a.matrix(size, a.config.DModel, names...), float32(scale)}
}

// tiedProjection reports whether the output projection shares an embedding's matrix.
func (a *assembly) tiedProjection() bool { return a.config.Tie == "all" || a.config.Tie == "target" }

func (a *assembly) projection(name string, embedding Embedding) Linear {
	projection := Linear{Weight: embedding.Weight}
	if !a.tiedProjection() {
		projection.Weight = a.matrix(a.config.TgtVocabSize, a.config.DModel, name+".weight")
	}
	if or(a.config.ProjectionBias, !a.tiedProjection()) {
		projection.Bias = a.vector(a.config.TgtVocabSize, name+".bias")
	}
	return projection
}

// or returns a setting's value, or its default if it has none.
func or(setting *bool, standard bool) bool {
	if setting == nil {
		return standard
	}
	return *setting
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

// count checks the number of blocks, which the names of the weights contain.
func (a *assembly) count(prefix, setting string, expected int) {
	found := map[string]bool{}
	for _, name := range a.weights.Names(prefix) {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), ".")
		found[number] = true
	}
	if len(found) != expected && a.err == nil {
		a.err = &errors.Error{What: fmt.Sprintf("%s=%d, but the weights have %d blocks", setting, expected, len(found)),
			Fix: folder.SameModel, Name: setting}
	}
}

// finish returns the first problem: one found before, or a weight that no module took.
func (a *assembly) finish() error {
	if a.err != nil {
		return a.err
	}
	if unused := a.weights.Unused(); len(unused) > 0 {
		return &errors.Error{What: fmt.Sprintf("the weight %s is unknown to the model", unused[0]),
			Fix: folder.SameModel, Name: unused[0]}
	}
	return nil
}
