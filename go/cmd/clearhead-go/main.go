// Clearhead-go translates or continues each line of standard input with a model folder that Clearhead trained.
package main

import (
	"bufio"
	"bytes"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"clearhead/apps"
	"clearhead/errors"
	"clearhead/tokenization"
)

const help = `usage: clearhead-go MODEL [options] < texts > answers

Translate or summarise each line of standard input, or continue it, with a model
folder that Clearhead trained. Without options, it prints what
` + "`clearhead translate MODEL`" + ` or ` + "`clearhead generate MODEL --greedy`" + ` prints.

options:
  --beam N      beam size; 1 means greedy search (default: decode.beam)
  --threads N   number of threads (default: one per processor)
  --json        print JSON lines with scores and tokens
  -h, --help    show this help
`

func main() {
	debug.SetGCPercent(400) // matrices are short-lived; a small model's heap is mostly its weights
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		say("error: " + err.Error())
		var known *errors.Error
		if stderrors.As(err, &known) && known.Usage {
			say("  see: clearhead-go --help")
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func say(message string) { fmt.Fprintln(os.Stderr, message) }

type arguments struct {
	folder string
	json   bool
	help   bool
	apps.Options
}

func run(words []string, in io.Reader, out io.Writer) error {
	given, err := parse(words)
	if err != nil {
		return err
	}
	if given.help {
		_, err := io.WriteString(out, help)
		return err
	}
	app, err := apps.Load(given.folder, given.Options)
	if err != nil {
		return err
	}
	first := true
	return eachGroup(in, func(lines []apps.Line) error {
		answers, err := app.Answer(lines, given.json)
		if err != nil {
			return err
		}
		buffer := bufio.NewWriter(out)
		for _, answer := range answers {
			if !first && !given.json {
				buffer.WriteString(app.Separator())
			}
			first = false
			buffer.WriteString(answer + "\n")
		}
		if err := buffer.Flush(); err != nil {
			return fmt.Errorf("can't write to standard output: %w", err)
		}
		return nil
	})
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
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1000 {
				return given, &errors.Error{What: fmt.Sprintf("%s %q isn't a valid number", name, value), Expected: "1 to 1000",
					Name: name, Usage: true}
			}
			if name == "--beam" {
				given.Beam = n
			} else {
				given.Threads = n
			}
		case strings.HasPrefix(name, "-"):
			return given, &errors.Error{What: "unknown option " + name, Expected: "--beam, --threads or --json", Name: name,
				Usage: true}
		case given.folder != "":
			return given, &errors.Error{What: fmt.Sprintf("%q is a second argument", name), Expected: "one model folder; texts are lines of standard input",
				Name: "MODEL", Usage: true}
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

const (
	block = 1 << 16 // bytes per read: the capacity of a pipe
	most  = 1000    // lines per group
)

// eachGroup calls a function with the lines that have arrived so far. A program that sends a single line gets its
// answer at once, and many lines are answered as a batch. Lines end with LF or CR LF.
func eachGroup(in io.Reader, answer func([]apps.Line) error) error {
	number, rest, buffer := 0, []byte(nil), make([]byte, block)
	for {
		n, err := in.Read(buffer)
		rest = append(rest, buffer[:n]...)
		ended := err == io.EOF
		if err != nil && !ended {
			return fmt.Errorf("can't read standard input: %w", err)
		}
		var lines []apps.Line
		for len(rest) > 0 {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole && !ended {
				break
			}
			number++
			lines, rest = append(lines, lineOf(number, line)), after
		}
		for len(lines) > 0 {
			group := lines
			if len(group) > most {
				group = group[:most]
			}
			if err := answer(group); err != nil {
				return err
			}
			lines = lines[len(group):]
		}
		if ended {
			return nil
		}
	}
}

// lineOf decodes a line without its final CR. On the first line, it also removes a byte order mark.
func lineOf(number int, data []byte) apps.Line {
	data = bytes.TrimSuffix(data, []byte("\r"))
	if number == 1 {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	text := tokenization.ValidUTF8(data)
	return apps.Line{Number: number, Text: text, Damaged: text != string(data)}
}
