package decode

import "clearhead/model"

// textDecoding continues texts with a language model. Texts longer than the context window are read through a window,
// which moves depending on the position scheme:
//
//   - rotary, relative, ALiBi: only distances count. The cache keeps the newest `maxLen` tokens, and every token
//     attends to those.
//   - learned, sinusoidal: the table of positions ends at `maxLen`. When the window is full, its newest half is read
//     again from position 0, which makes room for new tokens.
type textDecoding struct {
	decoder model.Decoder
	maxLen  int
	texts   [][]int // tokens in each row's window, for positions from a table
	caches  []*model.Cache
}

// prefillTexts reads texts, each without its last token, which is the first input of Step. A text may be empty.
func prefillTexts(decoder model.Decoder, texts [][]int, maxLen int) Decoding {
	decoding := &textDecoding{decoder: decoder, maxLen: maxLen}
	for _, text := range texts {
		if len(text) > maxLen-1 {
			text = text[len(text)-maxLen+1:]
		}
		cache := decoding.newCache()
		if len(text) > 0 {
			decoder.Forward([][]int{text}, []*model.Cache{cache})
		}
		decoding.texts, decoding.caches = append(decoding.texts, text), append(decoding.caches, cache)
	}
	return decoding
}

func (d *textDecoding) newCache() *model.Cache {
	return d.decoder.NewCache(model.Matrix{}, nil, d.maxLen)
}

// Step appends a token to every text, and returns the log-probabilities of the next one. R tokens -> (R, V)
func (d *textDecoding) Step(tokens []int) model.Matrix {
	rows := make([][]int, len(tokens))
	for i, token := range tokens {
		rows[i] = []int{token}
		if d.decoder.Positions.Endless() {
			continue
		}
		d.texts[i] = append(append([]int{}, d.texts[i]...), token)
		if n := len(d.texts[i]); n > d.maxLen {
			d.texts[i] = d.texts[i][n-larger(1, d.maxLen/2):]
			rows[i], d.caches[i] = d.texts[i], d.newCache()
		}
	}
	return d.decoder.Forward(rows, d.caches)
}

// Select replaces row i with row rows[i].
func (d *textDecoding) Select(rows []int) {
	texts := make([][]int, len(rows))
	for i, row := range rows {
		texts[i] = d.texts[row]
	}
	d.caches, d.texts = selected(d.caches, rows), texts
}
