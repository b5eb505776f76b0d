package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/clock"
)

// handshakeTimeout bounds a TLS handshake whose caller has set no bound.
const handshakeTimeout = 10 * time.Second

// tls makes the TLS settings of the ssl. properties.
func (r *reader) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := r.versions(c); err != nil {
		return nil, err
	}
	trust, err := r.store("ssl.truststore", "ssl.truststore.certificates")
	if err != nil {
		return nil, err
	}
	if trust.text != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(trust.text) {
			return nil, r.fail(trust.from, "%s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", trust.from.Name)
		}
	}
	if err := r.ownKey(c); err != nil {
		return nil, err
	}
	p, given := r.values["ssl.endpoint.identification.algorithm"]
	switch {
	case !given || strings.EqualFold(p.Value, "https"):
	case p.Value == "":
		withoutNames(c)
	default:
		return nil, r.fail(p, "ssl.endpoint.identification.algorithm is neither https nor empty")
	}
	return c, nil
}

// withoutNames checks the broker's certificate against the trust store, and not the name in it.
func withoutNames(c *tls.Config) {
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		chain := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			chain.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: chain})
		return err
	}
}

// tlsVersions are Kafka's words for them.
var tlsVersions = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

// versions reads which versions of TLS may be spoken.
func (r *reader) versions(c *tls.Config) error {
	for _, name := range [...]string{"ssl.protocol", "ssl.enabled.protocols"} {
		p, ok := r.values[name]
		if !ok {
			continue
		}
		var low, high uint16
		for word := range strings.SplitSeq(p.Value, ",") {
			v, ok := tlsVersions[strings.TrimSpace(word)]
			if !ok {
				return r.fail(p, "%s: only TLSv1.2 and TLSv1.3 are spoken here", name)
			}
			if low == 0 || v < low {
				low = v
			}
			high = max(high, v)
		}
		if name == "ssl.enabled.protocols" {
			c.MinVersion, c.MaxVersion = low, high
		} else if high == tls.VersionTLS12 {
			c.MaxVersion = high
		}
	}
	return nil
}

// store is the PEM text that a key or trust store holds, and the property it came from.
type store struct {
	text []byte
	from Property
}

// store reads the store whose properties begin with prefix; inline is the property that holds PEM itself.
func (r *reader) store(prefix, inline string) (s store, err error) {
	kind, location := r.values[prefix+".type"], r.values[prefix+".location"]
	text, hasText := r.values[inline]
	if kind.Name == "" && (location.Name != "" || hasText) {
		kind = Property{Name: prefix + ".type", Value: "JKS", Line: max(location.Line, text.Line)} // Kafka's default
	}
	switch strings.ToUpper(kind.Value) {
	case "":
		return s, nil
	case "PEM":
	case "JKS", "PKCS12":
		return s, r.fail(kind, "%s: only PEM is read here, and Kafka's default is JKS. Make a PEM file of it and set %s=PEM: %s", kind.Name, kind.Name, conversion(prefix, kind.Value))
	default:
		return s, r.fail(kind, "%s is none of PEM, PKCS12, JKS, and only PEM is read here", kind.Name)
	}
	if p, ok := r.values[prefix+".password"]; ok && p.Value != "" {
		r.warn(p, "%s has no meaning with a store in PEM", p.Name)
	}
	switch {
	case location.Name != "" && hasText:
		return s, r.fail(text, "%s and %s exclude each other", inline, location.Name)
	case hasText:
		return store{[]byte(text.Value), text}, nil
	case location.Name != "":
		b, err := r.read(location)
		return store{b, location}, err
	}
	return s, r.fail(kind, "%s is given, but neither %s.location nor %s", kind.Name, prefix, inline)
}

func conversion(prefix, kind string) string {
	if strings.EqualFold(kind, "PKCS12") {
		return "openssl pkcs12 -in STORE -nodes -out STORE.pem"
	}
	if prefix == "ssl.truststore" {
		return "keytool -list -rfc -keystore STORE > STORE.pem"
	}
	return "keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12, then openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem"
}

// ownKey reads the client's own certificate, where it has one.
func (r *reader) ownKey(c *tls.Config) error {
	chain, err := r.store("ssl.keystore", "ssl.keystore.certificate.chain")
	if err != nil {
		return err
	}
	key, hasKey := r.values["ssl.keystore.key"]
	if chain.text == nil {
		if hasKey {
			return r.fail(key, "ssl.keystore.key needs ssl.keystore.certificate.chain and ssl.keystore.type=PEM")
		}
		return nil
	}
	from, keyText := chain.from, chain.text
	if hasKey {
		from, keyText = key, []byte(key.Value)
	}
	plain, err := r.privateKey(from, keyText)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain.text, plain)
	if err != nil {
		return r.fail(from, "%s: the certificate and its key do not fit together or cannot be read: %s", from.Name, firstWords(err))
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// firstWords is an error of crypto/tls, whose texts hold no key material.
func firstWords(err error) string { return strings.TrimPrefix(err.Error(), "tls: ") }

// privateKey is the PEM of the first private key in text, decrypted with ssl.key.password where it is encrypted.
func (r *reader) privateKey(from Property, text []byte) ([]byte, error) {
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, r.fail(from, "%s holds no private key in PEM (-----BEGIN PRIVATE KEY-----)", from.Name)
		}
		if !strings.HasSuffix(b.Type, "PRIVATE KEY") {
			continue
		}
		if b.Type != "ENCRYPTED PRIVATE KEY" {
			if b.Headers["DEK-Info"] != "" {
				return nil, r.fail(from, "%s: this old form of an encrypted key is not read: openssl pkcs8 -topk8 -in KEY.pem -out NEW.pem", from.Name)
			}
			return pem.EncodeToMemory(b), nil
		}
		password, ok := r.values["ssl.key.password"]
		if !ok {
			return nil, r.fail(from, "%s: the key is encrypted: give ssl.key.password", from.Name)
		}
		der, err := decryptPKCS8(b.Bytes, password.Value)
		if err != nil {
			return nil, r.fail(password, "ssl.key.password: %v", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	}
}

// dialer opens TLS connections.
type dialer struct{ config *tls.Config }

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var plain net.Dialer
	nc, err := plain.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		_ = nc.Close()
		return nil, fmt.Errorf("%s is no TCP address", addr)
	}
	s, err := newSocket(tcp)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName = host
	c := tls.Client(s, config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w%s", addr, err, advice(err))
	}
	return c, nil
}

// advice is what to do about a handshake that failed.
func advice(err error) string {
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var alert tls.AlertError
	switch {
	case errors.As(err, &header):
		return " (the listener does not speak TLS: another port, or security.protocol without SSL)"
	case errors.As(err, &authority):
		return " (its certificate is not signed by anybody in ssl.truststore)"
	case errors.As(err, &name):
		return " (an empty ssl.endpoint.identification.algorithm leaves the name unchecked)"
	case errors.As(err, &alert):
		return " (the broker refused: does it ask for ssl.keystore?)"
	}
	return ""
}

// socket is a TCP connection that knows for how long its writes waited because it was full: below TLS nobody else could
// tell that from the work of encrypting.
type socket struct {
	*net.TCPConn
	raw  syscall.RawConn
	full atomic.Int64 // nanoseconds
}

func newSocket(tcp *net.TCPConn) (*socket, error) {
	raw, err := tcp.SyscallConn()
	return &socket{TCPConn: tcp, raw: raw}, err
}

// FullFor is for how long writes have waited in all.
func (s *socket) FullFor() time.Duration { return time.Duration(s.full.Load()) }

// Write writes all of b.
func (s *socket) Write(b []byte) (n int, err error) {
	since := int64(0)
	werr := s.raw.Write(func(fd uintptr) bool {
		if since != 0 {
			s.full.Add(clock.Nanos() - since)
			since = 0
		}
		for n < len(b) {
			wrote, e := unix.Write(int(fd), b[n:])
			switch e {
			case nil:
				n += wrote
			case unix.EINTR:
			case unix.EAGAIN:
				since = clock.Nanos()
				return false
			default:
				err = &net.OpError{Op: "write", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: e}
				return true
			}
		}
		return true
	})
	if err == nil {
		err = werr
	}
	return n, err
}
