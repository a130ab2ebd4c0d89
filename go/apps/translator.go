package apps

import (
	"fmt"
	"strings"

	"clearhead/config"
	"clearhead/decode"
	"clearhead/tokenization"
)

// translator translates or summarises texts.
type translator struct {
	session    decode.Session
	tokenizers tokenization.Tokenizers
	config     config.Config
	say        func(string)
}

type result struct {
	FormatVersion int    `json:"format_version"`
	Text          string `json:"text"`
	answer
	Source       string   `json:"source"`
	Alternatives []answer `json:"alternatives"`
	Unknown      []string `json:"unknown"`
	Long         int      `json:"long"`
	Cut          int      `json:"cut"`
}

// Separator returns "": every answer is one line.
func (t *translator) Separator() string { return "" }

// Answer translates each line. A blank line gets a blank translation.
func (t *translator) Answer(lines []Line, asJSON bool) ([]string, error) {
	results := make([]result, len(lines))
	var filled []int
	var sources [][]int
	for i, line := range lines {
		results[i] = result{FormatVersion: 1, answer: answerOf(decode.Hypothesis{}, []string{}), Source: line.Text,
			Alternatives: []answer{}, Unknown: []string{}}
		if !isBlank(line.Text) {
			filled, sources = append(filled, i), append(sources, t.read(line.Text, &results[i]))
		}
	}
	found, err := t.session.Answers(sources)
	if err != nil {
		return nil, err
	}
	for i, place := range filled {
		results[place].answer = answerOf(found[i], t.tokenizers.Target.Pieces(found[i].IDs))
		results[place].Text = oneLine(t.tokenizers.Target.Decode(found[i].IDs))
	}
	return t.printed(lines, results, asJSON)
}

// read returns the tokens of a source, as many as the model can read, and records problems in its result.
func (t *translator) read(text string, to *result) []int {
	first := beginning(t.config)
	ids, longest := t.tokenizers.Source.Encode(text), t.config.Model.MaxLen-1-len(first)
	if t.config.Task == "summarize" && t.config.MaxLen < longest {
		longest = t.config.MaxLen
	}
	if n := len(first) + len(ids); n > t.config.MaxLen {
		to.Long = n
	}
	if len(ids) > longest {
		to.Cut, ids = len(ids)-longest, ids[:longest]
	}
	to.Unknown = append(to.Unknown, t.tokenizers.Source.UnknownWords(text)...)
	return append(first, ids...)
}

func (t *translator) printed(lines []Line, results []result, asJSON bool) ([]string, error) {
	printed := make([]string, len(lines))
	for i, it := range results {
		t.warn(lines[i], it)
		printed[i] = it.Text
		if asJSON {
			text, err := toJSON(it)
			if err != nil {
				return nil, err
			}
			printed[i] = text
		}
	}
	return printed, nil
}

func (t *translator) warn(line Line, it result) {
	warnOfBytes(line, t.say)
	place := fmt.Sprintf("line %d", line.Number)
	if it.Cut > 0 {
		t.say(fmt.Sprintf("%s is too long for the model, which ignores the last %d tokens; shorten or split it", place, it.Cut))
	} else if it.Long > 0 {
		t.say(fmt.Sprintf("%s has %d tokens, more than any text in training, so the answer may be poor; split it", place, it.Long))
	}
	if len(it.Unknown) > 0 {
		t.say(fmt.Sprintf("%s has words that the model doesn't know: %s", place, quoted(it.Unknown)))
	}
}

func quoted(words []string) string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(shown, ", ")
}

// oneLine replaces every line break of a text, including Unicode's, with a space.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	isBreak := func(char rune) bool { return strings.ContainsRune("\n\v\f\r\x1c\x1d\x1e\u0085\u2028\u2029", char) }
	if last := strings.LastIndexFunc(text, isBreak); last >= 0 && len([]rune(text[last:])) == 1 {
		text = text[:last] // the last line's own end
	}
	return strings.Map(func(char rune) rune {
		if isBreak(char) {
			return ' '
		}
		return char
	}, text)
}
