package tokenization

import "sort"

type runeRange struct{ first, last rune }

type runeText struct {
	char rune
	text string
}

type runeClass struct {
	char  rune
	class uint8
}

type composition struct{ first, second, whole rune }

// inRanges reports whether a sorted table of ranges has a character.
func inRanges(table []runeRange, char rune) bool {
	i := sort.Search(len(table), func(i int) bool { return table[i].last >= char })
	return i < len(table) && table[i].first <= char
}

// mapped returns the text that a character maps to in a sorted table.
func mapped(table []runeText, char rune) (string, bool) {
	i := sort.Search(len(table), func(i int) bool { return table[i].char >= char })
	if i < len(table) && table[i].char == char {
		return table[i].text, true
	}
	return "", false
}

func combiningClass(char rune) uint8 {
	if char < 0x300 {
		return 0
	}
	i := sort.Search(len(combiningClasses), func(i int) bool { return combiningClasses[i].char >= char })
	if i < len(combiningClasses) && combiningClasses[i].char == char {
		return combiningClasses[i].class
	}
	return 0
}

// compose returns the character that two characters compose to.
func compose(first, second rune) (rune, bool) {
	if whole, ok := composeHangul(first, second); ok {
		return whole, true
	}
	i := sort.Search(len(compositions), func(i int) bool {
		it := compositions[i]
		return it.first > first || it.first == first && it.second >= second
	})
	if i < len(compositions) && compositions[i].first == first && compositions[i].second == second {
		return compositions[i].whole, true
	}
	return 0, false
}

// Hangul syllables are composed by arithmetic (chapter 3.12 of the Unicode standard).
const (
	syllables, leading, vowels, trailing = 0xAC00, 0x1100, 0x1161, 0x11A7
	nLeading, nVowels, nTrailing         = 19, 21, 28
)

func composeHangul(first, second rune) (rune, bool) {
	if leading <= first && first < leading+nLeading && vowels <= second && second < vowels+nVowels {
		return syllables + ((first-leading)*nVowels+second-vowels)*nTrailing, true
	}
	open := syllables <= first && first < syllables+nLeading*nVowels*nTrailing && (first-syllables)%nTrailing == 0
	if open && trailing < second && second < trailing+nTrailing {
		return first + second - trailing, true
	}
	return 0, false
}

func decomposeHangul(syllable rune) []rune {
	i := syllable - syllables
	parts := []rune{leading + i/(nVowels*nTrailing), vowels + i/nTrailing%nVowels}
	if i%nTrailing != 0 {
		parts = append(parts, trailing+i%nTrailing)
	}
	return parts
}

func isLetter(char rune) bool {
	if char < 0x80 {
		return 'a' <= char && char <= 'z' || 'A' <= char && char <= 'Z'
	}
	return inRanges(letterRanges, char)
}

func isMark(char rune) bool { return char >= 0x300 && inRanges(markRanges, char) }

func isNumber(char rune) bool {
	if char < 0x80 {
		return '0' <= char && char <= '9'
	}
	return inRanges(numberRanges, char)
}

// IsSpace reports whether a character is White_Space, which \s matches.
func IsSpace(char rune) bool {
	if char < 0x80 {
		return char == ' ' || '\t' <= char && char <= '\r'
	}
	return inRanges(spaceRanges, char)
}
