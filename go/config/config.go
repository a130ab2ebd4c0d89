// Package config reads the settings of a model folder. It rejects by name what this program can't do.
package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"clearhead/errors"
	"clearhead/folder"
)

// Config holds the settings that matter for decoding.
type Config struct {
	Model  Model
	Decode Decode
	Task   string // translate, summarize or generate
	MaxLen int    // data.max_len
}

// Parse reads the content of config.json.
func Parse(data []byte) (Config, error) {
	var file struct {
		FormatVersion *int                       `json:"format_version"`
		Model         map[string]json.RawMessage `json:"model"`
		Decode        map[string]json.RawMessage `json:"decode"`
		Train         struct{ Task string }      `json:"train"`
		Data          struct {
			MaxLen int `json:"max_len"`
		} `json:"data"`
	}
	var config Config
	if err := json.Unmarshal(data, &file); err != nil {
		return config, unreadable(err)
	}
	if err := folder.CheckFormat("config.json", file.FormatVersion); err != nil {
		return config, err
	}
	carryOver(file.Model)
	if err := read("model", file.Model, &config.Model); err != nil {
		return config, err
	}
	if err := read("decode", file.Decode, &config.Decode); err != nil {
		return config, err
	}
	config.Task, config.MaxLen = file.Train.Task, file.Data.MaxLen
	if config.Task == "" {
		config.Task = "translate"
	}
	if config.Model.NKVHeads == 0 {
		config.Model.NKVHeads = config.Model.NHeads
	}
	if config.Model.DHead == 0 && config.Model.NHeads > 0 && config.Model.DModel%config.Model.NHeads == 0 {
		config.Model.DHead = config.Model.DModel / config.Model.NHeads
	}
	return config, config.check()
}

// read fills a section's fields from the file and, where it lacks a setting, from the defaults.
func read(section string, values map[string]json.RawMessage, fields any) error {
	known, all := fieldNames(section, fields), map[string]json.RawMessage{}
	for name, text := range defaults {
		if prefix := section + "."; strings.HasPrefix(name, prefix) {
			all[strings.TrimPrefix(name, prefix)] = json.RawMessage(text)
		}
	}
	for _, name := range sorted(values) {
		full := section + "." + name
		if !known[full] && !without[full] && !same(string(values[name]), defaults[full]) {
			return unsupported(full, string(values[name]), defaultOf(full))
		}
		all[name] = values[name]
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, fields)
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

func fieldNames(section string, fields any) map[string]bool {
	names, kind := map[string]bool{}, reflect.TypeOf(fields).Elem()
	for i := 0; i < kind.NumField(); i++ {
		names[section+"."+kind.Field(i).Tag.Get("json")] = true
	}
	return names
}

func sorted(values map[string]json.RawMessage) []string {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// same compares two JSON values. A setting without a default, which a newer Clearhead may have, must be null.
func same(text, expected string) bool {
	if expected == "" {
		expected = "null"
	}
	var a, b any
	return json.Unmarshal([]byte(text), &a) == nil && json.Unmarshal([]byte(expected), &b) == nil && reflect.DeepEqual(a, b)
}

func defaultOf(name string) string {
	if text, ok := defaults[name]; ok {
		return text
	}
	return "a setting of this version"
}

func unreadable(err error) error {
	return &errors.Error{What: fmt.Sprintf("config.json can't be read: %v", err), Expected: "the file that training wrote",
		Name: "config.json"}
}

func unsupported(name, value, expected string) error {
	return &errors.Error{What: fmt.Sprintf("%s=%s isn't supported by the Go reader", name, value), Expected: expected,
		Fix: "use `clearhead` instead", Name: name}
}
