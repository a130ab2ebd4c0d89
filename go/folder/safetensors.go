package folder

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"

	"clearhead/errors"
)

// Tensor is a named array of a safetensors file, as float32.
type Tensor struct {
	Shape []int
	Data  []float32
}

// Safetensors gives access to the tensors of a file. A tensor is converted when it's taken.
type Safetensors struct {
	header map[string]entry
	data   []byte
	taken  map[string]bool
}

type entry struct {
	Dtype   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// itemSizes holds the bytes per number of each supported type.
var itemSizes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2, "F64": 8}

// ParseSafetensors reads the header: a length, then JSON with the type, shape and place of each tensor.
func ParseSafetensors(data []byte) (*Safetensors, error) {
	if len(data) < 8 {
		return nil, damaged("it has only %d bytes", len(data))
	}
	length := binary.LittleEndian.Uint64(data)
	if length > uint64(len(data)-8) {
		return nil, damaged("its header has %d bytes, but only %d follow", length, len(data)-8)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+length], &raw); err != nil {
		return nil, damaged("its header isn't JSON: %v", err)
	}
	delete(raw, "__metadata__")
	file := &Safetensors{map[string]entry{}, data[8+length:], map[string]bool{}}
	for name, text := range raw {
		var found entry
		if err := json.Unmarshal(text, &found); err != nil {
			return nil, damaged("its entry %q can't be read: %v", name, err)
		}
		if err := file.check(name, found); err != nil {
			return nil, err
		}
		file.header[name] = found
	}
	return file, nil
}

// check fails unless an entry's bytes are within the file and as many as its shape needs.
func (s *Safetensors) check(name string, found entry) error {
	size, known := itemSizes[found.Dtype]
	if !known {
		return &errors.Error{What: fmt.Sprintf("the weight %s has the type %q", name, found.Dtype),
			Expected: "F32, F16, BF16 or F64", Name: name}
	}
	for _, n := range found.Shape {
		if n < 0 || (n > 0 && size > int64(len(s.data))/n) {
			return damaged("%s has shape %v, more than the file holds", name, found.Shape)
		}
		size *= n
	}
	if len(found.Offsets) != 2 || found.Offsets[0] < 0 || found.Offsets[1] > int64(len(s.data)) ||
		found.Offsets[1]-found.Offsets[0] != size {
		return damaged("%s has shape %v and the bytes %v", name, found.Shape, found.Offsets)
	}
	return nil
}

func damaged(problem string, values ...any) error {
	return &errors.Error{What: "model.safetensors is damaged: " + fmt.Sprintf(problem, values...), Fix: restore,
		Name: "model.safetensors"}
}

// Has reports whether the file has a tensor.
func (s *Safetensors) Has(name string) bool {
	_, found := s.header[name]
	return found
}

// Names returns the names that start with a prefix, sorted.
func (s *Safetensors) Names(prefix string) []string {
	var names []string
	for name := range s.header {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// SameModel is the advice where the weights don't fit the settings.
const SameModel = "restore config.json and model.safetensors from the same model"

// Take returns the tensor that the file has under these names. A tied weight has several, and is usually stored once.
// It fails if the tensor is missing, has another shape, isn't finite, or differs between its names.
func (s *Safetensors) Take(shape []int, names ...string) (Tensor, error) {
	var tensor Tensor
	for _, name := range names {
		found, ok := s.header[name]
		if !ok {
			continue
		}
		s.taken[name] = true
		if fmt.Sprint(found.Shape) != fmt.Sprint(shape) {
			return tensor, &errors.Error{What: fmt.Sprintf("%s has shape %v, but config.json needs %v", name, found.Shape, shape),
				Fix: SameModel, Name: name}
		}
		values := floats(s.data[found.Offsets[0]:found.Offsets[1]], found.Dtype)
		if !finite(values) {
			return tensor, &errors.Error{What: fmt.Sprintf("the weight %s has numbers that aren't finite in float32", name),
				Expected: "finite floating-point numbers", Fix: restore, Name: name}
		}
		if tensor.Data != nil && !equal(tensor.Data, values) {
			return tensor, &errors.Error{What: fmt.Sprintf("%s has other numbers than the weight it's tied to", name),
				Expected: "one matrix with both names", Fix: SameModel, Name: name}
		}
		tensor = Tensor{shape, values}
	}
	if tensor.Data == nil {
		return tensor, &errors.Error{What: fmt.Sprintf("the weight %s is missing", names[0]),
			Expected: fmt.Sprintf("a tensor of shape %v", shape), Fix: SameModel, Name: names[0]}
	}
	return tensor, nil
}

// Unused returns the names of tensors that weren't taken, sorted.
func (s *Safetensors) Unused() []string {
	var names []string
	for _, name := range s.Names("") {
		if !s.taken[name] {
			names = append(names, name)
		}
	}
	return names
}

func finite(values []float32) bool {
	for _, value := range values {
		if value-value != 0 { // of infinity, the difference is NaN
			return false
		}
	}
	return true
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func floats(data []byte, dtype string) []float32 {
	size := int(itemSizes[dtype])
	values := make([]float32, len(data)/size)
	switch dtype {
	case "F32":
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case "BF16":
		for i := range values {
			values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		}
	case "F16":
		for i := range values {
			values[i] = half(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case "F64":
		for i := range values {
			values[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		}
	}
	return values
}

// half converts a 16-bit float: one bit of sign, five of exponent, ten of mantissa.
func half(bits uint16) float32 {
	sign, exponent, mantissa := uint32(bits>>15)<<31, int(bits>>10&31), float64(bits&1023)
	var value float64
	switch exponent {
	case 0:
		value = math.Ldexp(mantissa, -24)
	case 31:
		value = math.Inf(1)
		if mantissa != 0 {
			value = math.NaN()
		}
	default:
		value = math.Ldexp(1024+mantissa, exponent-25)
	}
	return math.Float32frombits(math.Float32bits(float32(value)) | sign)
}
