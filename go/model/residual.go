package model

// AddNorm is the residual connection around a sub-layer, with normalisation (sections 3.1 and 5.4).
//
//	post-norm (the paper):  norm(x + sublayer(x))
//	pre-norm:               x + sublayer(norm(x))
type AddNorm struct {
	Norm    Norm
	PreNorm bool
}

// Forward computes (T, D) -> (T, D).
func (a AddNorm) Forward(x Matrix, sublayer func(Matrix) Matrix) Matrix {
	if a.PreNorm {
		return sum(x, sublayer(a.Norm.Forward(x)))
	}
	return a.Norm.Forward(sum(x, sublayer(x)))
}

// sum returns x + y, in y's memory. A sub-layer's output belongs to nobody else.
func sum(x, y Matrix) Matrix {
	add(y.Data, x.Data)
	return y
}
