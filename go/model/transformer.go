package model

// Embedding looks up a learned vector for each token, times Scale: sqrt(d_model), if the model has no other (section 3.4).
type Embedding struct {
	Weight Matrix // (V, D)
	Scale  float32
}

// Forward computes (T,) -> (T, D).
func (e Embedding) Forward(tokens []int) Matrix {
	x := NewMatrix(len(tokens), e.Weight.Cols)
	for t, token := range tokens {
		addScaled(x.Row(t), e.Weight.Row(token), e.Scale)
	}
	return x
}

// Encoder is Figure 1, left: embedding, positions, N blocks and, in a pre-norm stack, a final norm.
type Encoder struct {
	Embedding     Embedding
	Positions     Positions
	EmbeddingNorm Norm
	Blocks        []EncoderBlock
	Norm          Norm
}

// Forward reads sources of any lengths, and returns the hidden states of each. B times (S,) -> B times (S, D)
func (e Encoder) Forward(sources [][]int) []Matrix {
	spans := make([]Span, len(sources))
	var tokens []int
	for i, source := range sources {
		all := Range{0, len(source)}
		spans[i] = Span{Start: len(tokens), End: len(tokens) + len(source)}
		spans[i].Bias, spans[i].Rotation = e.Positions.Bias(all, all), e.Positions.Rotation(0, len(source))
		tokens = append(tokens, source...)
	}
	x := e.Embedding.Forward(tokens)
	for _, span := range spans {
		e.Positions.Embed(x.Span(span.Start, span.End), 0)
	}
	x = e.EmbeddingNorm.Forward(x)
	for _, block := range e.Blocks {
		x = block.Forward(x, spans)
	}
	x = e.Norm.Forward(x)
	states := make([]Matrix, len(sources))
	for i, span := range spans {
		states[i] = x.Span(span.Start, span.End)
	}
	return states
}

// Decoder is Figure 1, right: embedding, positions, N causal blocks, projection. Without an encoder, it's a language
// model.
type Decoder struct {
	Embedding     Embedding
	Positions     Positions
	EmbeddingNorm Norm
	Window        int // latest tokens that each token attends to, itself included; 0 for all
	Blocks        []DecoderBlock
	Norm          Norm
	LogitScale    float32
	Projection    Linear
	Pointer       *Pointer
}

// NewCache returns an empty cache. The keys and values of an encoder's output, memory (S, D), are computed here, once.
// The cache holds the newest `capacity` tokens, or all if that's 0.
func (d Decoder) NewCache(memory Matrix, source []int, capacity int) *Cache {
	cache := &Cache{Layers: make([]LayerCache, len(d.Blocks)), Source: source}
	for i, block := range d.Blocks {
		cache.Layers[i].capacity = capacity
		if block.CrossAttention != nil {
			projected := block.CrossAttention.Project(memory)
			cache.Layers[i].Memory = &projected
		}
	}
	return cache
}

// Forward appends new tokens to hypotheses, and returns the log-probabilities of each one's next token.
//
// R times (T,), R caches -> (R, V)
func (d Decoder) Forward(tokens [][]int, caches []*Cache) Matrix {
	x, spans := d.embed(tokens, caches)
	var weights [][]Matrix // the last block's cross-attention, for the pointer
	for i, block := range d.Blocks {
		var observe func(int, []Matrix)
		if d.Pointer != nil && i == len(d.Blocks)-1 {
			observe = func(_ int, found []Matrix) { weights = append(weights, found) }
		}
		x = block.Forward(x, spans, i, observe)
	}
	last := NewMatrix(len(spans), x.Cols)
	for i, span := range spans {
		copy(last.Row(i), x.Row(span.End-1))
		caches[i].Length += span.End - span.Start
	}
	last = d.Norm.Forward(last)
	logits := d.project(last)
	for i := range spans {
		if d.Pointer != nil {
			d.Pointer.Forward(last.Span(i, i+1), logits.Span(i, i+1), lastRows(weights[i]), caches[i].Source)
		} else {
			LogSoftmax(logits.Row(i))
		}
	}
	return logits
}

// project scores the vocabulary. (T, D) -> (T, V)
func (d Decoder) project(x Matrix) Matrix {
	if d.LogitScale != 1 {
		x = Matrix{x.Rows, x.Cols, append([]float32{}, x.Data...)}
		multiply(x, d.LogitScale)
	}
	return d.Projection.Forward(x)
}

// embed returns the embeddings of the new tokens (T, D), and the spans with their masks and positions.
func (d Decoder) embed(tokens [][]int, caches []*Cache) (Matrix, []Span) {
	spans := make([]Span, len(tokens))
	var all []int
	for i, new := range tokens {
		all = append(all, new...)
		queries, keys := Range{caches[i].Length, len(new)}, caches[i].Held()+len(new)
		if capacity := caches[i].Layers[0].capacity; capacity > 0 {
			keys = smaller(keys, capacity)
		}
		past := Range{queries.First + queries.N - keys, keys} // keys have consecutive positions, up to the last query's
		mask := CausalMask(len(new), keys)
		if d.Window > 0 && keys > d.Window {
			mask = mask.recent(len(new), keys, d.Window)
		}
		spans[i] = Span{Start: len(all) - len(new), End: len(all), Mask: mask, Cache: caches[i]}
		spans[i].Bias, spans[i].Rotation = d.Positions.Bias(queries, past), d.Positions.Rotation(queries.First, queries.N)
	}
	x := d.Embedding.Forward(all)
	for i, span := range spans {
		d.Positions.Embed(x.Span(span.Start, span.End), caches[i].Length)
	}
	return d.EmbeddingNorm.Forward(x), spans
}

// lastRows returns the weights of the last query. H times (T, S) -> H times (1, S)
func lastRows(weights []Matrix) []Matrix {
	last := make([]Matrix, len(weights))
	for head, it := range weights {
		last[head] = it.Span(it.Rows-1, it.Rows)
	}
	return last
}

// EncoderDecoder is the model of the paper.
type EncoderDecoder struct {
	Encoder Encoder
	Decoder Decoder
}
