package apps

import "testing"

func TestAnAnswerIsOneLine(t *testing.T) {
	for text, expected := range map[string]string{
		"": "", "a": "a", "a\nb": "a b", "a\r\nb": "a b", "a\n": "a", "a\n\n": "a ", "\n": "", "\r\n": "", "a\u2028b\vc": "a b c",
	} {
		if found := oneLine(text); found != expected {
			t.Errorf("%q: %q, expected %q", text, found, expected)
		}
	}
}
