package model

// Mask reports whether a query may attend to a key (section 3.2.3). A nil Mask allows everything.
type Mask func(query, key int) bool

// CausalMask lets each query see itself and everything before it. The last query is aligned with the last key.
func CausalMask(queries, keys int) Mask {
	if queries == 1 {
		return nil // a single query is the last one
	}
	return func(query, key int) bool { return key <= query+keys-queries }
}

// recent lets each query of a mask see only the latest `window` keys, itself included. The last query is aligned with
// the last key.
func (m Mask) recent(queries, keys, window int) Mask {
	return func(query, key int) bool {
		return query+keys-queries-key < window && (m == nil || m(query, key))
	}
}

// from returns the mask of the queries from `first` on.
func (m Mask) from(first int) Mask {
	if m == nil || first == 0 {
		return m
	}
	return func(query, key int) bool { return m(first+query, key) }
}
