package model

// Cache holds the keys and values of the tokens that one hypothesis has read so far. It's passed to the decoder, not
// stored in it. A full cache drops its oldest token, so that there's no limit on length.
type Cache struct {
	Layers []LayerCache
	Length int   // tokens read; the cache may hold only the newest
	Source []int // the source's tokens, which a pointer copies from
}

// LayerCache holds one decoder block's keys and values, for the tokens, G times (S, K) each, and for the memory.
type LayerCache struct {
	Keys, Values []Matrix
	Memory       *Memory // shared by all hypotheses of a source
	capacity     int
}

// Append adds T new keys and values, and returns all S of them. G times (T, K) -> G times (S, K)
func (c *LayerCache) Append(k, v []Matrix) (keys, values []Matrix) {
	if c.Keys == nil {
		c.Keys, c.Values = make([]Matrix, len(k)), make([]Matrix, len(k))
	}
	for head := range k {
		c.Keys[head] = c.appended(c.Keys[head], k[head])
		c.Values[head] = c.appended(c.Values[head], v[head])
	}
	return c.Keys, c.Values
}

func (c *LayerCache) appended(held, more Matrix) Matrix {
	data, rows := append(held.Data, more.Data...), held.Rows+more.Rows
	if over := rows - c.capacity; c.capacity > 0 && over > 0 {
		data, rows = data[over*more.Cols:], c.capacity
	}
	return Matrix{rows, more.Cols, data}
}

// Held returns the number of tokens in the cache.
func (c *Cache) Held() int {
	if keys := c.Layers[0].Keys; keys != nil {
		return keys[0].Rows
	}
	return 0
}

// Copy returns an independent copy, which shares the memory of the source.
func (c *Cache) Copy() *Cache {
	twin := &Cache{Layers: make([]LayerCache, len(c.Layers)), Length: c.Length, Source: c.Source}
	for i, layer := range c.Layers {
		twin.Layers[i] = LayerCache{copied(layer.Keys), copied(layer.Values), layer.Memory, layer.capacity}
	}
	return twin
}

func copied(heads []Matrix) []Matrix {
	twins := make([]Matrix, len(heads))
	for i, head := range heads {
		room := len(head.Data) + 8*head.Cols // so that the next tokens fit without another copy
		twins[i] = Matrix{head.Rows, head.Cols, append(make([]float32, 0, room), head.Data...)}
	}
	return twins
}
