package decode

import (
	"math"
	"sort"
)

// Hypothesis is one answer. Log-probabilities are natural logarithms. They include the end token, IDs doesn't.
type Hypothesis struct {
	IDs                   []int
	Score                 float64 // log-probability, after any repetition penalty, divided by the length penalty
	LogProbability        float64
	TokenLogProbabilities []float64
	Finished              bool // ended by the end token; false if cut off, or if no token could follow
}

// beam is a live hypothesis.
type beam struct {
	total            float64 // ranks the whole hypothesis, before the length penalty
	tokens           []int
	logProbabilities []float64
}

// candidate is a beam with one more token.
type candidate struct {
	parent, token  int
	logProbability float64
	total          float64
}

// extended returns the beam with the candidate's token.
func (b beam) extended(c candidate) beam {
	return beam{c.total, append(append([]int{}, b.tokens...), c.token), b.parts(c)}
}

// parts returns the log-probability of each token, the candidate's included.
func (b beam) parts(c candidate) []float64 {
	return append(append([]float64{}, b.logProbabilities...), c.logProbability)
}

// topCandidates returns the k most likely tokens of a row of log-probabilities. Ties go to the lower id.
func topCandidates(row []float32, k int) []int {
	if k > len(row) {
		k = len(row)
	}
	top, lowest := make([]int, 0, k), float32(math.Inf(-1))
	for token, value := range row {
		if len(top) == k && value <= lowest {
			continue
		}
		at := sort.Search(len(top), func(i int) bool { return row[top[i]] < value })
		if len(top) < k {
			top = append(top, 0)
		}
		copy(top[at+1:], top[at:])
		top[at] = token
		lowest = row[top[len(top)-1]]
	}
	return top
}

// bestFirst sorts candidates by their totals. Ties go to the earlier beam, then to the lower id.
func bestFirst(candidates []candidate) {
	sort.SliceStable(candidates, func(i, j int) bool {
		a, b := candidates[i], candidates[j]
		if a.total != b.total {
			return a.total > b.total
		}
		if a.parent != b.parent {
			return a.parent < b.parent
		}
		return a.token < b.token
	})
}
