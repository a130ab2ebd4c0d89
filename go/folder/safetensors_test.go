package folder

import (
	"encoding/binary"
	"math"
	"math/rand"
	"testing"

	"clearhead/errors"
)

func TestHalfPrecision(t *testing.T) {
	for bits, expected := range map[uint16]float64{
		0x0000: 0, 0x3C00: 1, 0xC000: -2, 0x7BFF: 65504, 0x0001: math.Ldexp(1, -24), 0x03FF: math.Ldexp(1023, -24),
		0x3555: 0.333251953125, 0x7C00: math.Inf(1), 0xFC00: math.Inf(-1),
	} {
		if found := half(bits); float64(found) != expected {
			t.Errorf("%#x: %v, expected %v", bits, found, expected)
		}
	}
	if !math.IsNaN(float64(half(0x7E00))) || !math.Signbit(float64(half(0x8000))) {
		t.Error("NaN and -0 aren't kept")
	}
}

func TestDamagedHeadersAreErrors(t *testing.T) {
	dice := rand.New(rand.NewSource(0))
	header := []byte(`{"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"a": "b"}}`)
	whole := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	whole = append(whole, make([]byte, 24)...)
	for n := 0; n < 20_000; n++ {
		damaged := append([]byte{}, whole[:len(whole)-n%2*dice.Intn(len(whole))]...)
		for i := 0; i < n%4 && len(damaged) > 0; i++ {
			damaged[dice.Intn(len(damaged))] = byte(dice.Intn(256))
		}
		file, err := ParseSafetensors(damaged)
		if err != nil {
			continue
		}
		for _, name := range file.Names("") { // no panic
			file.Take([]int{2, 3}, name)
		}
	}
	file, err := ParseSafetensors(whole)
	if err != nil {
		t.Fatal(err)
	}
	if tensor, err := file.Take([]int{2, 3}, "a"); err != nil || len(tensor.Data) != 6 || len(file.Unused()) != 0 {
		t.Error(tensor, err)
	}
}

func TestWeightsThatCannotBeUsedAreNamed(t *testing.T) {
	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	huge := binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e300)) // infinity in float32
	header := []byte(`{"one": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
		"nan": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
		"huge": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
		"two": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}}`)
	data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	data = append(append(append(append(data, 0, 0, 0, 0), nan...), huge...), 0, 0, 128, 63)
	file, err := ParseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"nan"}, {"huge"}, {"one", "two"}, {"none"}} {
		_, err := file.Take([]int{1}, names...)
		problem, ok := err.(*errors.Error)
		if !ok || problem.Name != names[len(names)-1] || problem.Expected == "" || problem.Fix == "" {
			t.Error(names, err)
		}
	}
}
