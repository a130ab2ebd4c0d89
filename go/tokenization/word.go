package tokenization

// whole looks up whole pieces: words or characters.
type whole struct{ ids map[string]int }

// encode returns the id of a piece.
func (m whole) encode(piece string) []int {
	if id, ok := m.ids[piece]; ok {
		return []int{id}
	}
	return []int{UNK}
}
