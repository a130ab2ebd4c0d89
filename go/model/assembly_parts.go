package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"clearhead/errors"
)

func (a *assembly) selfAttention(prefix string) SelfAttention {
	c := a.config
	own, shared := c.NHeads*c.DHead, c.NKVHeads*c.DHead
	return SelfAttention{
		NHeads: c.NHeads, NKVHeads: c.NKVHeads, Rescale: a.rescale(),
		QKV: a.linear(prefix+"qkv", c.DModel, own+2*shared, or(c.QKVBias, c.Bias)),
		Out: a.linear(prefix+"out", own, c.DModel, c.Bias),
	}
}

func (a *assembly) crossAttention(prefix string) *CrossAttention {
	c := a.config
	own, shared := c.NHeads*c.DHead, c.NKVHeads*c.DHead
	return &CrossAttention{
		NHeads: c.NHeads, NKVHeads: c.NKVHeads, Rescale: a.rescale(),
		Q:   a.linear(prefix+"q", c.DModel, own, or(c.QKVBias, c.Bias)),
		KV:  a.linear(prefix+"kv", c.DModel, 2*shared, or(c.QKVBias, c.Bias)),
		Out: a.linear(prefix+"out", own, c.DModel, c.Bias),
	}
}

// rescale returns the factor from the 1 / sqrt(d_k) of Equation 1 to the model's own scale.
func (a *assembly) rescale() float32 {
	if a.config.AttentionScale == nil {
		return 1
	}
	return float32(*a.config.AttentionScale * math.Sqrt(float64(a.config.DHead)))
}

func (a *assembly) feedForward(prefix string) FeedForward {
	c := a.config
	outer := a.linear(prefix+"outer", c.DFF, c.DModel, c.Bias)
	gates := map[string]func(float32) float32{"swiglu": silu, "geglu": geluTanh}
	if gate, ok := gates[c.FeedForward]; ok {
		return Gated{a.linear(prefix+"inner", c.DModel, 2*c.DFF, c.Bias), outer, gate}
	}
	activations := map[string]func(float32) float32{"relu": relu, "gelu": gelu, "gelu_tanh": geluTanh, "silu": silu}
	return Activated{a.linear(prefix+"inner", c.DModel, c.DFF, c.Bias), outer, activations[c.FeedForward]}
}

func (a *assembly) positions(prefix string, twoSided bool) Positions {
	c := a.config
	switch c.Positions {
	case "learned":
		return Learned{Table: a.matrix(c.MaxLen, c.DModel, prefix+"positions.table")}
	case "rotary":
		base, scaling := a.rotary()
		return Rotary{DHead: c.DHead, Base: base, Scaling: scaling}
	case "relative":
		return Relative{Table: a.matrix(buckets, c.NHeads, prefix+"positions.table"), TwoSided: twoSided}
	case "alibi":
		return Alibi{Slopes: alibiSlopes(c.NHeads), TwoSided: twoSided}
	default:
		return Sinusoidal{Halves: c.Positions == "sinusoidal_halves"}
	}
}

// rotary reads BASE, BASE:linear:FACTOR, BASE:llama3:FACTOR:LOW:HIGH:LENGTH or BASE:yarn:FACTOR:SHORT:LONG.
func (a *assembly) rotary() (float64, []float64) {
	parts := strings.Split(a.config.Rotary, ":")
	base, err := strconv.ParseFloat(parts[0], 64)
	fits := err == nil && base > 1
	var numbers []float64
	if len(parts) > 1 {
		for _, part := range parts[2:] {
			number, err := strconv.ParseFloat(part, 64)
			fits = fits && err == nil && number > 0
			numbers = append(numbers, number)
		}
		fits = fits && len(numbers) == map[string]int{"linear": 1, "yarn": 3, "llama3": 4}[parts[1]] && len(numbers) > 0
	}
	if !fits {
		a.err = &errors.Error{What: fmt.Sprintf("model.rotary=%q isn't a description of rotary positions", a.config.Rotary),
			Expected: "BASE, BASE:linear:FACTOR, BASE:llama3:FACTOR:LOW:HIGH:LENGTH or BASE:yarn:FACTOR:SHORT:LONG", Name: "model.rotary"}
	}
	return base, numbers
}

func (a *assembly) addNorm(prefix string) AddNorm {
	return AddNorm{a.norm(prefix + "norm"), a.config.PreNorm}
}

// finalNorm returns the norm at the end of a stack. A post-norm stack needs none.
func (a *assembly) finalNorm(name string) Norm {
	return a.optionalNorm(name, or(a.config.FinalNorm, a.config.PreNorm))
}

func (a *assembly) optionalNorm(name string, has bool) Norm {
	if has {
		return a.norm(name)
	}
	return identity{}
}

func (a *assembly) norm(name string) Norm {
	weight := a.vector(a.config.DModel, name+".weight")
	if a.config.Norm == "rms" {
		return RMSNorm{weight, a.config.NormEps}
	}
	return LayerNorm{weight, a.vector(a.config.DModel, name+".bias"), a.config.NormEps}
}

func (a *assembly) linear(name string, in, out int, bias bool) Linear {
	linear := Linear{Weight: a.matrix(out, in, name+".weight")}
	if bias {
		linear.Bias = a.vector(out, name+".bias")
	}
	return linear
}

func (a *assembly) matrix(rows, cols int, names ...string) Matrix {
	return Matrix{rows, cols, a.take([]int{rows, cols}, names...)}
}

func (a *assembly) vector(n int, name string) []float32 { return a.take([]int{n}, name) }

func (a *assembly) take(shape []int, names ...string) []float32 {
	if a.err != nil {
		return nil
	}
	tensor, err := a.weights.Take(shape, names...)
	a.err = err
	return tensor.Data
}
