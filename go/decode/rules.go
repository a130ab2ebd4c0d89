package decode

import "math"

// Request holds the length limits for one sentence.
type Request struct {
	MaxSteps int // tokens, end token included, after which the output is cut off
	MinLen   int // minimum number of tokens before the end token
	MaxLen   int // tokens after which the end token is forced
}

// Rules holds the constraints and ranking rules of a search.
type Rules struct {
	EOS               int
	Suppress          []int // tokens that are never generated
	Beam              int
	Alpha             float64
	NoRepeatNgram     int     // length of the n-grams that may occur only once (0: no limit)
	RepetitionPenalty float64 // factor on the log-probability of tokens that a hypothesis already contains
}

// penalty returns the length penalty ((5 + |Y|) / 6)^alpha, where |Y| counts the end token if there is one.
func (r Rules) penalty(length int) float64 {
	return math.Pow(float64(5+length)/6, r.Alpha)
}

// candidates returns how many successors to look at for a beam of `length` tokens, so that enough of them are allowed.
func (r Rules) candidates(length int) int {
	k := r.Beam + 1 + len(r.Suppress)
	if r.NoRepeatNgram > 0 || r.RepetitionPenalty > 1 {
		k += length
	}
	return k
}

// rank returns the value to rank a candidate by: its penalised log-probability, or -inf if a rule forbids the token.
func (r Rules) rank(logProbability float32, token int, tokens []int, tooShort bool) float64 {
	forbidden := tooShort && token == r.EOS || contains(r.Suppress, token) || r.repeats(token, tokens)
	if forbidden {
		return math.Inf(-1)
	}
	if r.RepetitionPenalty > 1 && contains(tokens, token) {
		logProbability *= float32(r.RepetitionPenalty)
	}
	return float64(logProbability)
}

// repeats reports whether a token would repeat an n-gram of its beam.
func (r Rules) repeats(token int, tokens []int) bool {
	n := r.NoRepeatNgram
	if n == 0 || len(tokens) < n {
		return false
	}
	last := tokens[len(tokens)-n+1:] // the n - 1 tokens before the candidate
	for start := 0; start+n <= len(tokens); start++ {
		if tokens[start+n-1] == token && equal(tokens[start:start+n-1], last) {
			return true
		}
	}
	return false
}

func contains(tokens []int, token int) bool {
	for _, it := range tokens {
		if it == token {
			return true
		}
	}
	return false
}

func equal(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
