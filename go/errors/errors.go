// Package errors has one kind of error, which stores its parts as fields.
package errors

import "strings"

// Error says what is wrong, with the offending name and value; what was expected, as a noun phrase; and what to do.
type Error struct {
	What, Expected, Fix string
	Name                string // the setting, file or tensor at fault
	Usage               bool   // the command line is wrong
}

// Error returns the message, one part per line.
func (e *Error) Error() string {
	rows := []string{e.What}
	if e.Expected != "" {
		rows = append(rows, "expected: "+e.Expected)
	}
	if e.Fix != "" {
		rows = append(rows, e.Fix)
	}
	return strings.Join(rows, "\n  ")
}
