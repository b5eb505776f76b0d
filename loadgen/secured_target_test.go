package loadgen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
)

const (
	frontUser   = "alice"
	frontSecret = `s3cr,et=" word`
)

// keys are a certificate authority's and what it signed, in PEM files.
type keys struct{ ca, server, serverKey, client string }

// makeKeys signs a server of the given names and a client.
func makeKeys(t *testing.T, names ...string) keys {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	serial := int64(0)
	sign := func(c *x509.Certificate, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, parentKey = c, key
		}
		serial++
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	pkcs8 := func(key *ecdsa.PrivateKey) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, caKey := sign(ca, nil, nil)
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "broker"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, n)
		}
	}
	serverDER, serverKey := sign(server, ca, caKey)
	client := &x509.Certificate{Subject: pkix.Name{CommonName: "client"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	clientDER, clientKey := sign(client, ca, caKey)
	k := keys{ca: write("ca.pem", "CERTIFICATE", caDER), server: write("server.pem", "CERTIFICATE", serverDER), serverKey: write("server.key", "PRIVATE KEY", pkcs8(serverKey))}
	k.client = write("client.pem", "CERTIFICATE", clientDER)
	both, err := os.ReadFile(k.client)
	if err != nil {
		t.Fatal(err)
	}
	both = append(both, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(clientKey)})...)
	if err := os.WriteFile(k.client, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return k
}

// front stands before a sink as a listener with TLS, SASL or both, and tells clients its own address as the broker's.
type front struct {
	t         *testing.T
	l         net.Listener
	to        string
	mechanism string        // "" asks for none
	lifetime  time.Duration // of a session, which clients are told; 0 is as long as the connection
	sessions  sessions
	scram     *scram.Server
	wg        sync.WaitGroup
}

// newFront listens; config nil is without TLS.
func newFront(t *testing.T, to *sink.Sink, config *tls.Config, mechanism string) *front {
	t.Helper()
	f := &front{t: t, to: to.Addr(), mechanism: mechanism}
	var err error
	if f.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if config != nil {
		f.l = tls.NewListener(f.l, config)
	}
	if hash, ok := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[mechanism]; ok {
		c, err := hash.NewClientUnprepped(frontUser, frontSecret, "")
		if err != nil {
			t.Fatal(err)
		}
		stored, err := c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt of it", Iters: 4096})
		if err != nil {
			t.Fatal(err)
		}
		if f.scram, err = hash.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil }); err != nil {
			t.Fatal(err)
		}
	}
	f.wg.Go(func() {
		for {
			c, err := f.l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() { _ = f.l.Close(); f.wg.Wait() })
	return f
}

func (f *front) addr() string { return f.l.Addr().String() }

// asked is a request whose answer is to be changed.
type asked struct{ key, version int16 }

func (f *front) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", f.to)
	if err != nil {
		return
	}
	defer up.Close()
	var mu sync.Mutex
	pending := map[int32]asked{}
	answered, waiting := sync.NewCond(&mu), 0
	f.wg.Go(func() {
		defer c.Close()
		defer func() { mu.Lock(); waiting = 0; answered.Broadcast(); mu.Unlock() }()
		for {
			frame, err := readFrame(up)
			if err != nil {
				return
			}
			id := int32(binary.BigEndian.Uint32(frame))
			mu.Lock()
			a, ok := pending[id]
			delete(pending, id)
			mu.Unlock()
			if ok {
				frame = f.changed(a, frame)
			}
			if writeFrame(c, frame) != nil {
				return
			}
			mu.Lock()
			waiting--
			answered.Broadcast()
			mu.Unlock()
		}
	})
	var who authentication
	for {
		frame, err := readFrame(c)
		if err != nil || len(frame) < 8 {
			return
		}
		a := asked{int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))}
		id := int32(binary.BigEndian.Uint32(frame[4:]))
		switch {
		case a.key == 17 || a.key == 36:
			mu.Lock()
			for waiting > 0 { // a broker answers in the order of the requests
				answered.Wait()
			}
			mu.Unlock()
			if a.key == 17 {
				f.sessions.begins(who.ok)
				who = authentication{}
			}
			if !f.authenticate(c, &who, a, id, frame) {
				return
			}
			continue
		case a.key != 18 && f.mechanism != "" && !who.ok:
			f.sessions.intrudes()
			return
		case a.key == 3 || a.key == 10 || a.key == 18:
			mu.Lock()
			pending[id] = a
			mu.Unlock()
		}
		mu.Lock()
		waiting++
		mu.Unlock()
		if writeFrame(up, frame) != nil {
			return
		}
	}
}

// changed puts the front's own address in the place of the sink's, and SASL into the list of APIs.
func (f *front) changed(a asked, frame []byte) []byte {
	head, body := frame[:4], frame[4:]
	resp := kmsg.ResponseForKey(a.key)
	if resp.SetVersion(a.version); a.key == 18 && len(body) > 2 && body[1] == byte(kafka.UnsupportedVersion) {
		resp.SetVersion(0)
	}
	if a.key != 18 && resp.IsFlexible() {
		head, body = frame[:5], frame[5:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return frame
	}
	host, port, _ := net.SplitHostPort(f.addr())
	n, _ := strconv.Atoi(port)
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, int32(n)
		}
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = host, int32(n)
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = host, int32(n)
		}
	case *kmsg.ApiVersionsResponse:
		for _, key := range [...]int16{17, 36} {
			row := kmsg.NewApiVersionsResponseApiKey()
			row.ApiKey, row.MaxVersion = key, 1
			r.ApiKeys = append(r.ApiKeys, row)
		}
	}
	return resp.AppendTo(bytes.Clone(head))
}

type authentication struct {
	scram *scram.ServerConversation
	ok    bool
}

// authenticate answers a request of SASL.
func (f *front) authenticate(c net.Conn, who *authentication, a asked, id int32, frame []byte) bool {
	rest := frame[8:]
	if n := int16(binary.BigEndian.Uint16(rest)); n >= 0 {
		rest = rest[n:]
	}
	req := kmsg.RequestForKey(a.key)
	req.SetVersion(a.version)
	if err := req.ReadFrom(rest[2:]); err != nil {
		return false
	}
	resp := req.ResponseKind()
	switch r := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		h := resp.(*kmsg.SASLHandshakeResponse)
		if h.SupportedMechanisms = []string{f.mechanism}; r.Mechanism != f.mechanism {
			h.ErrorCode = int16(kafka.UnsupportedSaslMechanism)
		}
	case *kmsg.SASLAuthenticateRequest:
		h := resp.(*kmsg.SASLAuthenticateResponse)
		if !f.step(who, r.SASLAuthBytes, h) {
			text := "Authentication failed"
			h.ErrorCode, h.ErrorMessage = int16(kafka.SaslAuthenticationFailed), &text
		}
	}
	if h, ok := resp.(*kmsg.SASLAuthenticateResponse); ok && who.ok {
		h.SessionLifetimeMillis = f.lifetime.Milliseconds()
	}
	return writeFrame(c, resp.AppendTo(binary.BigEndian.AppendUint32(nil, uint32(id)))) == nil
}

func (f *front) step(who *authentication, words []byte, h *kmsg.SASLAuthenticateResponse) bool {
	if f.scram == nil {
		who.ok = string(words) == "\x00"+frontUser+"\x00"+frontSecret
		return who.ok
	}
	if who.scram == nil {
		who.scram = f.scram.NewConversation()
	}
	answer, err := who.scram.Step(string(words))
	h.SASLAuthBytes, who.ok = []byte(answer), who.scram.Valid()
	return err == nil
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 64<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// serverTLS are a broker's settings; clients is the authority of client certificates, "" asks for none.
func serverTLS(t *testing.T, k keys, clients string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(k.server, k.serverKey)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != "" {
		b, err := os.ReadFile(clients)
		if err != nil {
			t.Fatal(err)
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AppendCertsFromPEM(b)
	}
	return c
}

// properties writes a client.properties.
func properties(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// login is sasl.jaas.config for a module, escaped twice: for JAAS, then for the properties file.
func login(module, user, password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return `sasl.jaas.config=org.apache.kafka.common.security.` + module + ` required username="` + user + `" password="` + strings.ReplaceAll(quoted, `\`, `\\`) + `";`
}

func TestBothDriversReachASecuredTarget(t *testing.T) {
	k := makeKeys(t, "127.0.0.1")
	for _, c := range []struct {
		name, protocol, mechanism, module string
		clientKey                         bool
	}{
		{"TLS", "SSL", "", "", false},
		{"TLS, own certificate", "SSL", "", "", true},
		{"TLS, SCRAM-SHA-512", "SASL_SSL", "SCRAM-SHA-512", "scram.ScramLoginModule", false},
		{"PLAIN", "SASL_PLAINTEXT", "PLAIN", "plain.PlainLoginModule", false},
		{"SCRAM-SHA-256", "SASL_PLAINTEXT", "SCRAM-SHA-256", "scram.ScramLoginModule", false},
	} {
		to := target(t, sink.Script{KeepBytes: 8 << 20})
		lines := []string{"security.protocol=" + c.protocol}
		var config *tls.Config
		if strings.HasSuffix(c.protocol, "SSL") {
			config = serverTLS(t, k, "")
			lines = append(lines, "ssl.truststore.type=PEM", "ssl.truststore.location="+k.ca)
			if c.clientKey {
				config = serverTLS(t, k, k.ca)
				lines = append(lines, "ssl.keystore.type=PEM", "ssl.keystore.location="+k.client)
			}
		}
		if c.mechanism != "" {
			lines = append(lines, "sasl.mechanism="+c.mechanism, login(c.module, frontUser, frontSecret))
		}
		f := newFront(t, to, config, c.mechanism)
		file := properties(t, lines...)
		for _, driver := range []string{"raw", "kgo"} {
			t.Run(c.name+" "+driver, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "out")
				stdout, stderr, err := tidemark(t, "load", "--bootstrap", f.addr(), "--driver", driver, "--command-config", file, "--out", dir,
					"--rate", "1000", "--window", "300ms", "--warm-up", "100ms", "--groups", "1")
				if err != nil && !strings.Contains(err.Error(), result.GeneratorLimited) {
					t.Fatal(err)
				}
				res, err := result.Read(dir)
				if err != nil {
					t.Fatal(err)
				}
				if e, v := res.Ends, res.Verification; e.Intended == 0 || e.Acked != e.Intended || !v.Complete || !v.Clean() || v.Delivered != v.Acked {
					t.Errorf("%+v %+v", e, v)
				}
				if res.Contact == nil || !strings.HasPrefix(res.Contact.Security, c.protocol) || !strings.Contains(stderr, "round trip") {
					t.Errorf("%+v\n%s", res.Contact, stderr)
				}
				written, err := os.ReadFile(filepath.Join(dir, result.FileName))
				if err != nil {
					t.Fatal(err)
				}
				if all := stdout + stderr + string(written); strings.Contains(all, "s3cr") {
					t.Errorf("the password is told:\n%s", all)
				}
			})
		}
	}
}

// TestWhatASecuredTargetRefusesIsSaid shows each way to be turned away, with both drivers' first contact being the same.
func TestWhatASecuredTargetRefusesIsSaid(t *testing.T) {
	k, stranger, other := makeKeys(t, "127.0.0.1"), makeKeys(t, "127.0.0.1"), makeKeys(t, "elsewhere.example")
	to := target(t, sink.Script{})
	secure := newFront(t, to, serverTLS(t, k, ""), "SCRAM-SHA-256").addr()
	wantsKey := newFront(t, to, serverTLS(t, k, k.ca), "").addr()
	unknown := newFront(t, to, serverTLS(t, stranger, ""), "").addr()
	elsewhere := newFront(t, to, serverTLS(t, other, ""), "").addr()
	trust := []string{"ssl.truststore.type=PEM", "ssl.truststore.location=" + k.ca}
	sasl := func(more ...string) []string {
		return append(append([]string{"security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256"}, trust...), more...)
	}
	for _, c := range []struct {
		name, addr string
		lines      []string
		says       string
	}{
		{"wrong password", secure, sasl(login("scram.ScramLoginModule", frontUser, "s3cr-wrong")), "SASL_AUTHENTICATION_FAILED"},
		{"another mechanism", secure, append([]string{"security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", login("plain.PlainLoginModule", frontUser, frontSecret)}, trust...), `it takes ["SCRAM-SHA-256"]`},
		{"no SASL", secure, append([]string{"security.protocol=SSL"}, trust...), "closed the connection"},
		{"unknown authority", unknown, append([]string{"security.protocol=SSL"}, trust...), "ssl.truststore"},
		{"another name", elsewhere, []string{"security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=" + other.ca}, "ssl.endpoint.identification.algorithm"},
		{"no own certificate", wantsKey, append([]string{"security.protocol=SSL"}, trust...), "certificate required"},
		{"no TLS there", to.Addr(), append([]string{"security.protocol=SSL"}, trust...), "TLS handshake"},
		{"no TLS here", secure, []string{"security.protocol=PLAINTEXT"}, "broker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			stdout, stderr, err := tidemark(t, "load", "--bootstrap", c.addr, "--command-config", properties(t, c.lines...), "--out", dir, "--check-only")
			if ExitCode(err) != exitFailure || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit %d: %v, want %q in it", ExitCode(err), err, c.says)
			}
			if all := stdout + stderr + err.Error(); strings.Contains(all, "s3cr") || strings.Contains(all, frontUser) {
				t.Errorf("a secret is told: %s", all)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the folder was left behind")
			}
		})
	}
	if _, _, err := tidemark(t, "load", "--bootstrap", secure, "--check-only"); ExitCode(err) != exitFailure || !strings.Contains(err.Error(), "--command-config") {
		t.Errorf("without properties: %v", err)
	}
	unnamed := properties(t, "security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location="+other.ca, "ssl.endpoint.identification.algorithm=")
	if out, _, err := tidemark(t, "load", "--bootstrap", elsewhere, "--command-config", unnamed, "--check-only"); err != nil || !strings.Contains(out, "   SSL   ") {
		t.Errorf("with the name unchecked: %v\n%s", err, out)
	}
}
