package security

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms that are spoken, by Kafka's names.
const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

// loginModules are the classes that sasl.jaas.config may name, and whether they are SCRAM's.
var loginModules = map[string]bool{
	"org.apache.kafka.common.security.plain.PlainLoginModule": false,
	"org.apache.kafka.common.security.scram.ScramLoginModule": true,
}

// sasl makes the mechanism of the sasl. properties.
func (r *reader) sasl() (sasl.Mechanism, string, error) {
	m, ok := r.values["sasl.mechanism"]
	if !ok {
		return nil, "", r.fail(r.values["security.protocol"], "sasl.mechanism is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (Kafka's default, GSSAPI, is not spoken here)")
	}
	if !slices.Contains([]string{mechanismPlain, mechanismScram256, mechanismScram512}, m.Value) {
		return nil, "", r.fail(m, "sasl.mechanism is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: others are not spoken here")
	}
	p, ok := r.values["sasl.jaas.config"]
	if !ok {
		return nil, "", r.fail(m, "sasl.mechanism is given, but no sasl.jaas.config with username and password")
	}
	module, options, err := parseJAAS(p.Value)
	if err != "" {
		return nil, "", r.fail(p, "sasl.jaas.config: %s", err)
	}
	isScram, ok := loginModules[module]
	if !ok {
		return nil, "", r.fail(p, "sasl.jaas.config names a login module that is not built here: PlainLoginModule and ScramLoginModule of org.apache.kafka.common.security are")
	}
	if isScram == (m.Value == mechanismPlain) {
		return nil, "", r.fail(p, "sasl.jaas.config names the login module of another mechanism than sasl.mechanism %s", m.Value)
	}
	for _, name := range [...]string{"username", "password"} {
		if options[name] == "" {
			return nil, "", r.fail(p, "sasl.jaas.config has no %s", name)
		}
	}
	user, pass := options["username"], options["password"]
	switch m.Value {
	case mechanismScram256:
		return scram.Auth{User: user, Pass: pass, IsToken: options["tokenauth"] == "true"}.AsSha256Mechanism(), user, nil
	case mechanismScram512:
		return scram.Auth{User: user, Pass: pass, IsToken: options["tokenauth"] == "true"}.AsSha512Mechanism(), user, nil
	}
	return plain.Auth{User: user, Pass: pass}.AsMechanism(), user, nil
}

// parseJAAS reads one entry of a JAAS configuration: CLASS required name="value" ... ; The text of its error holds no
// value.
func parseJAAS(text string) (module string, options map[string]string, problem string) {
	words, closed := jaasWords(text)
	if !closed {
		return "", nil, "a quote is not closed"
	}
	end := slices.Index(words, jaasWord{text: ";"})
	switch {
	case end < 0:
		return "", nil, "the entry does not end with ;"
	case end != len(words)-1:
		return "", nil, "there is more behind the first ; (one entry is read)"
	case end < 2:
		return "", nil, `want CLASS required username="..." password="...";`
	case !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, strings.ToLower(words[1].text)):
		return "", nil, "the word behind the class is none of required, requisite, sufficient, optional"
	}
	options = map[string]string{}
	for rest := words[2:end]; len(rest) > 0; rest = rest[3:] {
		if len(rest) < 3 || rest[1] != (jaasWord{text: "="}) {
			return "", nil, `an option is not name="value"`
		}
		options[rest[0].text] = rest[2].text
	}
	return words[0].text, options, ""
}

type jaasWord struct {
	text   string
	quoted bool
}

// jaasWords cuts the text into words, quoted values, = and ; as java.io.StreamTokenizer does for a JAAS file.
func jaasWords(text string) (words []jaasWord, closed bool) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c <= ' ':
			i++
		case c == '=' || c == ';':
			words = append(words, jaasWord{text: text[i : i+1]})
			i++
		case c == '"' || c == '\'':
			var b strings.Builder
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				b.WriteByte(text[i])
			}
			if i == len(text) {
				return nil, false
			}
			words = append(words, jaasWord{b.String(), true})
			i++
		default:
			from := i
			for i < len(text) && text[i] > ' ' && !strings.ContainsRune(`=;"'`, rune(text[i])) {
				i++
			}
			words = append(words, jaasWord{text: text[from:i]})
		}
	}
	return words, true
}
