package model

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
	"time"
)

func random(rows, cols int) Matrix {
	m := NewMatrix(rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rand.NormFloat64())
	}
	return m
}

func TestProductIsTheSumOfProductsWhateverTheRowsBesideIt(t *testing.T) {
	for _, shape := range [][3]int{{1, 1, 1}, {3, 5, 7}, {4, 4, 8}, {5, 6, 3}, {2, 9, 33}} {
		x, w := random(shape[0], shape[2]), random(shape[1], shape[2])
		all := product(x, w)
		for row := 0; row < x.Rows; row++ {
			alone := product(x.Span(row, row+1), w)
			for f := 0; f < w.Rows; f++ {
				var sum float32
				for i, value := range x.Row(row) {
					sum += value * w.Row(f)[i]
				}
				if all.Row(row)[f] != sum || alone.Row(0)[f] != sum {
					t.Errorf("%v: %v and %v, expected %v", shape, all.Row(row)[f], alone.Row(0)[f], sum)
				}
			}
		}
	}
}

func TestAQueryThatMayAttendNowhereGetsZeros(t *testing.T) {
	q, k, v := random(3, 4), random(5, 4), random(5, 2)
	mask := func(query, key int) bool { return query != 1 && key < 2 }
	output, weights := ScaledDotProductAttention(q, k, v, mask, Matrix{})
	for query := 0; query < q.Rows; query++ {
		var sum float64
		for key, weight := range weights.Row(query) {
			sum += float64(weight)
			if !mask(query, key) && weight != 0 {
				t.Errorf("query %d gives masked key %d the weight %v", query, key, weight)
			}
		}
		if expected := map[bool]float64{true: 0, false: 1}[query == 1]; math.Abs(sum-expected) > 1e-6 {
			t.Errorf("the weights of query %d sum to %v", query, sum)
		}
	}
	if output.Row(1)[0] != 0 || output.Row(1)[1] != 0 {
		t.Errorf("output %v, expected zeros", output.Row(1))
	}
}

func TestLongTextsAttendInBlocksAsAtOnce(t *testing.T) {
	q, k, v := random(150, 4), random(150, 4), random(150, 4)
	mask := CausalMask(150, 150).recent(150, 150, 40)
	blocks := attend([]Matrix{q}, []Matrix{k}, []Matrix{v}, mask, nil)
	whole, _ := ScaledDotProductAttention(q, k, v, mask, Matrix{})
	assertClose(t, blocks[0], whole, 0)
}

func BenchmarkProduct(b *testing.B) {
	for _, rows := range []int{1, 2, 16} {
		for _, d := range []int{128, 512} {
			x, w := random(rows, d), random(d, d)
			b.Run(fmt.Sprintf("%dx%d", rows, d), func(b *testing.B) {
				start := time.Now()
				for i := 0; i < b.N; i++ {
					product(x, w)
				}
				b.ReportMetric(float64(rows*d*d)*float64(b.N)/1e9/time.Since(start).Seconds(), "GMAC/s")
			})
		}
	}
}
