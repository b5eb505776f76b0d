package api

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// pays sends a request over a connection with so much memory for answers; it gives the answer, or why there is none, what was paid for it
// and what was allocated, twice the answer by this test itself.
func (n *groupNode) pays(req kmsg.Request, version int16, left int64) (answer string, paid int64, allocated uint64) {
	n.t.Helper()
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, 1)
	conn := &paying{make(answered, 1), left}
	c := &Call{Client: &Client{Listener: "PLAINTEXT", ClientHost: "10.1.1.1", Ctx: n.t.Context()}, Conn: conn}
	c.Frame = n.handlers.Pool.Get(len(frame) - 4)
	copy(c.Frame.B, frame[4:])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n.handlers.Serve(c, c.Frame.B)
	answer = string(<-conn.answered)
	runtime.ReadMemStats(&after)
	return answer, left - conn.left, after.TotalAlloc - before.TotalAlloc
}

// paysForAll holds a request to what its answer may cost: it pays for about the answer's bytes, and without memory for them its
// connection ends. It gives the answer.
func (n *groupNode) paysForAll(what string, req kmsg.Request, version int16) string {
	n.t.Helper()
	const much = 1 << 30
	answer, paid, allocated := n.pays(req, version, much)
	n.t.Logf("%s: an answer of %d bytes pays %d, %d were allocated", what, len(answer), paid, allocated)
	if strings.HasPrefix(answer, "abort") || len(answer) < 4*freeAnswerBytes {
		n.t.Fatalf("%s: an answer of %d bytes says nothing: %.100q", what, len(answer), answer)
	}
	if int(paid) < len(answer)-freeAnswerBytes || int(paid) > 4*len(answer) {
		n.t.Errorf("%s: an answer of %d bytes pays %d", what, len(answer), paid)
	}
	if none, _, _ := n.pays(req, version, int64(len(answer)/2)); !strings.Contains(none, "queued.max.request.bytes") {
		n.t.Errorf("%s: half the memory gives an answer of %d bytes", what, len(none))
	}
	return answer
}

// TestFeaturesThatFailTogetherShareTheirWords: one error is told for each feature of the request.
func TestFeaturesThatFailTogetherShareTheirWords(t *testing.T) {
	n, _ := newTopicNode(t)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	for i := range 2000 {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.UpgradeType, u.MaxVersionLevel = 1, 1
		u.Feature = fmt.Sprint(strings.Repeat("f", 3*maxErrorText*min(1, 1/(i+1))), i)
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	for version := int16(0); version <= 1; version++ {
		answer := n.paysForAll(fmt.Sprint("version ", version), req, version)
		if len(answer) < 2000*maxErrorText {
			t.Errorf("version %d: an answer of %d bytes", version, len(answer))
		}
		if _, _, allocated := n.pays(req, version, 1<<30); allocated > 4*uint64(len(answer)) {
			t.Errorf("version %d: an answer of %d bytes allocates %d", version, len(answer), allocated)
		}
	}
	for _, key := range []kmsg.Key{kmsg.UpdateFeatures, kmsg.FindCoordinator} {
		if !Alone(key.Int16()) {
			t.Errorf("the next request is taken while the answer to %s is made", key.Name())
		}
	}
}

// TestTheSettingsOfCreatedTopicsTakeMemory: from version 5 on each topic's settings are told, also when nothing is created.
func TestTheSettingsOfCreatedTopicsTakeMemory(t *testing.T) {
	n, _ := newTopicNode(t)
	for _, setting := range [][]string{nil, {"retention.ms=77"}} {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.ValidateOnly = true
		for i := range 400 {
			req.Topics = append(req.Topics, topicRequest(fmt.Sprint("t", i), 1, setting...))
		}
		what := fmt.Sprint("settings ", setting)
		answer := n.paysForAll(what, req, 7)
		if _, _, allocated := n.pays(req, 7, 1<<30); len(setting) == 0 && allocated > 7*uint64(len(answer)) {
			t.Errorf("%s: an answer of %d bytes allocates %d", what, len(answer), allocated)
		}
		if answer, paid, _ := n.pays(req, 4, 1<<30); paid > 400*2000 || len(answer) > 400*50 {
			t.Errorf("%s: version 4 pays %d for an answer of %d bytes", what, paid, len(answer))
		}
	}
	if answer, _, _ := n.pays(&kmsg.CreateTopicsRequest{Topics: []kmsg.CreateTopicsRequestTopic{topicRequest("t", 1)}, TimeoutMillis: 10_000}, 7, 0); strings.HasPrefix(answer, "abort") {
		t.Error("one topic pays")
	}
}

// TestAPageOfTopicsTakesMemory: each unknown name is told.
func TestAPageOfTopicsTakesMemory(t *testing.T) {
	n, _ := newTopicNode(t)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2000
	for i := range 3000 {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: fmt.Sprint(strings.Repeat("t", 100), i)})
	}
	n.paysForAll("unknown topics", req, 0)
	req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "none"}
	n.paysForAll("a cursor that is not among them", req, 0)
}

// TestManyCoordinatorsTakeMemory: one request may ask for those of many groups.
func TestManyCoordinatorsTakeMemory(t *testing.T) {
	n := newGroupNode(t)
	req := kmsg.NewPtrFindCoordinatorRequest()
	for i := range 3000 {
		req.CoordinatorKeys = append(req.CoordinatorKeys, fmt.Sprint(strings.Repeat("g", 100), i))
	}
	for range 2 { // the first creates the topic
		n.paysForAll("coordinators", req, 4)
	}
	req.CoordinatorType = transactionKeyType
	n.paysForAll("coordinators of transactions", req, 6)
}
