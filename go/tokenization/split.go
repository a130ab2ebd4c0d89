package tokenization

import "unicode/utf8"

// A splitter returns the length in bytes of the first piece of a text. Each one is a regular expression of
// clearhead/tokenization, written out: Go's own expressions have no lookahead.
type splitter func(text string) int

// splitters holds the splitter of each regular expression.
var splitters = map[string]splitter{
	` ?(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=\p{L})| ?[\p{L}\p{M}]++(?:['’][\p{L}\p{M}]++)*+| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]++|\s+(?!\S)|\s+`: splitSubwords,

	` ?(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=\p{L})| ?[\p{L}\p{M}\p{N}]++(?:['’][\p{L}\p{M}\p{N}]++)*+| ?[^\s\p{L}\p{M}\p{N}]\p{M}*+|\s`: splitWords,

	`[\s\S]`: splitCharacters,
}

func splitSubwords(text string) int {
	space := leadingSpace(text)
	if n := elision(text[space:]); n > 0 {
		return space + n
	}
	if n := word(text[space:], isLetterOrMark); n > 0 {
		return space + n
	}
	first, size := utf8.DecodeRuneInString(text[space:])
	if size > 0 && isNumber(first) {
		return space + size
	}
	if n := run(text[space:], isOther); n > 0 {
		return space + n
	}
	n := run(text, IsSpace)
	if n < len(text) { // leave the last space to the next piece, unless it's the only one
		_, last := utf8.DecodeLastRuneInString(text[:n])
		if n > last {
			return n - last
		}
	}
	return n
}

func splitWords(text string) int {
	space := leadingSpace(text)
	if n := elision(text[space:]); n > 0 {
		return space + n
	}
	if n := word(text[space:], isWordCharacter); n > 0 {
		return space + n
	}
	first, size := utf8.DecodeRuneInString(text[space:])
	if size > 0 && isOther(first) {
		return space + size + run(text[space+size:], isMark)
	}
	_, size = utf8.DecodeRuneInString(text)
	return size // whitespace
}

func splitCharacters(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

func leadingSpace(text string) int {
	if text != "" && text[0] == ' ' {
		return 1
	}
	return 0
}

func isLetterOrMark(char rune) bool  { return isLetter(char) || isMark(char) }
func isWordCharacter(char rune) bool { return isLetterOrMark(char) || isNumber(char) }
func isOther(char rune) bool         { return !IsSpace(char) && !isWordCharacter(char) }

// run returns the length of the characters at the start of a text that have a property.
func run(text string, has func(rune) bool) int {
	for i, char := range text {
		if !has(char) {
			return i
		}
	}
	return len(text)
}

// word returns the length of runs of characters joined by single apostrophes.
func word(text string, has func(rune) bool) int {
	n := run(text, has)
	for n > 0 {
		quote := apostrophe(text[n:])
		more := 0
		if quote > 0 {
			more = run(text[n+quote:], has)
		}
		if more == 0 {
			break
		}
		n += quote + more
	}
	return n
}

func apostrophe(text string) int {
	switch char, size := utf8.DecodeRuneInString(text); char {
	case '\'', '’':
		return size
	}
	return 0
}

// elisions lists what French splits off before an apostrophe: l' homme, qu' il.
var elisions = []string{"c", "d", "j", "l", "m", "n", "s", "t", "jusqu", "lorsqu", "puisqu", "quoiqu", "qu"}

// elision returns the length of an elision with its apostrophe, if a letter follows.
func elision(text string) int {
	for _, prefix := range elisions {
		n := foldedPrefix(text, prefix)
		if n == 0 {
			continue
		}
		quote := apostrophe(text[n:])
		next, _ := utf8.DecodeRuneInString(text[n+quote:])
		if quote > 0 && isLetter(next) {
			return n + quote
		}
	}
	return 0
}

// foldedPrefix returns the length of an ASCII prefix of a text, in any case.
func foldedPrefix(text, prefix string) int {
	n := 0
	for i := 0; i < len(prefix); i++ {
		char, size := utf8.DecodeRuneInString(text[n:])
		if 'A' <= char && char <= 'Z' {
			char += 'a' - 'A'
		}
		if char == 'ſ' { // the long s
			char = 's'
		}
		if char != rune(prefix[i]) {
			return 0
		}
		n += size
	}
	return n
}
