package model

import "math"

// Norm normalises each row.
type Norm interface {
	Forward(x Matrix) Matrix // (T, D) -> (T, D)
}

// LayerNorm computes (x - mean) / sqrt(variance + eps) * weight + bias, with the biased variance (Ba et al. 2016).
type LayerNorm struct {
	Weight, Bias []float32
	Eps          float64
}

// Forward computes (T, D) -> (T, D).
func (n LayerNorm) Forward(x Matrix) Matrix {
	out := NewMatrix(x.Rows, x.Cols)
	for t := 0; t < x.Rows; t++ {
		row, normed := x.Row(t), out.Row(t)
		var sum, squares float64
		for _, value := range row {
			sum += float64(value)
		}
		mean := sum / float64(len(row))
		for _, value := range row {
			squares += (float64(value) - mean) * (float64(value) - mean)
		}
		scale := 1 / math.Sqrt(squares/float64(len(row))+n.Eps)
		for i, value := range row {
			normed[i] = float32((float64(value)-mean)*scale)*n.Weight[i] + n.Bias[i]
		}
	}
	return out
}

// RMSNorm computes x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019).
type RMSNorm struct {
	Weight []float32
	Eps    float64
}

// Forward computes (T, D) -> (T, D).
func (n RMSNorm) Forward(x Matrix) Matrix {
	out := NewMatrix(x.Rows, x.Cols)
	for t := 0; t < x.Rows; t++ {
		row, normed := x.Row(t), out.Row(t)
		var squares float64
		for _, value := range row {
			squares += float64(value) * float64(value)
		}
		scale := 1 / math.Sqrt(squares/float64(len(row))+n.Eps)
		for i, value := range row {
			normed[i] = float32(float64(value)*scale) * n.Weight[i]
		}
	}
	return out
}

// identity stands where a model has no norm, such as the end of a post-norm stack.
type identity struct{}

func (identity) Forward(x Matrix) Matrix { return x }
