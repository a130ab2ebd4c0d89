package tokenization

import "container/heap"

// bpe joins pairs of neighbours, in the order in which training learned them (Sennrich et al. 2016).
type bpe struct {
	ids   map[string]int
	ranks map[pair]int
}

type pair struct{ left, right string }

// part is a stretch of a piece, linked to its neighbours by their places. Its place is that of its first byte.
type part struct {
	text           string
	previous, next int
}

// merge is a pair of neighbours that may be joined.
type merge struct {
	rank, left, right int
	whole             string // their text
}

// merges is a heap: the pair learned first comes first, then the leftmost.
type merges []merge

func (m merges) Len() int      { return len(m) }
func (m merges) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m merges) Less(i, j int) bool {
	return m[i].rank < m[j].rank || m[i].rank == m[j].rank && m[i].left < m[j].left
}
func (m *merges) Push(it any) { *m = append(*m, it.(merge)) }
func (m *merges) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// encode returns the ids of a piece.
func (m bpe) encode(piece string) []int {
	parts := make([]part, len(piece))
	for i := range parts {
		parts[i] = part{piece[i : i+1], i - 1, i + 1}
	}
	var queue merges
	for i := range parts {
		m.offer(&queue, parts, i)
	}
	for len(queue) > 0 {
		best := heap.Pop(&queue).(merge)
		left := &parts[best.left]
		if left.next != best.right || left.text+parts[best.right].text != best.whole {
			continue // one of the two has been joined to another neighbour
		}
		left.text, left.next = best.whole, parts[best.right].next
		parts[best.right].text = ""
		if left.next < len(parts) {
			parts[left.next].previous = best.left
		}
		m.offer(&queue, parts, best.left)
		m.offer(&queue, parts, left.previous)
	}
	var ids []int
	for i := 0; i < len(parts); i = parts[i].next {
		if id, ok := m.ids[parts[i].text]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// offer adds the pair that starts at a place, if training learned it.
func (m bpe) offer(queue *merges, parts []part, left int) {
	if left < 0 || parts[left].next >= len(parts) {
		return
	}
	right := parts[left].next
	if rank, ok := m.ranks[pair{parts[left].text, parts[right].text}]; ok {
		heap.Push(queue, merge{rank, left, right, parts[left].text + parts[right].text})
	}
}
