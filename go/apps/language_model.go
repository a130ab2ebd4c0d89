package apps

import (
	"fmt"

	"clearhead/decode"
	"clearhead/errors"
	"clearhead/tokenization"
)

// languageModel continues texts.
type languageModel struct {
	session   decode.PromptSession
	tokenizer *tokenization.Tokenizer
	beginning []int
	say       func(string)
}

type continuation struct {
	FormatVersion int    `json:"format_version"`
	Prompt        string `json:"prompt"`
	Text          string `json:"text"`
	Why           string `json:"why"` // end, tokens or nothing
	answer
	Unread int `json:"unread"` // tokens at the start of the prompt that the window didn't hold
}

// Separator returns an empty line, since a text may have several lines.
func (l *languageModel) Separator() string { return "\n" }

// Answer continues each line, and returns it with its continuation.
func (l *languageModel) Answer(lines []Line, asJSON bool) ([]string, error) {
	prompts := make([][]int, len(lines))
	for i, line := range lines {
		warnOfBytes(line, l.say)
		if err := l.checkKnown(line); err != nil {
			return nil, err
		}
		prompts[i] = append(append([]int{}, l.beginning...), l.tokenizer.Encode(line.Text)...)
	}
	found, err := l.session.Answers(prompts)
	if err != nil {
		return nil, err
	}
	printed := make([]string, len(lines))
	for i, line := range lines {
		text := l.tokenizer.Continue(prompts[i], found[i].IDs)
		printed[i] = line.Text + text
		if asJSON {
			record := continuation{FormatVersion: 1, Prompt: line.Text, Text: text, Why: l.why(found[i]),
				answer: answerOf(found[i], l.tokenizer.Pieces(found[i].IDs)), Unread: over(len(prompts[i]), l.session.MaxLen)}
			if printed[i], err = toJSON(record); err != nil {
				return nil, err
			}
		}
	}
	return printed, nil
}

func (l *languageModel) why(found decode.Hypothesis) string {
	switch {
	case found.Finished:
		return "end"
	case len(found.IDs) >= l.session.Limit():
		return "tokens"
	}
	return "nothing"
}

// checkKnown fails if a prompt has words or characters that the vocabulary lacks, unless they are read as <unk>.
func (l *languageModel) checkKnown(line Line) error {
	unknown := l.tokenizer.UnknownWords(line.Text)
	if len(unknown) == 0 || l.session.Config.Unknown == "unk" {
		return nil
	}
	what := "words"
	if l.tokenizer.WholeCharacters() {
		what = "characters"
	}
	return &errors.Error{What: fmt.Sprintf("line %d contains %s that aren't in the model's vocabulary: %s", line.Number, what,
		quoted(unknown)), Expected: what + " of its training text", Name: "prompt"}
}

func over(n, limit int) int {
	if n > limit {
		return n - limit
	}
	return 0
}
