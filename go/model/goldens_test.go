package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"clearhead/folder"
)

func golden(t *testing.T, name string) []byte {
	directory := os.Getenv("CLEARHEAD_GOLDENS")
	if directory == "" {
		t.Skip("CLEARHEAD_GOLDENS isn't set; tests/go/test_go_goldens.py computes the values")
	}
	data, err := os.ReadFile(filepath.Join(directory, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestMultiHeadAttentionComputesWhatPythonComputes(t *testing.T) {
	const batch, length, dModel, heads = 32, 100, 512, 8
	file, err := folder.ParseSafetensors(golden(t, "attention.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	take := func(name string, shape ...int) []float32 {
		tensor, err := file.Take(shape, name)
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Data
	}
	linear := func(name string) Linear {
		return Linear{Matrix{dModel, dModel, take(name+".weight", dModel, dModel)}, take(name+".bias", dModel)}
	}
	attention := MultiHeadAttention{heads, linear("w_q"), linear("w_k"), linear("w_v"), linear("w_o")}
	x := Matrix{batch * length, dModel, take("x", batch, length, dModel)}
	expected := Matrix{batch * length, dModel, take("output", batch, length, dModel)}
	expectedWeights := Matrix{2 * heads * length, length, take("weights", 2, heads, length, length)}
	for b := 0; b < batch; b++ {
		sentence := x.Span(b*length, (b+1)*length)
		output, weights := attention.Forward(sentence, sentence, sentence, nil)
		assertClose(t, output, expected.Span(b*length, (b+1)*length), 1e-5)
		for head := 0; head < heads && b < 2; head++ {
			start := (b*heads + head) * length
			assertClose(t, weights[head], expectedWeights.Span(start, start+length), 1e-5)
		}
	}
}

func TestRelativeBucketsAreThoseOfPython(t *testing.T) {
	var buckets map[string][]int
	if err := json.Unmarshal(golden(t, "buckets.json"), &buckets); err != nil {
		t.Fatal(err)
	}
	for i, expected := range buckets["True"] {
		if found := (Relative{TwoSided: true}).bucket(i - 1000); found != expected {
			t.Errorf("two-sided distance %d: bucket %d, expected %d", i-1000, found, expected)
		}
		if found := (Relative{}).bucket(i - 1000); found != buckets["False"][i] {
			t.Errorf("distance %d: bucket %d, expected %d", i-1000, found, buckets["False"][i])
		}
	}
}

func assertClose(t *testing.T, found, expected Matrix, tolerance float64) {
	t.Helper()
	if found.Rows != expected.Rows || found.Cols != expected.Cols {
		t.Fatalf("(%d, %d), expected (%d, %d)", found.Rows, found.Cols, expected.Rows, expected.Cols)
	}
	for i := range found.Data {
		if difference := math.Abs(float64(found.Data[i] - expected.Data[i])); !(difference <= tolerance) {
			t.Fatalf("place %d: %v, expected %v", i, found.Data[i], expected.Data[i])
		}
	}
}
