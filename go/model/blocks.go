package model

// EncoderBlock is Figure 1, left: self-attention, then feed-forward.
type EncoderBlock struct {
	Attention          SelfAttention
	FeedForward        FeedForward
	AddNorm1, AddNorm2 AddNorm
}

// Forward computes (S, D) -> (S, D).
func (b EncoderBlock) Forward(x Matrix, spans []Span) Matrix {
	x = b.AddNorm1.Forward(x, func(x Matrix) Matrix { return b.Attention.Forward(x, spans, 0) })
	return b.AddNorm2.Forward(x, b.FeedForward.Forward)
}

// DecoderBlock is Figure 1, right: causal self-attention, attention to the encoder's memory, feed-forward.
//
// Without CrossAttention, it's a block of a decoder-only model.
type DecoderBlock struct {
	Attention                    SelfAttention
	CrossAttention               *CrossAttention
	FeedForward                  FeedForward
	AddNorm1, AddNorm2, AddNorm3 AddNorm
}

// Forward computes (T, D) -> (T, D) in the block of this layer of the caches. See CrossAttention for observe.
func (b DecoderBlock) Forward(x Matrix, spans []Span, layer int, observe func(int, []Matrix)) Matrix {
	x = b.AddNorm1.Forward(x, func(x Matrix) Matrix { return b.Attention.Forward(x, spans, layer) })
	if b.CrossAttention != nil {
		x = b.AddNorm2.Forward(x, func(x Matrix) Matrix { return b.CrossAttention.Forward(x, spans, layer, observe) })
	}
	return b.AddNorm3.Forward(x, b.FeedForward.Forward)
}
