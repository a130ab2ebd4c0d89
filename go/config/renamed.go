package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// carryOver replaces the settings of earlier versions with those that they became part of. What was the default of a
// setting that only other models have is left out; the rest stays, to be rejected by name.
func carryOver(model map[string]json.RawMessage) {
	if activation, ok := model["activation"]; ok {
		if network := string(model["feed_forward"]); network == "" || network == "null" {
			model["feed_forward"] = activation
		}
		delete(model, "activation")
	}
	if base, ok := model["rotary_base"]; ok {
		text, scaling := strings.TrimSuffix(string(base), ".0"), ""
		if json.Unmarshal(model["rotary_scaling"], &scaling) == nil && scaling != "none" {
			text += ":" + scaling
		}
		model["rotary"], _ = json.Marshal(text)
		delete(model, "rotary_base")
		delete(model, "rotary_scaling")
	}
	if distance, ok := model["relative_distance"]; ok {
		model["relative_buckets"] = json.RawMessage(fmt.Sprintf("[%s, %s]", model["relative_buckets"], distance))
		delete(model, "relative_distance")
	}
	for name, unset := range map[string]string{"pooler": `"none"`, "token_transform": "false"} {
		if string(model[name]) == unset {
			delete(model, name)
		}
	}
	for _, name := range []string{"shift", "flip", "crop", "spec_augment", "speed"} { // in training only
		delete(model, name)
	}
}
