package model

import (
	"fmt"
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
