package model

import "math"

// FeedForward is the position-wise feed-forward network (section 3.3).
type FeedForward interface {
	Forward(x Matrix) Matrix // (T, D) -> (T, D)
}

// Activated is max(0, x W_1 + b_1) W_2 + b_2: Equation 2, optionally with another activation.
type Activated struct {
	Inner, Outer Linear
	Activation   func(float32) float32
}

// Forward computes (T, D) -> (T, D).
func (f Activated) Forward(x Matrix) Matrix {
	inner := f.Inner.Forward(x)
	for i, value := range inner.Data {
		inner.Data[i] = f.Activation(value)
	}
	return f.Outer.Forward(inner)
}

// Gated is (f(x W_1) * x W_3) W_2: a gated network (Shazeer 2020). One matrix product computes gate and value. SwiGLU has
// f = silu, and GeGLU f = gelu, in its tanh form.
type Gated struct {
	Inner, Outer Linear
	Gate         func(float32) float32
}

// Forward computes (T, D) -> (T, D).
func (f Gated) Forward(x Matrix) Matrix {
	both := f.Inner.Forward(x)
	width := both.Cols / 2
	inner := NewMatrix(x.Rows, width)
	for t := 0; t < x.Rows; t++ {
		gate, value, out := both.Row(t)[:width], both.Row(t)[width:], inner.Row(t)
		for i := range out {
			out[i] = f.Gate(gate[i]) * value[i]
		}
	}
	return f.Outer.Forward(inner)
}

func relu(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

func gelu(x float32) float32 {
	return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
}

// geluTanh is GPT-2's gelu, within 0.0005 of the other.
func geluTanh(x float32) float32 {
	wide := float64(x)
	return float32(0.5 * wide * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(wide+0.044715*wide*wide*wide))))
}

func silu(x float32) float32 { return x * sigmoid(x) }

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }
