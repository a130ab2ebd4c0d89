package model_test

import (
	"fmt"
	"math/rand"

	"clearhead/model"
)

// Multi-head self-attention with the paper's base shape: 32 sentences of 100 tokens, d_model 512, 8 heads.
func ExampleMultiHeadAttention() {
	const batch, length, dModel = 32, 100, 512
	random := rand.New(rand.NewSource(42))
	matrix := func(rows int) model.Matrix {
		m := model.NewMatrix(rows, dModel)
		for i := range m.Data {
			m.Data[i] = float32(random.NormFloat64()) / 22.6 // sqrt(512)
		}
		return m
	}
	linear := func() model.Linear { return model.Linear{Weight: matrix(dModel)} }
	attention := model.MultiHeadAttention{NHeads: 8, WQ: linear(), WK: linear(), WV: linear(), WO: linear()}

	var output model.Matrix
	for sentence := 0; sentence < batch; sentence++ {
		x := matrix(length)
		output, _ = attention.Forward(x, x, x, nil)
	}
	fmt.Printf("Output shape: %dx%dx%d\n", batch, output.Rows, output.Cols)
	// Output: Output shape: 32x100x512
}
