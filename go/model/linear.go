package model

// Linear computes x W^T + b. The weight may stack several matrices, which then share one product.
type Linear struct {
	Weight Matrix    // (F, D)
	Bias   []float32 // (F,), or nil
}

// Forward computes (T, D) -> (T, F).
func (l Linear) Forward(x Matrix) Matrix {
	out := product(x, l.Weight)
	if l.Bias != nil {
		for t := 0; t < out.Rows; t++ {
			add(out.Row(t), l.Bias)
		}
	}
	return out
}

// multiply multiplies a matrix in place.
func multiply(x Matrix, factor float32) {
	if factor == 1 {
		return
	}
	for i := range x.Data {
		x.Data[i] *= factor
	}
}

// add adds b to a in place.
func add(a, b []float32) {
	b = b[:len(a)]
	for i := range a {
		a[i] += b[i]
	}
}
