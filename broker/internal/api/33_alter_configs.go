package api

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// alterConfigs serves API key 33, versions 0 to 2: the settings of a resource become those of the request, the others go.
func (h *Handlers) alterConfigs(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.AlterConfigsRequest)
	asked := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		in := &r.Resources[i]
		a := &asked[i]
		a.kind, a.Name, a.Replace = in.ResourceType, in.ResourceName, true
		for _, s := range in.Configs {
			a.change(s.Name, controller.SetConfig, s.Value)
		}
	}
	reply, ctx := c.Later(), c.Context()
	go func() {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for i, result := range h.alter(ctx, asked, r.ValidateOnly) {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = asked[i].kind, asked[i].Name
			out.ErrorCode, out.ErrorMessage = int16(result.Err), errText(result.Err, result.Text)
			resp.Resources = append(resp.Resources, out)
		}
		reply(resp)
	}()
	return nil
}

// alteration is what a request wants of one resource.
type alteration struct {
	controller.ConfigAlteration
	kind kmsg.ConfigResourceType
	bad  controller.ConfigResult // what is wrong with it already
}

func (a *alteration) change(name string, op controller.ConfigOp, value *string) {
	change := controller.ConfigChange{Key: name, Op: op}
	switch {
	case name == "":
		a.bad = controller.ConfigResult{Err: kafka.InvalidRequest, Text: "A config without a name."}
	case value != nil:
		change.Value = *value
	case op != controller.DeleteConfig:
		a.bad = controller.ConfigResult{Err: kafka.InvalidRequest, Text: "Null value not supported for: " + name}
	}
	a.Changes = append(a.Changes, change)
}

// alterTimeoutMS bounds requests that carry no time-out of their own.
const alterTimeoutMS = 30_000

// alter blocks until the settings are committed and in force. What cannot be asked of the controller is answered without
// it; the results stand in the order of the resources.
func (h *Handlers) alter(ctx context.Context, asked []alteration, validateOnly bool) []controller.ConfigResult {
	out := make([]controller.ConfigResult, len(asked))
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	times := map[resource]int{}
	for i := range asked {
		times[resource{asked[i].kind, asked[i].Name}]++
	}
	var (
		valid []controller.ConfigAlteration
		at    []int
	)
	for i := range asked {
		a := &asked[i]
		switch out[i] = h.refuseAlteration(a); {
		case times[resource{a.kind, a.Name}] > 1:
			out[i] = controller.ConfigResult{Err: kafka.InvalidRequest, Text: "Each resource must appear at most once."}
		case out[i].Err == kafka.None:
			a.Kind = metadata.ResourceType(a.kind)
			valid, at = append(valid, a.ConfigAlteration), append(at, i)
		}
	}
	if len(valid) == 0 {
		return out
	}
	ctx, cancel := within(ctx, alterTimeoutMS)
	defer cancel()
	before := h.Image()
	results := h.Controller.AlterConfigs(ctx, valid, validateOnly)
	told := &toldLines{Logger: h.Logger, left: maxToldLines}
	for i, result := range results {
		out[at[i]] = result
		if result.Err == kafka.None && !validateOnly {
			h.tellAltered(told, before, h.Image(), &valid[i], &result)
		}
	}
	told.end()
	return out
}

// refuseAlteration says what is wrong with a resource before its settings are looked at.
func (h *Handlers) refuseAlteration(a *alteration) controller.ConfigResult {
	switch a.kind {
	case kmsg.ConfigResourceTypeTopic:
		if a.Name == "" {
			return controller.ConfigResult{Err: kafka.InvalidRequest, Text: "Default topic resources are not allowed."}
		}
		if err := kafka.ValidateTopicName(a.Name); err != nil {
			return controller.ConfigResult{Err: kafka.InvalidTopicException, Text: err.Error()}
		}
	case kmsg.ConfigResourceTypeBroker:
		if a.Name != "" {
			if code, text := h.otherBroker(a.Name, " or empty string,"); code != kafka.None {
				return controller.ConfigResult{Err: code, Text: text}
			}
		}
	default:
		return controller.ConfigResult{Err: kafka.InvalidRequest, Text: "Configs of resource type " + a.kind.String() + " cannot be altered here."}
	}
	return a.bad
}

// tellAltered logs what changed, which is less than what was asked for, and what of it has no effect.
func (h *Handlers) tellAltered(told *toldLines, before, after *metadata.Image, a *controller.ConfigAlteration, result *controller.ConfigResult) {
	what, name, key := "topic", a.Name, a.Name
	if a.Kind == metadata.BrokerResource {
		if what, name = "broker", "all"; a.Name != "" {
			name = strconv.Itoa(int(h.NodeID)) // however it was written
			key = name
		}
	}
	was, is := before.Config(a.Kind, key), after.Config(a.Kind, key)
	for _, property := range slices.Sorted(maps.Keys(was)) {
		if _, stays := is[property]; !stays {
			told.log(slog.LevelInfo, "setting removed", what, name, "property", *clip(property))
		}
	}
	for _, property := range slices.Sorted(maps.Keys(is)) {
		if old, had := was[property]; !had || old != is[property] {
			told.log(slog.LevelInfo, "setting changed", what, name, "property", *clip(property), "value", *clip(is[property]))
		}
	}
	for _, text := range result.Warnings {
		told.log(slog.LevelWarn, "setting "+*clip(text), what, name)
	}
}

// maxToldLines is how many lines one request may leave in the log.
const maxToldLines = 100

// toldLines is what one request logs: so many lines, and then how many more there were.
type toldLines struct {
	*slog.Logger
	left, more int
}

func (t *toldLines) log(level slog.Level, text string, args ...any) {
	if t.left == 0 {
		t.more++
		return
	}
	t.left--
	t.Log(context.Background(), level, text, args...)
}

func (t *toldLines) end() {
	if t.more > 0 {
		t.Info("settings: there were more such lines of one request", "lines", t.more)
	}
}
