package decode

import (
	"fmt"
	"math"
	"testing"

	"clearhead/model"
)

const (
	end = 0
	a   = 1
	b   = 2
)

// table is a language model of three tokens: the probabilities after each text.
type table struct {
	next  map[string][]float64
	texts []string
}

func (t *table) Step(tokens []int) model.Matrix {
	found := model.NewMatrix(len(tokens), 3)
	for i, token := range tokens {
		t.texts[i] += fmt.Sprint(token)
		for id, p := range t.next[t.texts[i]] {
			found.Row(i)[id] = float32(math.Log(p))
		}
	}
	return found
}

func (t *table) Select(rows []int) {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = t.texts[row]
	}
	t.texts = texts
}

var garden = map[string][]float64{ // greedy takes a, but b leads to the better end
	"0": {0.1, 0.5, 0.4}, "01": {0.4, 0.3, 0.3}, "02": {0.9, 0.05, 0.05}, "011": {1, 0, 0}, "012": {1, 0, 0},
	"021": {1, 0, 0}, "022": {1, 0, 0},
}

func answer(t *testing.T, rules Rules, request Request) Hypothesis {
	t.Helper()
	found, err := BeamSearch(&table{garden, []string{""}}, []int{0}, []Request{request}, rules)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestABeamFindsWhatGreedySearchMisses(t *testing.T) {
	request := Request{MaxSteps: 4, MaxLen: maxTokens}
	greedy := answer(t, Rules{EOS: end, Beam: 1}, request)
	if fmt.Sprint(greedy.IDs) != "[1]" || math.Abs(greedy.LogProbability-math.Log(0.5*0.4)) > 1e-6 {
		t.Errorf("greedy: %v", greedy)
	}
	beam := answer(t, Rules{EOS: end, Beam: 2}, request)
	if fmt.Sprint(beam.IDs) != "[2]" || math.Abs(beam.LogProbability-math.Log(0.4*0.9)) > 1e-6 || !beam.Finished {
		t.Errorf("beam: %v", beam)
	}
}

func TestRulesAndLimitsHold(t *testing.T) {
	for _, it := range []struct {
		rules    Rules
		request  Request
		expected string
		finished bool
	}{
		{Rules{Suppress: []int{a}}, Request{MaxSteps: 4, MaxLen: maxTokens}, "[2]", true},
		{Rules{}, Request{MaxSteps: 4, MinLen: 2, MaxLen: maxTokens}, "[1 1]", true},
		{Rules{NoRepeatNgram: 1}, Request{MaxSteps: 4, MinLen: 2, MaxLen: maxTokens}, "[1 2]", true},
		{Rules{RepetitionPenalty: 3}, Request{MaxSteps: 4, MinLen: 2, MaxLen: maxTokens}, "[1 2]", true},
		{Rules{}, Request{MaxSteps: 1, MaxLen: maxTokens}, "[1]", false},
		{Rules{}, Request{MaxSteps: 4, MaxLen: 1, MinLen: 1}, "[1]", true},
		{Rules{Suppress: []int{a, b, end}}, Request{MaxSteps: 4, MaxLen: maxTokens}, "[]", false},
	} {
		it.rules.Beam = 1
		found := answer(t, it.rules, it.request)
		if fmt.Sprint(found.IDs) != it.expected || found.Finished != it.finished {
			t.Errorf("%+v, %+v: %v", it.rules, it.request, found)
		}
	}
}

func TestTheMostLikelyTokensComeFirstAndTiesByID(t *testing.T) {
	if found := topCandidates([]float32{1, 3, 2, 3, 0}, 3); fmt.Sprint(found) != "[1 3 2]" {
		t.Error(found)
	}
	if found := topCandidates([]float32{1, 2}, 9); fmt.Sprint(found) != "[1 0]" {
		t.Error(found)
	}
}
