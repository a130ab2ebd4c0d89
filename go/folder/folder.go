// Package folder reads the files of a model folder, and checks them against its manifest.
package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"clearhead/errors"
)

const restore = "restore the folder from its source or a backup"

// Files holds the verified contents of a model folder.
type Files struct {
	Config, Tokenizer []byte
	Weights           []byte
}

type manifest struct {
	FormatVersion *int              `json:"format_version"`
	Files         map[string]string `json:"files"`
	Incoming      map[string]string `json:"incoming"` // new digests of files being replaced; either one is valid
}

// Read reads a model folder. It fails if a file is missing, or differs from its SHA-256 in manifest.json.
func Read(path string) (Files, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return Files{}, &errors.Error{What: path + " isn't a folder", Expected: "a model folder, as `clearhead train` writes",
			Name: "folder"}
	}
	if _, err := os.Stat(filepath.Join(path, "adapter.json")); err == nil {
		return Files{}, &errors.Error{What: path + " is an adapter of another model", Expected: "a model with weights of its own",
			Fix: "merge it: clearhead export " + path + " --merge --out FOLDER", Name: "folder"}
	}
	listed, err := readManifest(filepath.Join(path, "manifest.json"))
	if err != nil {
		return Files{}, err
	}
	var files Files
	names := []string{"config.json", "tokenizer.json", "model.safetensors"}
	contents := []*[]byte{&files.Config, &files.Tokenizer, &files.Weights}
	failures := make([]error, len(names))
	var group sync.WaitGroup
	for i := range names {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			*contents[i], failures[i] = readVerified(filepath.Join(path, names[i]), listed)
		}(i)
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return Files{}, err
		}
	}
	return files, nil
}

func readManifest(path string) (manifest, error) {
	var listed manifest
	data, err := readFile(path)
	if err != nil {
		return listed, err
	}
	if err := json.Unmarshal(data, &listed); err != nil {
		return listed, &errors.Error{What: fmt.Sprintf("%s is damaged: %v", path, err), Fix: restore, Name: "manifest.json"}
	}
	return listed, CheckFormat(path, listed.FormatVersion)
}

// CheckFormat fails unless a file has the format version that this program reads.
func CheckFormat(path string, version *int) error {
	if version != nil && *version == 1 {
		return nil
	}
	what := path + " has no format_version"
	if version != nil {
		what = fmt.Sprintf("%s has format_version=%d", path, *version)
	}
	return &errors.Error{What: what, Expected: "1, which this version supports", Fix: restore, Name: "format_version"}
}

func readVerified(path string, listed manifest) ([]byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	sum := sha256.Sum256(data)
	if found := hex.EncodeToString(sum[:]); found != listed.Files[name] && found != listed.Incoming[name] {
		return nil, &errors.Error{What: fmt.Sprintf("%s is damaged or was edited (%d bytes, SHA-256 %s)", path, len(data), found),
			Expected: "SHA-256 " + listed.Files[name], Fix: restore, Name: name}
	}
	return data, nil
}

func readFile(path string) ([]byte, error) {
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil, &errors.Error{What: path + " is missing", Fix: restore, Name: name}
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, &errors.Error{What: path + " isn't a regular file", Fix: restore, Name: name}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &errors.Error{What: fmt.Sprintf("can't read %s: %v", path, err), Fix: restore, Name: name}
	}
	return data, nil
}
