package decode

import (
	"math"
	"sort"
	"sync"

	"clearhead/config"
	"clearhead/model"
	"clearhead/tokenization"
)

const (
	maxTokens = 1 << 31 // more than any output has
	batchRows = 32      // hypotheses per batch; larger batches aren't faster
)

// Session decodes sources in batches, on several cores, and returns the answers in order.
type Session struct {
	Model   model.EncoderDecoder
	Config  config.Decode
	MaxLen  int // context length of the model, end token included
	Start   int // the decoder's first input
	Rules   Rules
	Threads int
}

// NewRules returns the rules of a search with these settings, which never generates the tokens in suppress.
func NewRules(c config.Decode, suppress []int) Rules {
	if c.SuppressSpecial {
		suppress = append([]int{tokenization.PAD, tokenization.BOS, tokenization.UNK}, suppress...)
	}
	return Rules{
		EOS: tokenization.EOS, Suppress: suppress,
		Beam: c.Beam, Alpha: c.Alpha, NoRepeatNgram: c.NoRepeatNgram, RepetitionPenalty: c.RepetitionPenalty,
	}
}

// Answers returns the best answer to each source: token ids without the end token.
func (s Session) Answers(sources [][]int) ([]Hypothesis, error) {
	answers := make([]Hypothesis, len(sources))
	err := inParallel(batchesOf(sources, s.Rules.Beam), s.Threads, func(places []int) error {
		inputs, start, requests := make([][]int, len(places)), make([]int, len(places)), make([]Request, len(places))
		for i, place := range places {
			source := sources[place]
			inputs[i] = append(append([]int{}, source...), tokenization.EOS)
			start[i], requests[i] = s.Start, s.request(len(source))
		}
		found, err := BeamSearch(prefill(s.Model, inputs), start, requests, s.Rules)
		for i := range found {
			answers[places[i]] = found[i]
		}
		return err
	})
	return answers, err
}

// request returns the length limits for a source. If minimum and maximum contradict each other, the maximum wins.
func (s Session) request(length int) Request {
	c := s.Config
	minLen := larger(c.MinLen, int(math.Ceil(math.Min(c.MinRatio*float64(length), maxTokens))))
	maxLen := maxTokens
	if c.MaxRatio != nil {
		maxLen = larger(1, int(math.Floor(math.Min(*c.MaxRatio*float64(length), maxTokens))))
	}
	if c.MaxLen != nil && *c.MaxLen > 0 {
		maxLen = smaller(maxLen, *c.MaxLen)
	}
	steps := larger(length+c.MaxExtra, minLen+1) // the end token takes one more step
	steps = smaller(smaller(steps, maxLen+1), s.MaxLen)
	return Request{MaxSteps: steps, MinLen: smaller(minLen, steps-1), MaxLen: maxLen}
}

// batchesOf returns the places of the sources in each batch, longest sources first.
func batchesOf(sources [][]int, beam int) [][]int {
	places := make([]int, len(sources))
	for i := range places {
		places[i] = i
	}
	sort.SliceStable(places, func(i, j int) bool { return len(sources[places[i]]) > len(sources[places[j]]) })
	size := larger(1, batchRows/beam)
	var batches [][]int
	for len(places) > size {
		batches, places = append(batches, places[:size]), places[size:]
	}
	if len(places) > 0 {
		batches = append(batches, places)
	}
	return batches
}

// inParallel calls a function with each batch, and returns the first error.
func inParallel(batches [][]int, threads int, decode func([]int) error) error {
	queue := make(chan []int, len(batches))
	for _, batch := range batches {
		queue <- batch
	}
	close(queue)
	failures := make(chan error, threads)
	var group sync.WaitGroup
	for i := 0; i < threads; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for batch := range queue {
				if err := decode(batch); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

func larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func smaller(a, b int) int {
	if a < b {
		return a
	}
	return b
}
