package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a broker tells of its folders has a line for each of its partitions, whatever was asked for: it pays for them before they are
// put together.
func TestDescribingManyLogsTakesMemory(t *testing.T) {
	const many = 3000
	tight := []string{"queued.max.request.bytes=262144", "socket.request.max.bytes=262144"}
	for _, c := range []struct {
		settings   []string
		partitions int
		answered   bool
	}{{nil, many, true}, {tight, many, false}, {tight, 10, true}} {
		n := startNode(t, t.TempDir(), c.settings...)
		n.topic("t", c.partitions)
		client, r := n.dial(), kmsg.NewPtrDescribeLogDirsRequest()
		r.Version = 4
		client.send(r)
		resp, _, err := client.tryReceive(r)
		if (err == nil) != c.answered {
			t.Errorf("%v, %d partitions: %v", c.settings, c.partitions, err)
		}
		if err == nil {
			if d := resp.(*kmsg.DescribeLogDirsResponse).Dirs; len(d) != 1 || len(d[0].Topics) != 1 || len(d[0].Topics[0].Partitions) != c.partitions {
				t.Errorf("%d partitions: %d folders", c.partitions, len(d))
			}
		}
	}
}
