package decode

import (
	"clearhead/config"
	"clearhead/model"
	"clearhead/tokenization"
)

// PromptSession continues prompts with a language model. Its answers don't include the prompt.
type PromptSession struct {
	Model   model.Decoder
	Config  config.Decode
	MaxLen  int // size of the context window in tokens
	Rules   Rules
	Threads int
}

// Limit returns the maximum number of tokens to add.
func (s PromptSession) Limit() int {
	if s.Config.MaxLen != nil && *s.Config.MaxLen > 0 {
		return smaller(*s.Config.MaxLen, maxTokens)
	}
	return smaller(larger(s.Config.MaxExtra, s.Config.MinLen), maxTokens)
}

// Answers returns the continuation of each prompt. An empty prompt is read as BOS, the start of any text.
func (s PromptSession) Answers(prompts [][]int) ([]Hypothesis, error) {
	answers := make([]Hypothesis, len(prompts))
	request := Request{MaxSteps: s.Limit(), MinLen: smaller(s.Config.MinLen, s.Limit()), MaxLen: -1}
	err := inParallel(batchesOf(prompts, s.Rules.Beam), s.Threads, func(places []int) error {
		texts, start, requests := make([][]int, len(places)), make([]int, len(places)), make([]Request, len(places))
		for i, place := range places {
			start[i], requests[i] = tokenization.BOS, request
			if prompt := prompts[place]; len(prompt) > 0 {
				texts[i], start[i] = prompt[:len(prompt)-1], prompt[len(prompt)-1]
			}
		}
		found, err := BeamSearch(prefillTexts(s.Model, texts, s.MaxLen), start, requests, s.Rules)
		for i := range found {
			answers[places[i]] = found[i]
		}
		return err
	})
	return answers, err
}
