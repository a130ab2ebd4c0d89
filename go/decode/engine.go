package decode

import "clearhead/model"

// sourceDecoding decodes with an encoder-decoder: a cache for each hypothesis, which shares the memory of its source.
type sourceDecoding struct {
	decoder model.Decoder
	caches  []*model.Cache
}

// prefill encodes sources, to be decoded together.
func prefill(m model.EncoderDecoder, sources [][]int) Decoding {
	decoding := &sourceDecoding{decoder: m.Decoder}
	for i, memory := range m.Encoder.Forward(sources) {
		decoding.caches = append(decoding.caches, m.Decoder.NewCache(memory, sources[i], 0))
	}
	return decoding
}

// Step appends a token to every hypothesis, and returns the log-probabilities of the next one. R tokens -> (R, V)
func (d *sourceDecoding) Step(tokens []int) model.Matrix {
	rows := make([][]int, len(tokens))
	for i := range tokens {
		rows[i] = tokens[i : i+1]
	}
	return d.decoder.Forward(rows, d.caches)
}

// Select replaces row i with row rows[i]. A hypothesis that continues once keeps its cache, and others get copies.
func (d *sourceDecoding) Select(rows []int) { d.caches = selected(d.caches, rows) }

func selected(caches []*model.Cache, rows []int) []*model.Cache {
	next, used := make([]*model.Cache, len(rows)), map[int]bool{}
	for i, row := range rows {
		if used[row] {
			next[i] = caches[row].Copy()
		} else {
			next[i], used[row] = caches[row], true
		}
	}
	return next
}
