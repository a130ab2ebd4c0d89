package model

import "math"

// Pointer copies tokens from the source (See et al. 2017).
//
//	p(w) = g p_vocabulary(w) + (1 - g) * (attention to the positions of w in the source)
//
// The gate g = sigmoid(x W + b), with the decoder's state x, decides between generating and copying. The attention is
// the mean over heads.
type Pointer struct{ Gate Linear }

// Forward computes x (T, D), logits (T, V), weights H times (T, S), source (S,) -> log-probabilities (T, V), in place
// of the logits.
func (p Pointer) Forward(x, logits Matrix, weights []Matrix, source []int) {
	gates := p.Gate.Forward(x)
	for t := 0; t < x.Rows; t++ {
		gate, row := float64(gates.Row(t)[0]), logits.Row(t)
		LogSoftmax(row)
		for i := range row {
			row[i] += float32(logSigmoid(gate))
		}
		mass := map[int]float64{}
		for s, token := range source {
			var total float64
			for _, head := range weights {
				total += float64(head.Row(t)[s])
			}
			mass[token] += total / float64(len(weights))
		}
		for token, sum := range mass {
			if sum > 0 {
				row[token] = float32(logAddExp(float64(row[token]), math.Log(sum)+logSigmoid(-gate)))
			}
		}
	}
}

// LogSoftmax replaces logits by log-probabilities.
func LogSoftmax(row []float32) {
	largest := row[0]
	for _, value := range row {
		if value > largest {
			largest = value
		}
	}
	var sum float64
	for _, value := range row {
		sum += math.Exp(float64(value - largest))
	}
	normaliser := float32(float64(largest) + math.Log(sum))
	for i := range row {
		row[i] -= normaliser
	}
}

func logSigmoid(x float64) float64 { return -logAddExp(0, -x) }

// logAddExp returns log(exp(a) + exp(b)).
func logAddExp(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	return a + math.Log1p(math.Exp(b-a))
}
