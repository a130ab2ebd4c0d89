package tokenization

// bpe joins pairs of neighbours, in the order in which training learned them (Sennrich et al. 2016).
type bpe struct {
	ids   map[string]int
	ranks map[pair]int
}

type pair struct{ left, right string }

// encode returns the ids of a piece.
func (m bpe) encode(piece string) []int {
	parts := make([]string, len(piece))
	for i := range parts {
		parts[i] = piece[i : i+1]
	}
	for {
		best, at := len(m.ranks), -1
		for i := 0; i+1 < len(parts); i++ {
			if rank, ok := m.ranks[pair{parts[i], parts[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	ids := make([]int, 0, len(parts))
	for _, part := range parts {
		if id, ok := m.ids[part]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}
