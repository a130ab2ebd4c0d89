package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"clearhead/apps"
	"clearhead/errors"
)

type arguments struct {
	folder string
	json   bool
	help   bool
	apps.Options
}

func parse(words []string) (arguments, error) {
	given := arguments{Options: apps.Options{Threads: runtime.NumCPU(), Say: say}}
	for len(words) > 0 {
		name, value, joined := strings.Cut(words[0], "=")
		words = words[1:]
		switch {
		case name == "-h" || name == "--help":
			given.help = true
			return given, nil
		case name == "--json" && !joined:
			given.json = true
		case name == "--beam" || name == "--threads":
			if !joined && len(words) > 0 {
				value, words = words[0], words[1:]
			}
			if err := given.set(name, value); err != nil {
				return given, err
			}
		case strings.HasPrefix(name, "-"):
			return given, &errors.Error{What: "unknown option " + name, Expected: "--beam, --threads or --json", Name: name,
				Usage: true}
		case given.folder != "":
			return given, &errors.Error{What: fmt.Sprintf("%q is a second argument", name),
				Expected: "one model folder; texts are lines of standard input", Name: "MODEL", Usage: true}
		default:
			given.folder = name
			if joined {
				given.folder += "=" + value
			}
		}
	}
	if given.folder == "" {
		return given, &errors.Error{What: "no model folder is given", Fix: "name a folder that `clearhead train` wrote",
			Name: "MODEL", Usage: true}
	}
	return given, nil
}

// set sets an option that takes a number.
func (a *arguments) set(name, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 1000 {
		return &errors.Error{What: fmt.Sprintf("%s %q isn't a valid number", name, value), Expected: "1 to 1000", Name: name,
			Usage: true}
	}
	if name == "--beam" {
		a.Beam = n
	} else {
		a.Threads = n
	}
	return nil
}
