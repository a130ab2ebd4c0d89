package tokenization

import "math"

// unigram chooses the most likely segmentation (Kudo 2018).
type unigram struct {
	ids     map[string]int
	scores  []float64 // log-probability of each piece
	longest int       // bytes
	unknown float64   // score of a byte that no piece starts with
}

// encode returns the ids of a piece.
func (m unigram) encode(piece string) []int {
	type path struct {
		score     float64
		start, id int
	}
	best := make([]path, len(piece)+1) // best[end] covers piece[:end]
	for i := 1; i < len(best); i++ {
		best[i].score = math.Inf(-1)
	}
	for start := 0; start < len(piece); start++ {
		single := false
		for end := start + 1; end <= len(piece) && end-start <= m.longest; end++ {
			id, ok := m.ids[piece[start:end]]
			if !ok {
				continue
			}
			single = single || end == start+1
			if score := best[start].score + m.scores[id]; score > best[end].score {
				best[end] = path{score, start, id}
			}
		}
		if score := best[start].score + m.unknown; !single && score > best[start+1].score {
			best[start+1] = path{score, start, UNK}
		}
	}
	var ids []int
	for end := len(piece); end > 0; end = best[end].start {
		ids = append(ids, best[end].id)
	}
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids
}
