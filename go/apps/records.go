package apps

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"clearhead/decode"
)

// answer holds the fields that every record has. They're those of `clearhead ... --json`.
type answer struct {
	Score          number   `json:"score"`
	LogProbability number   `json:"log_probability"`
	Tokens         []string `json:"tokens"`
	LogProbs       []number `json:"logprobs"`
}

func answerOf(found decode.Hypothesis, tokens []string) answer {
	parts := make([]number, len(found.TokenLogProbabilities))
	for i, part := range found.TokenLogProbabilities {
		parts[i] = number(part)
	}
	return answer{number(found.Score), number(found.LogProbability), tokens, parts}
}

// number is written as null if it's infinite or NaN, which JSON can't write.
type number float64

// MarshalJSON returns the number as JSON.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 0) || math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// toJSON returns JSON on one line. U+0085, which some programs treat as a line break, is escaped.
func toJSON(record any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(record); err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\u0085", `\u0085`), nil
}
