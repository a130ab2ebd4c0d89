// Package model implements the Transformer, module by module, under the names of clearhead/model.
//
// A batch is ragged: the rows of its sequences follow each other in one matrix, so nothing is padded. Axes: T queries,
// S keys, D, H, K as in the paper.
package model

// Matrix holds row vectors one after the other.
type Matrix struct {
	Rows, Cols int
	Data       []float32
}

// NewMatrix returns a matrix of zeros.
func NewMatrix(rows, cols int) Matrix {
	return Matrix{rows, cols, make([]float32, rows*cols)}
}

// Row returns row i, which shares the matrix's memory.
func (m Matrix) Row(i int) []float32 {
	return m.Data[i*m.Cols : (i+1)*m.Cols : (i+1)*m.Cols]
}

// Span returns the rows from start up to end, which share the matrix's memory.
func (m Matrix) Span(start, end int) Matrix {
	return Matrix{end - start, m.Cols, m.Data[start*m.Cols : end*m.Cols : end*m.Cols]}
}

// product computes x w^T: (T, D), (F, D) -> (T, F).
//
// Four rows of w meet two rows of x at a time, which gives the processor eight independent sums. Every sum adds its
// terms in the same order, so a row's result doesn't depend on the rows beside it.
func product(x, w Matrix) Matrix {
	out := NewMatrix(x.Rows, w.Rows)
	f := 0
	for ; f+4 <= w.Rows; f += 4 {
		w0, w1, w2, w3 := w.Row(f), w.Row(f+1), w.Row(f+2), w.Row(f+3)
		t := 0
		for ; t+2 <= x.Rows; t += 2 {
			a, b := out.Row(t)[f:f+4], out.Row(t + 1)[f:f+4]
			a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3] = dot2x4(x.Row(t), x.Row(t+1), w0, w1, w2, w3)
		}
		if t < x.Rows {
			a := out.Row(t)[f : f+4]
			a[0], a[1], a[2], a[3] = dot4(x.Row(t), w0, w1, w2, w3)
		}
	}
	for ; f < w.Rows; f++ {
		for t := 0; t < x.Rows; t++ {
			out.Row(t)[f] = dot(x.Row(t), w.Row(f))
		}
	}
	return out
}

func dot2x4(x, y, w0, w1, w2, w3 []float32) (a0, a1, a2, a3, b0, b1, b2, b3 float32) {
	y, w0, w1, w2, w3 = y[:len(x)], w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)] // so that no index is checked
	for i, xi := range x {
		yi := y[i]
		w := w0[i]
		a0 += xi * w
		b0 += yi * w
		w = w1[i]
		a1 += xi * w
		b1 += yi * w
		w = w2[i]
		a2 += xi * w
		b2 += yi * w
		w = w3[i]
		a3 += xi * w
		b3 += yi * w
	}
	return
}

func dot4(x, w0, w1, w2, w3 []float32) (a0, a1, a2, a3 float32) {
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for i, xi := range x {
		a0 += xi * w0[i]
		a1 += xi * w1[i]
		a2 += xi * w2[i]
		a3 += xi * w3[i]
	}
	return
}

func dot(x, w []float32) (sum float32) {
	w = w[:len(x)]
	for i, xi := range x {
		sum += xi * w[i]
	}
	return
}

func smaller(a, b int) int {
	if a < b {
		return a
	}
	return b
}
