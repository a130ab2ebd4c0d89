// Package decode generates answers with greedy and beam search (section 6.1), by the rules of clearhead/decode.
package decode

import (
	"fmt"
	"math"

	"clearhead/errors"
	"clearhead/model"
)

// Decoding is a batch being decoded: one row for each live hypothesis of each sentence.
type Decoding interface {
	// Step appends a token to every row, and returns the log-probabilities of the next one. R tokens -> (R, V)
	Step(tokens []int) model.Matrix
	// Select replaces row i with row rows[i]. A row may be repeated.
	Select(rows []int)
}

// BeamSearch searches for the best answer to each sentence.
//
// A hypothesis ends when its end token is among the `beam` top candidates of its sentence, so beam 1 is greedy search.
// A sentence is done when one of these holds:
//
//   - no live hypothesis can still outscore its best answer
//   - it has `beam` answers, and no live hypothesis currently outscores the best. Unlikely early ends alone therefore
//     don't cut off a likely sentence.
//   - it reaches its length limit
//   - no hypothesis can be continued
//
// If it has no answer by then, its live hypotheses are added as unfinished ones. Sentences don't influence each other.
func BeamSearch(decoding Decoding, start []int, requests []Request, rules Rules) ([]Hypothesis, error) {
	searches := make([]*search, len(requests))
	for i, request := range requests {
		searches[i] = &search{rules: rules, request: request, beams: []beam{{}}}
	}
	live, tokens := searches, start
	for len(live) > 0 {
		found := decoding.Step(tokens)
		var next []*search
		var rows []int
		tokens = nil
		row := 0
		for _, it := range live {
			first, width := row, len(it.beams)
			row += width
			parents, err := it.step(found.Span(first, row))
			if err != nil {
				return nil, err
			}
			if it.done {
				continue
			}
			next = append(next, it)
			for i, parent := range parents {
				rows = append(rows, first+parent)
				tokens = append(tokens, it.beams[i].tokens[len(it.beams[i].tokens)-1])
			}
		}
		live = next
		if len(live) > 0 && !inOrder(rows, row) {
			decoding.Select(rows)
		}
	}
	answers := make([]Hypothesis, len(searches))
	for i, it := range searches {
		answers[i] = it.best()
	}
	return answers, nil
}

func inOrder(rows []int, n int) bool {
	for i, row := range rows {
		if row != i {
			return false
		}
	}
	return len(rows) == n
}

// search is the state of one sentence's search.
type search struct {
	rules   Rules
	request Request
	beams   []beam
	length  int // tokens in each beam
	answers []Hypothesis
	done    bool
}

// step chooses what ends and what continues, given the log-probabilities of each beam's next token (W, V). It returns
// the index of each next beam's parent.
func (s *search) step(found model.Matrix) (parents []int, err error) {
	candidates, err := s.candidates(found)
	if err != nil {
		return nil, err
	}
	stranded := s.stranded(candidates)
	bestFirst(candidates)
	if most := 2 * s.rules.Beam; len(candidates) > most { // at most `beam` of them end
		candidates = candidates[:most]
	}
	var next []beam
	for rank, it := range candidates {
		parent := s.beams[it.parent]
		switch {
		case it.token != s.rules.EOS && len(next) < s.rules.Beam:
			next, parents = append(next, parent.extended(it)), append(parents, it.parent)
		case it.token == s.rules.EOS && rank < s.rules.Beam:
			s.add(beam{it.total, parent.tokens, parent.parts(it)}, true)
		}
	}
	if len(next) == 0 {
		s.addUnfinished(stranded)
	}
	s.beams, s.length = next, s.length+1
	s.close()
	return parents, nil
}

// candidates returns the allowed successors of all beams.
func (s *search) candidates(found model.Matrix) ([]candidate, error) {
	forced, tooShort := s.request.MaxLen == s.length, s.request.MinLen > s.length
	var candidates []candidate
	for i, beam := range s.beams {
		row := found.Row(i)
		if math.IsNaN(float64(row[0])) {
			return nil, &errors.Error{What: fmt.Sprintf("the model's probabilities for token %d are NaN", s.length+1),
				Expected: "finite weights", Fix: "use an earlier checkpoint, or train with a lower learning rate",
				Name: "probabilities"}
		}
		tokens := []int{s.rules.EOS}
		if !forced {
			tokens = topCandidates(row, s.rules.candidates(s.length))
		}
		for _, token := range tokens {
			value := float64(row[token])
			if !forced {
				value = s.rules.rank(row[token], token, beam.tokens, tooShort)
			}
			if total := beam.total + value; !math.IsInf(total, -1) {
				candidates = append(candidates, candidate{i, token, float64(row[token]), total})
			}
		}
	}
	return candidates, nil
}

// stranded returns the beams that can't be continued.
func (s *search) stranded(candidates []candidate) []beam {
	continued := make([]bool, len(s.beams))
	for _, it := range candidates {
		continued[it.parent] = true
	}
	var stranded []beam
	for i, it := range s.beams {
		if !continued[i] {
			stranded = append(stranded, it)
		}
	}
	return stranded
}

// close decides whether the search is done, and adds the live hypotheses if it has no answer by then.
func (s *search) close() {
	leader, best := math.Inf(-1), math.Inf(-1)
	for _, it := range s.beams {
		leader = math.Max(leader, it.total)
	}
	for _, it := range s.answers {
		best = math.Max(best, it.Score)
	}
	full := len(s.answers) >= s.rules.Beam && leader/s.rules.penalty(s.length) <= best
	// Log-probabilities only fall and the penalty only grows, so no live hypothesis can ever score above the bound.
	bound := leader / s.rules.penalty(s.request.MaxSteps)
	s.done = full || bound <= best || s.length >= s.request.MaxSteps
	if s.done {
		s.addUnfinished(s.beams)
	}
}

// addUnfinished adds non-empty hypotheses, if there's no answer yet.
func (s *search) addUnfinished(beams []beam) {
	if len(s.answers) > 0 {
		return
	}
	for _, it := range beams {
		if len(it.tokens) > 0 {
			s.add(it, false)
		}
	}
}

func (s *search) add(it beam, finished bool) {
	var sum float64
	for _, part := range it.logProbabilities {
		sum += part
	}
	score := it.total / s.rules.penalty(len(it.logProbabilities))
	s.answers = append(s.answers, Hypothesis{it.tokens, score, sum, it.logProbabilities, finished})
}

// best returns the best answer: a finished one, if there is any. If every token was forbidden, it's empty.
func (s *search) best() Hypothesis {
	best := Hypothesis{Score: math.Inf(-1), LogProbability: math.Inf(-1)}
	for i, it := range s.answers {
		if i == 0 || it.Finished && !best.Finished || it.Finished == best.Finished && it.Score > best.Score {
			best = it
		}
	}
	return best
}
