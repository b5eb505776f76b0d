package security

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/workload"
)

func TestPropertiesAreReadAsJavaReadsThem(t *testing.T) {
	const text = "# comment\n! another\n\n  a = b \nc:d\ne f\ng\nh=\\\n   i,\\\r\n\tj\nk\\=l\\:m=\\u0041\\tz\\\\\nlast=x=y"
	got, err := ParseProperties("f", 5, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Property{{"a", "b", 8}, {"c", "d", 9}, {"e", "f", 10}, {"g", "", 11}, {"h", "i,j", 12}, {"k=l:m", "A\tz\\", 15}, {"last", "x=y", 16}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add([]byte("a=b\\\n c\n\\u0041:x"))
	f.Add([]byte("sasl.jaas.config=C required username=\"a\" password='b';"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ps, err := ParseProperties("f", 1, text)
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.Name == "" || p.Line < 1 {
				t.Errorf("%+v", p)
			}
			_, _, _ = parseJAAS(p.Value)
		}
		_, _ = New("f", ps)
	})
}

func FuzzDecryptPKCS8(f *testing.F) {
	f.Add(encrypted(f, []byte{0x30, 0}, "p"))
	f.Fuzz(func(t *testing.T, der []byte) {
		if len(der) < 4096 {
			if plain, err := decryptPKCS8(der, "p"); err == nil && len(plain) == 0 {
				t.Error("no key and no error")
			}
		}
	})
}

// encrypted makes an EncryptedPrivateKeyInfo with few iterations.
func encrypted(t testing.TB, plain []byte, password string) []byte {
	t.Helper()
	salt, iv := []byte("12345678"), make([]byte, aes.BlockSize)
	key, err := pbkdf2.Key(sha256.New, password, salt, 1000, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	for range pad {
		plain = append(plain, byte(pad))
	}
	data := make([]byte, len(plain))
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, plain)
	type named struct {
		OID        asn1.ObjectIdentifier
		Parameters asn1.RawValue
	}
	marshal := func(v any) []byte {
		b, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	kdf := marshal(struct {
		Salt       []byte
		Iterations int
		PRF        named
	}{salt, 1000, named{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, asn1.NullRawValue}})
	both := marshal(struct{ KDF, Cipher named }{named{oidPBKDF2, asn1.RawValue{FullBytes: kdf}},
		named{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, asn1.RawValue{FullBytes: marshal(iv)}}})
	return marshal(struct {
		Algorithm named
		Data      []byte
	}{named{oidPBES2, asn1.RawValue{FullBytes: both}}, data})
}

// ownKey makes a certificate and its key, in PEM.
func ownKey(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = x509.MarshalPKCS8PrivateKey(k); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

func TestAnEncryptedKeyOpensWithItsPasswordAlone(t *testing.T) {
	cert, der := ownKey(t)
	path := filepath.Join(t.TempDir(), "client.pem")
	both := slices.Concat(cert, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: encrypted(t, der, "s3cr-key")}))
	if err := os.WriteFile(path, both, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + path + "\n"
	for _, c := range []struct{ line, says string }{
		{"ssl.key.password=s3cr-key\n", ""},
		{"ssl.key.password=s3cr-other\n", "f:4:1: ssl.key.password: the key does not open with this password"},
		{"", "f:3:1: ssl.keystore.location: the key is encrypted: give ssl.key.password"},
	} {
		client, err := parse(lines + c.line)
		switch {
		case c.says == "" && (err != nil || len(client.tls.Certificates) != 1):
			t.Errorf("%v", err)
		case c.says != "" && (err == nil || err.Error() != c.says):
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}

func parse(text string) (*Client, error) {
	ps, err := ParseProperties("f", 1, []byte(text))
	if err != nil {
		return nil, err
	}
	return New("f", ps)
}

const plainLogin = `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cr";` + "\n"

func TestWhatIsWrongIsNamedWithItsPlaceAndNoSecret(t *testing.T) {
	cert, key := ownKey(t)
	oneLine := func(b []byte) string { return strings.ReplaceAll(string(b), "\n", `\n`) }
	store := "security.protocol=SSL\nssl.keystore.type=PEM\n"
	for _, c := range []struct{ name, text, says string }{
		{"unknown", "# \nsecurity.protocl=SSL\n", `f:2:1: unknown property "security.protocl" (did you mean "security.protocol"?)`},
		{"twice", "client.id=a\nsasl.mechanism=A\nsasl.mechanism=B\n", `f:3:1: sasl.mechanism is given twice, in line 2 before`},
		{"no name", "=s3cr\n", `f:1:1: this line has no name=value`},
		{"bad escape", `a=\u00s3cr`, `f:1:1: a \u without four`},
		{"binary", "\xfe\xed\xfe\xed", `f: the file is no UTF-8 text`},
		{"protocol", "security.protocol=s3cr\n", `f:1:1: security.protocol is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`},
		{"JKS", "security.protocol=SSL\nssl.truststore.location=/t.jks\n", `f:2:1: ssl.truststore.type: only PEM is read here, and Kafka's default is JKS. Make a PEM file of it and set ssl.truststore.type=PEM: keytool`},
		{"PKCS12", "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/k.p12\n", `f:2:1: ssl.keystore.type: only PEM is read here`},
		{"store type", "security.protocol=SSL\nssl.keystore.type=s3cr\n", `f:2:1: ssl.keystore.type is none of PEM, PKCS12, JKS`},
		{"no store", "security.protocol=SSL\nssl.truststore.type=PEM\n", `f:2:1: ssl.truststore.type is given, but neither ssl.truststore.location nor ssl.truststore.certificates`},
		{"no such file", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=nowhere.pem\n", `f:3:1: ssl.truststore.location: stat nowhere.pem: no such file or directory (relative to the folder`},
		{"a folder", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/\n", `/ is no file`},
		{"no certificate", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=s3cr\n", `f:3:1: ssl.truststore.certificates holds no certificate in PEM`},
		{"two stores", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=s3cr\nssl.truststore.location=/x\n", `exclude each other`},
		{"no key", store + "ssl.keystore.certificate.chain=" + oneLine(cert) + "\n", `holds no private key in PEM`},
		{"another's key", store + "ssl.keystore.certificate.chain=" + oneLine(cert) + "\nssl.keystore.key=" + oneLine(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: otherKey(t)})) + "\n", `do not fit together`},
		{"key alone", store[:22] + "ssl.keystore.key=" + oneLine(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})) + "\n", `f:2:1: ssl.keystore.key needs ssl.keystore.certificate.chain`},
		{"old TLS", "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.1\n", `f:2:1: ssl.enabled.protocols: only TLSv1.2 and TLSv1.3`},
		{"names", "security.protocol=SSL\nssl.endpoint.identification.algorithm=none\n", `is neither https nor empty`},
		{"no mechanism", "security.protocol=SASL_SSL\n" + plainLogin, `f:1:1: sasl.mechanism is missing`},
		{"GSSAPI", "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n", `f:2:1: sasl.mechanism is none of PLAIN`},
		{"no login", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", `f:2:1: sasl.mechanism is given, but no sasl.jaas.config`},
		{"another module", "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n" + plainLogin, `f:3:1: sasl.jaas.config names the login module of another mechanism`},
		{"unknown module", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=com.s3cr.Module required;\n", `a login module that is not built here`},
		{"no password", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"s3cr\";\n", `sasl.jaas.config has no password`},
		{"no semicolon", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + strings.ReplaceAll(plainLogin, ";", ""), `does not end with ;`},
		{"open quote", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + strings.ReplaceAll(plainLogin, `";`, ``), `a quote is not closed`},
		{"two logins", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + strings.TrimSpace(plainLogin) + " B required;\n", `more behind the first ;`},
		{"no equals", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=A required username \"s3cr\";\n", `an option is not name="value"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.text)
			var p *workload.Problem
			if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, &p) {
				t.Fatalf("got  %v\nwant %s", err, c.says)
			}
			if strings.Contains(err.Error(), "s3cr") {
				t.Errorf("a value is told: %v", err)
			}
		})
	}
}

func otherKey(t *testing.T) []byte {
	_, key := ownKey(t)
	return key
}

func TestKnownPropertiesWithoutMeaningAreWarnings(t *testing.T) {
	c, err := parse("acks=1\nclient.id=s3cr\nssl.truststore.location=/x\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" + plainLogin)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"f:1:1: acks is a setting of the workload here: --acks", "f:2:1: client.id has no meaning here",
		"f:3:1: ssl.truststore.location is not used: security.protocol is SASL_PLAINTEXT", "f:5:1: with SASL_PLAINTEXT and PLAIN the password goes over the network as it is"}
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("got  %q\nwant %q", c.Warnings, want)
	}
	if c.Words() != "SASL_PLAINTEXT, PLAIN" || c.User() != "alice" || c.Access().SASL == nil || c.Access().Dial != nil {
		t.Errorf("%s %s", c.Words(), c.User())
	}
	for property, flag := range workloadFlags {
		if flag != "bootstrap" && !slices.Contains(workload.Fields(), flag) {
			t.Errorf("%s is said to be --%s, which is no setting", property, flag)
		}
	}
}
