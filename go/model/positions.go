package model

import "math"

// Positions is a position scheme: those of section 3.5, and three later ones. A scheme does one of three things: Embed
// adds to the embeddings, Rotation rotates queries and keys, and Bias adds to the attention scores.
type Positions interface {
	// Embed adds positions to x (T, D), whose first row is at position `first`.
	Embed(x Matrix, first int)
	// Rotation returns the rotation of n queries and keys, or nil.
	Rotation(first, n int) *Rotation
	// Bias returns the bias to add to the scores of each head, H times (T, S), or nil.
	Bias(queries, keys Range) []Matrix
	// Endless reports whether any position is valid. A table has a last one.
	Endless() bool
}

// Range is n consecutive positions. The first may be negative, if it belongs to a key outside a window.
type Range struct{ First, N int }

// unordered adds no position information. Schemes embed it and override one of its methods.
type unordered struct{}

func (unordered) Embed(Matrix, int)           {}
func (unordered) Rotation(int, int) *Rotation { return nil }
func (unordered) Bias(_, _ Range) []Matrix    { return nil }
func (unordered) Endless() bool               { return true }

// Sinusoidal is the paper's scheme: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.
//
// The rows are computed when they're needed. A table of 5,000 would take longer than starting the program.
//
// Halves puts all sines first and then all cosines, as Marian orders them.
type Sinusoidal struct {
	unordered
	Halves bool
}

// Endless returns false, as in Python, where the waves are a table.
func (Sinusoidal) Endless() bool { return false }

// Embed adds the waves.
func (s Sinusoidal) Embed(x Matrix, first int) {
	for i := 0; i < x.Cols; i += 2 {
		frequency := math.Exp(float64(i) * (-math.Log(10_000) / float64(x.Cols)))
		for t := 0; t < x.Rows; t++ {
			sin, cos := math.Sincos(float64(first+t) * frequency)
			row, atSin, atCos := x.Row(t), i, i+1
			if s.Halves {
				atSin, atCos = i/2, (x.Cols+1)/2+i/2
			}
			row[atSin] += float32(sin)
			if atCos < x.Cols {
				row[atCos] += float32(cos)
			}
		}
	}
}

// Learned adds a learned table of the same shape.
type Learned struct {
	unordered
	Table Matrix // (max_len, D)
}

// Endless returns false: the table has a last row.
func (Learned) Endless() bool { return false }

// Embed adds rows of the table.
func (l Learned) Embed(x Matrix, first int) {
	for t := 0; t < x.Rows; t++ {
		add(x.Row(t), l.Table.Row(first+t))
	}
}

// Rotary rotates queries and keys by an angle that grows with the position (Su et al. 2021).
type Rotary struct {
	unordered
	DHead   int
	Base    float64
	Scaling []float64 // see stretched
}

// Rotation holds the cosines and sines of the angles to rotate by, (T, K/2) each.
type Rotation struct{ Cos, Sin Matrix }

// Rotation returns the angles Base^(-2i/K) * position.
func (r Rotary) Rotation(first, n int) *Rotation {
	half := r.DHead / 2
	rotation := &Rotation{NewMatrix(n, half), NewMatrix(n, half)}
	for i := 0; i < half; i++ {
		frequency := stretched(math.Pow(r.Base, -float64(2*i)/float64(r.DHead)), r.Scaling)
		for t := 0; t < n; t++ {
			sin, cos := math.Sincos(float64(first+t) * frequency)
			rotation.Cos.Row(t)[i], rotation.Sin.Row(t)[i] = float32(cos), float32(sin)
		}
	}
	return rotation
}

// stretched lowers a frequency of a rotation, in radians per token, so that it covers longer texts.
//
// No scaling changes nothing. One number is a factor, which divides all frequencies (Chen et al. 2023). Three are factor,
// short and long, of YaRN (Peng et al. 2023): frequencies of wavelengths above `long` tokens are divided, those below
// `short` are left alone, and those in between are blended by the logarithm. Four are factor, low, high and length, of
// Llama 3: frequencies that turn less than `low` times within `length` tokens are divided, those that turn more than
// `high` times are left alone, and those in between are blended.
func stretched(frequency float64, scaling []float64) float64 {
	switch len(scaling) {
	case 0:
		return frequency
	case 1:
		return frequency / scaling[0]
	}
	factor, low, high, wave := scaling[0], scaling[1], scaling[2], 2*math.Pi/frequency
	var part float64
	if len(scaling) == 3 {
		part = math.Log(wave/high) / math.Log(low/high)
	} else {
		part = (scaling[3]/wave - low) / (high - low)
	}
	kept := math.Min(math.Max(part, 0), 1)
	return kept*frequency + (1-kept)*frequency/factor
}

// rotate rotates each pair (x_i, x_{i + K/2}) of every head by its angle, in place. (T, H*K)
func rotate(x Matrix, rotation *Rotation) {
	if rotation == nil {
		return
	}
	half := rotation.Cos.Cols
	for t := 0; t < x.Rows; t++ {
		cos, sin, row := rotation.Cos.Row(t), rotation.Sin.Row(t), x.Row(t)
		for head := 0; head < x.Cols; head += 2 * half {
			a, b := row[head:head+half], row[head+half:head+2*half]
			for i := range a {
				a[i], b[i] = a[i]*cos[i]-b[i]*sin[i], b[i]*cos[i]+a[i]*sin[i]
			}
		}
	}
}

const (
	buckets     = 32
	maxDistance = 128
)

// Relative adds a learned bias for each head and bucket of distances (Raffel et al. 2020).
//
// Small distances have a bucket each, and larger ones share logarithmic buckets. In an encoder (TwoSided), half of the
// buckets look ahead. In a causal decoder, all look back.
type Relative struct {
	unordered
	Table    Matrix // (buckets, H)
	TwoSided bool
}

// bucket returns the bucket of a key position minus a query position.
func (r Relative) bucket(distance int) int {
	n, offset := buckets, 0
	if r.TwoSided {
		n /= 2
		if distance > 0 {
			offset = n
		} else {
			distance = -distance
		}
	} else {
		distance = -distance
		if distance < 0 {
			distance = 0
		}
	}
	exact := n / 2
	if distance < exact {
		return offset + distance
	}
	growth := float32(float64(n-exact) / math.Log(maxDistance/float64(exact)))
	far := exact + int(float32(math.Log(float64(float32(distance)/float32(exact))))*growth)
	if far > n-1 {
		far = n - 1
	}
	return offset + far
}

// Bias looks up the bucket of each distance.
func (r Relative) Bias(queries, keys Range) []Matrix {
	bias := newHeads(r.Table.Cols, queries.N, keys.N)
	for t := 0; t < queries.N; t++ {
		for s := 0; s < keys.N; s++ {
			row := r.Table.Row(r.bucket(keys.First + s - queries.First - t))
			for head := range bias {
				bias[head].Row(t)[s] = row[head]
			}
		}
	}
	return bias
}

// Alibi subtracts a slope times the distance, with a fixed slope for each head (Press et al. 2022).
//
// In an encoder (TwoSided), the distance counts in both directions. In a causal decoder, the future gets no bias.
type Alibi struct {
	unordered
	Slopes   []float32 // (H,)
	TwoSided bool
}

// Bias returns minus the slope times the distance.
func (a Alibi) Bias(queries, keys Range) []Matrix {
	bias := newHeads(len(a.Slopes), queries.N, keys.N)
	for head, slope := range a.Slopes {
		for t := 0; t < queries.N; t++ {
			row := bias[head].Row(t)
			for s := range row {
				distance := queries.First + t - keys.First - s
				if distance < 0 && a.TwoSided {
					distance = -distance
				}
				if distance > 0 {
					row[s] = -slope * float32(distance)
				}
			}
		}
	}
	return bias
}

// alibiSlopes returns 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads.
//
// If n isn't a power of two, it returns the slopes for the power below, then every second slope for the power above.
func alibiSlopes(heads int) []float32 {
	power := 1
	for 2*power <= heads {
		power *= 2
	}
	slopes := make([]float32, heads)
	for head := range slopes {
		if head < power {
			slopes[head] = float32(math.Exp2(-8 * float64(head+1) / float64(power)))
		} else {
			slopes[head] = float32(math.Exp2(-4 * float64(2*(head-power)+1) / float64(power)))
		}
	}
	return slopes
}
