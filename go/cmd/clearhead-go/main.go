// Clearhead-go translates or continues each line of standard input with a model folder that Clearhead trained.
package main

import (
	"bufio"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"clearhead/apps"
	"clearhead/errors"
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
