// Package security reads Kafka's client.properties, as Kafka's own tools take it with --command-config, and makes of it
// what a connection needs: TLS and a SASL mechanism. It knows security.protocol PLAINTEXT, SSL, SASL_PLAINTEXT and
// SASL_SSL, key and trust stores in PEM, and PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
//
//	client.properties -> Property (line by line) -> Client -> driver.Access: Dial, SASL
//
// Reading is strict: an unknown property is refused with its line and the nearest name; one that Kafka knows and that
// means nothing here is a warning. No value of a property is ever in an error or a warning, only names, places and the
// words that are allowed: values may be secrets.
//
// Concurrency: a Client does not change; its Access may be used from any goroutine.
package security

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Protocols of Kafka's security.protocol.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"
)

// maxFile bounds every file that is read.
const maxFile = 4 << 20

// Client is what the properties ask for. The zero Client is PLAINTEXT.
type Client struct {
	Protocol string
	Warnings []string // properties without meaning here, each with its place
	tls      *tls.Config
	sasl     sasl.Mechanism
	user     string
}

// Read reads a file of properties. Relative paths inside are relative to the working folder, as Kafka has it.
func Read(path string) (*Client, error) {
	b, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("command-config: %w", err)
	}
	properties, err := ParseProperties(path, 1, b)
	if err != nil {
		return nil, err
	}
	return New(path, properties)
}

func readBounded(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if st.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", path, st.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// Access is how connections are made.
func (c *Client) Access() driver.Access {
	a := driver.Access{SASL: c.sasl}
	if c.tls != nil {
		a.Dial = dialer{c.tls}.dial
	}
	return a
}

// Words says in a few words how the client connects, without any secret: "SASL_SSL, SCRAM-SHA-512".
func (c *Client) Words() string {
	if c.Protocol == "" {
		return Plaintext
	}
	if c.sasl != nil {
		return c.Protocol + ", " + c.sasl.Name()
	}
	return c.Protocol
}

// User is the name that SASL says, "" where none is said. Quotas go by it.
func (c *Client) User() string { return c.user }

// New makes a Client of properties; name is their file's name in errors.
func New(name string, properties []Property) (*Client, error) {
	r := &reader{file: name, values: map[string]Property{}}
	c := &Client{}
	for _, p := range properties {
		if earlier, twice := r.values[p.Name]; twice {
			return nil, r.fail(p, "%s is given twice, in line %d before", p.Name, earlier.Line)
		}
		switch {
		case slices.Contains(honoured, p.Name):
			r.values[p.Name] = p
		case workloadFlags[p.Name] != "":
			r.warn(p, "%s is a setting of the workload here: --%s", p.Name, workloadFlags[p.Name])
		case slices.Contains(known, p.Name) || strings.HasPrefix(p.Name, "metrics."):
			r.warn(p, "%s has no meaning here", p.Name)
		default:
			all := slices.Concat(honoured, known)
			near := ""
			if n := workload.Nearest(p.Name, all); n != "" {
				near = fmt.Sprintf(" (did you mean %q?)", n)
			}
			return nil, r.fail(p, "unknown property %q%s", p.Name, near)
		}
	}
	if err := c.read(r); err != nil {
		return nil, err
	}
	c.Warnings = r.warnings
	return c, nil
}

func (c *Client) read(r *reader) (err error) {
	c.Protocol = Plaintext
	if p, ok := r.values["security.protocol"]; ok {
		c.Protocol = strings.ToUpper(p.Value)
		protocols := []string{Plaintext, SSL, SASLPlaintext, SASLSSL}
		if !slices.Contains(protocols, c.Protocol) {
			return r.fail(p, "security.protocol is none of %s", strings.Join(protocols, ", "))
		}
	}
	secure, named := c.Protocol == SSL || c.Protocol == SASLSSL, c.Protocol == SASLPlaintext || c.Protocol == SASLSSL
	for _, k := range honoured {
		p, ok := r.values[k]
		if ok && (strings.HasPrefix(k, "ssl.") && !secure || strings.HasPrefix(k, "sasl.") && !named) {
			r.warn(p, "%s is not used: security.protocol is %s", k, c.Protocol)
		}
	}
	if secure {
		if c.tls, err = r.tls(); err != nil {
			return err
		}
	}
	if named {
		if c.sasl, c.user, err = r.sasl(); err != nil {
			return err
		}
		if c.Protocol == SASLPlaintext && c.sasl.Name() == mechanismPlain {
			r.warn(r.values["sasl.mechanism"], "with SASL_PLAINTEXT and PLAIN the password goes over the network as it is")
		}
	}
	return nil
}

// reader is the reading of one file.
type reader struct {
	file     string
	values   map[string]Property
	warnings []string
}

func (r *reader) problem(p Property, text string) *workload.Problem {
	w := &workload.Problem{File: r.file, Field: p.Name, Text: text}
	if p.Line > 0 {
		w.Place = workload.Place{Line: p.Line, Column: 1}
	}
	return w
}

func (r *reader) fail(p Property, format string, a ...any) error {
	return r.problem(p, fmt.Sprintf(format, a...))
}

func (r *reader) warn(p Property, format string, a ...any) {
	r.warnings = append(r.warnings, r.problem(p, fmt.Sprintf(format, a...)).Error())
}

// file reads the file that a property names. The error holds the path, which is no secret.
func (r *reader) read(p Property) ([]byte, error) {
	b, err := readBounded(p.Value)
	if err == nil {
		return b, nil
	}
	hint := ""
	if errors.Is(err, os.ErrNotExist) && !filepath.IsAbs(p.Value) {
		hint = " (relative to the folder in which the command runs)"
	}
	return nil, r.fail(p, "%s: %v%s", p.Name, err, hint)
}
