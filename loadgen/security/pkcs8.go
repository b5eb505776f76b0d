package security

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/asn1"
	"errors"
	"hash"
)

// Errors of encrypted keys. They say nothing about the password.
var (
	errWrongPassword = errors.New("the key does not open with this password")
	errCipher        = errors.New("only keys encrypted by PBES2 with PBKDF2 and AES-CBC are read (openssl pkcs8 -topk8 -v2 aes-256-cbc)")
)

// maxIterations bounds what a key file may ask PBKDF2 to do.
const maxIterations = 10_000_000

// The object identifiers of RFC 8018 and NIST.
var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	aesCBC    = map[string]int{"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32} // key bytes
	hmacs     = map[string]func() hash.Hash{"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New,
		"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New}
)

type algorithm struct {
	OID        asn1.ObjectIdentifier
	Parameters asn1.RawValue `asn1:"optional"`
}

// decryptPKCS8 opens an EncryptedPrivateKeyInfo of PKCS #8 (RFC 5958, section 3) and returns the PrivateKeyInfo's DER.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var info struct {
		Algorithm algorithm
		Data      []byte
	}
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 || !info.Algorithm.OID.Equal(oidPBES2) {
		return nil, errCipher
	}
	var pbes2 struct{ KDF, Cipher algorithm }
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &pbes2); err != nil || !pbes2.KDF.OID.Equal(oidPBKDF2) {
		return nil, errCipher
	}
	var kdf struct {
		Salt       []byte
		Iterations int
		KeyBytes   int       `asn1:"optional"`
		PRF        algorithm `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(pbes2.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, errCipher
	}
	prf, keyBytes := hmacs[""], aesCBC[pbes2.Cipher.OID.String()]
	if len(kdf.PRF.OID) > 0 {
		prf = hmacs[kdf.PRF.OID.String()]
	}
	var iv []byte
	if _, err := asn1.Unmarshal(pbes2.Cipher.Parameters.FullBytes, &iv); err != nil || prf == nil || keyBytes == 0 || len(iv) != aes.BlockSize ||
		kdf.Iterations < 1 || kdf.Iterations > maxIterations || len(info.Data) == 0 || len(info.Data)%aes.BlockSize != 0 {
		return nil, errCipher
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, keyBytes)
	if err != nil {
		return nil, errCipher
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errCipher
	}
	plain := make([]byte, len(info.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, info.Data)
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > aes.BlockSize || !bytes.Equal(plain[len(plain)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errWrongPassword
	}
	plain = plain[:len(plain)-pad]
	var outer asn1.RawValue
	if rest, err := asn1.Unmarshal(plain, &outer); err != nil || len(rest) > 0 || outer.Tag != asn1.TagSequence {
		return nil, errWrongPassword
	}
	return plain, nil
}
