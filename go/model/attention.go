package model

import "math"

// AttentionWeights computes softmax(Q K^T / sqrt(d_k)), the attention weights of Equation 1, for one head.
//
// (T, K), (S, K), bias (T, S) or empty -> (T, S)
func AttentionWeights(q, k Matrix, mask Mask, bias Matrix) Matrix {
	scores := product(q, k)
	scale := float32(1 / math.Sqrt(float64(q.Cols)))
	for t := 0; t < scores.Rows; t++ {
		row := scores.Row(t)
		for s := range row {
			row[s] *= scale
		}
		if bias.Data != nil {
			add(row, bias.Row(t))
		}
		if mask != nil {
			for s := range row {
				if !mask(t, s) {
					row[s] = float32(math.Inf(-1))
				}
			}
		}
		softmax(row)
	}
	return scores
}

// softmax replaces scores by probabilities. If all are -inf, they become zeros.
func softmax(row []float32) {
	largest := float32(math.Inf(-1))
	for _, score := range row {
		if score > largest {
			largest = score
		}
	}
	if math.IsInf(float64(largest), -1) {
		for i := range row {
			row[i] = 0
		}
		return
	}
	var sum float32
	for i, score := range row {
		row[i] = exp(score - largest)
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
	}
}

// ScaledDotProductAttention computes softmax(Q K^T / sqrt(d_k)) V: Equation 1, for one head. It returns the output and
// the weights.
//
// (T, K), (S, K), (S, Kv), bias (T, S) or empty -> (T, Kv), (T, S)
func ScaledDotProductAttention(q, k, v Matrix, mask Mask, bias Matrix) (output, weights Matrix) {
	weights = AttentionWeights(q, k, mask, bias)
	output = NewMatrix(q.Rows, v.Cols)
	for t := 0; t < weights.Rows; t++ {
		out := output.Row(t)
		for s, weight := range weights.Row(t) {
			addScaled(out, v.Row(s), weight)
		}
	}
	return output, weights
}

// addScaled adds scale times b to a in place.
func addScaled(a, b []float32, scale float32) {
	b = b[:len(a)]
	for i := range a {
		a[i] += scale * b[i]
	}
}

const queriesAtOnce = 64 // so that the weights of a long text need little memory

// attend applies Equation 1 to every head. Each of the G key-value heads serves H / G of the H query heads.
//
// H times (T, K), G times (S, K), bias H times (T, S) or nil -> H times (T, K)
func attend(q, k, v []Matrix, mask Mask, bias []Matrix) []Matrix {
	outputs, groups := make([]Matrix, len(q)), len(q)/len(k)
	for head := range q {
		keys, values := k[head/groups], v[head/groups]
		outputs[head] = NewMatrix(q[head].Rows, values.Cols)
		for start := 0; start < q[head].Rows; start += queriesAtOnce {
			end := smaller(start+queriesAtOnce, q[head].Rows)
			var added Matrix
			if bias != nil {
				added = bias[head].Span(start, end)
			}
			output, _ := ScaledDotProductAttention(q[head].Span(start, end), keys, values, mask.from(start), added)
			copy(outputs[head].Span(start, end).Data, output.Data)
		}
	}
	return outputs
}

// MultiHeadAttention is section 3.2.2 as written: h heads attend in parallel to learned projections, and an output
// projection joins them.
//
// MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O  with  head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)
type MultiHeadAttention struct {
	NHeads         int
	WQ, WK, WV, WO Linear
}

// Forward computes (T, D), (S, D), (S, D) -> (T, D), weights H times (T, S) for one sequence.
func (m MultiHeadAttention) Forward(query, key, value Matrix, mask Mask) (Matrix, []Matrix) {
	q := splitHeads(m.WQ.Forward(query), m.NHeads)
	k := splitHeads(m.WK.Forward(key), m.NHeads)
	v := splitHeads(m.WV.Forward(value), m.NHeads)
	heads, weights := make([]Matrix, m.NHeads), make([]Matrix, m.NHeads)
	for i := range heads {
		heads[i], weights[i] = ScaledDotProductAttention(q[i], k[i], v[i], mask, Matrix{})
	}
	merged := NewMatrix(query.Rows, query.Cols)
	mergeHeads(heads, merged)
	return m.WO.Forward(merged), weights
}

// Span is one sequence of a ragged batch: the rows of x from Start up to End, and what its attention needs.
type Span struct {
	Start, End int
	Mask       Mask
	Bias       []Matrix  // H times (T, S), or nil
	Rotation   *Rotation // or nil
	Cache      *Cache    // in a decoder: its earlier tokens, and the memory of its source
}

// SelfAttention is MultiHeadAttention(x, x, x) with one matrix product for queries, keys and values. Rescale multiplies
// the queries, so that their scores have another scale than 1 / sqrt(d_k).
type SelfAttention struct {
	NHeads, NKVHeads int
	QKV, Out         Linear
	Rescale          float32
}

// Forward computes (T, D) -> (T, D). With a cache, queries also attend to the cached keys of this layer.
func (a SelfAttention) Forward(x Matrix, spans []Span, layer int) Matrix {
	projected := a.QKV.Forward(x)
	dHead := projected.Cols / (a.NHeads + 2*a.NKVHeads)
	merged := NewMatrix(x.Rows, a.NHeads*dHead)
	for _, span := range spans {
		heads := splitHeads(projected.Span(span.Start, span.End), a.NHeads+2*a.NKVHeads)
		q, k, v := heads[:a.NHeads], heads[a.NHeads:a.NHeads+a.NKVHeads], heads[a.NHeads+a.NKVHeads:]
		for _, head := range heads[:a.NHeads+a.NKVHeads] {
			rotate(head, span.Rotation)
		}
		for _, head := range q {
			multiply(head, a.Rescale)
		}
		if span.Cache != nil {
			k, v = span.Cache.Layers[layer].Append(k, v)
		}
		mergeHeads(attend(q, k, v, span.Mask, span.Bias), merged.Span(span.Start, span.End))
	}
	return a.Out.Forward(merged)
}

// Memory holds the keys and values of an encoder's output in one decoder block, G times (S, K) each.
type Memory struct{ Keys, Values []Matrix }

// CrossAttention is MultiHeadAttention(x, memory, memory) with one matrix product for keys and values. For Rescale, see
// SelfAttention.
type CrossAttention struct {
	NHeads, NKVHeads int
	Q, KV, Out       Linear
	Rescale          float32
}

// Project returns the keys and values of the memory (S, D). Call it once per source.
func (a CrossAttention) Project(memory Matrix) Memory {
	heads := splitHeads(a.KV.Forward(memory), 2*a.NKVHeads)
	return Memory{heads[:a.NKVHeads], heads[a.NKVHeads:]}
}

// Forward computes (T, D) -> (T, D). Each span reads the memory in its cache. If observe isn't nil, it's called with
// the index and the weights, H times (T, S), of each span.
func (a CrossAttention) Forward(x Matrix, spans []Span, layer int, observe func(int, []Matrix)) Matrix {
	projected := a.Q.Forward(x)
	multiply(projected, a.Rescale)
	merged := NewMatrix(projected.Rows, projected.Cols)
	for i, span := range spans {
		q := splitHeads(projected.Span(span.Start, span.End), a.NHeads)
		memory := span.Cache.Layers[layer].Memory
		if observe != nil {
			observe(i, a.weights(q, memory.Keys))
		}
		mergeHeads(attend(q, memory.Keys, memory.Values, nil, nil), merged.Span(span.Start, span.End))
	}
	return a.Out.Forward(merged)
}

// weights returns the weights that Forward applies. H times (T, K), G times (S, K) -> H times (T, S)
func (a CrossAttention) weights(q, keys []Matrix) []Matrix {
	weights := make([]Matrix, len(q))
	for head := range q {
		weights[head] = AttentionWeights(q[head], keys[head*a.NKVHeads/a.NHeads], nil, Matrix{})
	}
	return weights
}

// splitHeads computes (T, H*K) -> H times (T, K). The heads of a single row share its memory.
func splitHeads(x Matrix, heads int) []Matrix {
	split, width := make([]Matrix, heads), x.Cols/heads
	for head := range split {
		if x.Rows == 1 {
			split[head] = Matrix{1, width, x.Data[head*width : (head+1)*width : (head+1)*width]}
			continue
		}
		split[head] = NewMatrix(x.Rows, width)
		for t := 0; t < x.Rows; t++ {
			copy(split[head].Row(t), x.Row(t)[head*width:])
		}
	}
	return split
}

// mergeHeads writes H times (T, K) to (T, H*K).
func mergeHeads(heads []Matrix, merged Matrix) {
	for h, head := range heads {
		for t := 0; t < head.Rows; t++ {
			copy(merged.Row(t)[h*head.Cols:], head.Row(t))
		}
	}
}

// newHeads returns H matrices of zeros, (T, S) each.
func newHeads(heads, rows, cols int) []Matrix {
	made := make([]Matrix, heads)
	for head := range made {
		made[head] = NewMatrix(rows, cols)
	}
	return made
}
