package controller

import (
	"context"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// TestAFeatureUpdateThatIsGivenUp: who gives up while the decision is made is told so, whole; the race detector sees to the rest.
func TestAFeatureUpdateThatIsGivenUp(t *testing.T) {
	c := start(t, options(vfs.NewMem(nil)))
	defer stop(t, c)
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		failed, code, text := c.UpdateFeatures(ctx, []FeatureUpdate{{Name: "metadata.version", Level: metadataVersion + 1, Type: Upgrade}}, false)
		switch {
		case code == kafka.RequestTimedOut && failed == "" && text != "":
		case code == kafka.InvalidUpdateVersion && failed == "metadata.version" && text != "":
		default:
			t.Fatalf("%q, %v, %q", failed, code, text)
		}
		cancel()
	}
}
